"""Dropout and what stands beside it, against plain expressions in double precision with the same numbers dropped."""

import ctypes
import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from regard.kernels.calls import LEVELS, chance
from regard.kernels.rows import added, dropped, normed_projection, rectified

SHAPES = [(1, 1), (1, 128), (3, 7), (5, 16), (4, 33), (2, 3, 48), (130, 65), (7, 250), (9,)]


def factors(shape: tuple[int, ...], rate: float, seed: int) -> Tensor:
    """By what each number is multiplied after `torch.manual_seed(seed)`."""
    torch.manual_seed(seed)
    return dropped(torch.ones(shape), rate).double()


def drawn(*shapes: tuple[int, ...]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(5)
    return [torch.randn(shape, generator=generator).requires_grad_() for shape in shapes]


def doubled(tensors: list[Tensor]) -> list[Tensor]:
    return [one.detach().double().requires_grad_() for one in tensors]


def assert_same(ours: Tensor, expected: Tensor, given: list[Tensor], wide: list[Tensor], *, scale: float = 1.0) -> None:
    """Values and gradients; errors of single precision grow with the numbers that are summed."""
    torch.testing.assert_close(ours.double(), expected, rtol=1e-5, atol=2e-6)
    gradient = torch.randn(ours.shape, generator=torch.Generator().manual_seed(6))
    found = torch.autograd.grad(ours, given, gradient)
    wanted = torch.autograd.grad(expected, wide, gradient.double())
    for one, other in zip(found, wanted, strict=True):
        assert one.shape == other.shape
        torch.testing.assert_close(one.double(), other, rtol=1e-5, atol=4e-6 * scale)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rate", [0.1, 0.6])
def test_each_is_its_plain_expression(kernels: ctypes.CDLL, shape: tuple[int, ...], rate: float) -> None:
    given = drawn(shape, shape)
    wide, mask = doubled(given), factors(shape, rate, 1)
    torch.manual_seed(1)
    assert_same(dropped(given[0], rate), wide[0] * mask, given[:1], wide[:1])
    torch.manual_seed(1)
    assert_same(added(*given, rate), wide[0] + wide[1] * mask, given, wide)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rate", [0.0, 0.1, 0.6])
def test_a_rectifier_adds_the_bias_and_writes_over_what_it_is_given(
    kernels: ctypes.CDLL, shape: tuple[int, ...], rate: float
) -> None:
    given = drawn(shape, shape[-1:])
    wide, mask = doubled(given), factors(shape, rate, 1) if rate else torch.ones(shape, dtype=torch.float64)
    product = given[0] * 2
    torch.manual_seed(1)
    ours = rectified(product, given[1], rate)
    assert ours.data_ptr() == product.data_ptr()
    scale = max(1, math.sqrt(ours.numel() / shape[-1]))
    assert_same(ours, (wide[0] * 2 + wide[1]).relu() * mask, given, wide, scale=scale)


def test_who_has_kept_what_is_written_over_complains(built: ctypes.CDLL) -> None:
    result, bias = drawn((4, 6), (6,))
    kept = result.exp()  # whose gradient is itself
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        rectified(kept, bias, 0.1).sum().backward()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rate", [0.0, 0.3])
@pytest.mark.parametrize("inner", [1, 19])
def test_the_norm_of_a_sum_with_a_projection_is_that_of_torch(
    kernels: ctypes.CDLL, shape: tuple[int, ...], rate: float, inner: int
) -> None:
    width = shape[-1]
    given = drawn(shape, (*shape[:-1], inner), (width, inner), (width,), (width,), (width,))
    wide = doubled(given)
    mask = factors(shape, rate, 2) if rate else torch.ones(shape, dtype=torch.float64)
    torch.manual_seed(2)
    states, inside, weight, shift, gain, bias = given
    ours = normed_projection(states, inside, (weight, shift), rate, gain=gain, bias=bias, epsilon=1e-3)
    states, inside, weight, shift, gain, bias = wide
    result = functional.linear(inside, weight, shift) * mask
    expected = functional.layer_norm(states + result, (width,), gain, bias, 1e-3)
    assert_same(ours, expected, given, wide, scale=10 * max(1, math.sqrt(ours.numel() / width)))


def test_what_is_not_a_number_stays_so(built: ctypes.CDLL) -> None:
    states = torch.full((2, 40), math.nan)
    assert dropped(states, 0.5).isnan().all()
    assert rectified(states, torch.zeros(40), 0.5).isnan().all()


@pytest.mark.parametrize("rate", [0.0005, 0.1, 0.3, 0.5, 0.99])
def test_rates_are_met_and_nothing_is_lost_on_average(kernels: ctypes.CDLL, rate: float) -> None:
    mask = factors((500, 1000), rate, 3)
    share = float((mask == 0).double().mean())
    made = round(rate * LEVELS) / LEVELS
    assert abs(made - rate) <= 0.5 / LEVELS
    assert abs(share - made) < 5 * math.sqrt(made * (1 - made) / mask.numel())
    assert float(mask.max()) * (1 - made) == pytest.approx(1, abs=1e-6)


def test_all_columns_and_rows_are_dropped_alike(built: ctypes.CDLL) -> None:
    """Chi-square with as many degrees of freedom as there are columns or rows, at five standard deviations."""
    rate = round(0.25 * LEVELS) / LEVELS
    zeros = (factors((2000, 96), 0.25, 4) == 0).double()
    for axis in (0, 1):
        count, kinds = zeros.size(axis), zeros.size(1 - axis)
        found = ((zeros.sum(axis) - count * rate).square() / (count * rate * (1 - rate))).sum()
        assert abs(float(found) - kinds) < 5 * math.sqrt(2 * kinds)


@pytest.mark.parametrize(
    ("down", "along"), [(0, 1), (0, 8), (0, 16), (0, 32), (0, 48), (1, 0), (1, 1), (2, 16), (64, 0)]
)
def test_neighbours_know_nothing_of_each_other(built: ctypes.CDLL, down: int, along: int) -> None:
    kept = (factors((2000, 128), 0.5, 5) != 0).double()
    one, other = kept[down:, along:], kept[: 2000 - down, : 128 - along]
    both = float(((one - 0.5) * (other - 0.5)).mean()) / 0.25
    assert abs(both) < 5 / math.sqrt(one.numel())


def test_seeds_know_nothing_of_each_other(built: ctypes.CDLL) -> None:
    def mask(seed: int) -> Tensor:
        from regard.kernels.rows import _drop

        return (_drop(torch.ones(1000, 128), 0.5, seed) != 0).double() - 0.5

    first = mask(77)
    for other in (78, 76, 77 + 2**32, -77, 77 ^ 2**63):
        assert abs(float((first * mask(other)).mean()) / 0.25) < 5 / math.sqrt(first.numel())
    assert torch.equal(first, mask(77))


def test_every_set_of_kernels_drops_the_same(built: ctypes.CDLL) -> None:
    best = built.regard_kernels_used()
    masks = []
    for name in (best, b"avx2", b"portable"):
        if built.regard_use_kernels(name):
            masks.append(factors((30, 77), 0.4, 6))
    built.regard_use_kernels(best)
    assert len(masks) > 1
    assert all(torch.equal(mask, masks[0]) for mask in masks)


def test_keys_follow_from_the_seed(built: ctypes.CDLL) -> None:
    one, same, other = chance(0.1, 5), chance(0.1, 5), chance(0.1, 6)
    assert list(one.keys) == list(same.keys)
    assert not set(one.keys) & set(other.keys)
    assert one.limit == round(0.1 * LEVELS)


def test_threads_change_nothing(built: ctypes.CDLL) -> None:
    given = drawn((700, 128), (700, 64), (128, 64), (128,), (128,), (128,))
    states, inside, weight, shift, gain, bias = given
    results = []
    before = torch.get_num_threads()
    for count in (1, 2, 3):
        torch.set_num_threads(count)
        try:
            torch.manual_seed(8)
            made = normed_projection(states, inside, (weight, shift), 0.2, gain=gain, bias=bias, epsilon=1e-5)
            made = made + rectified(states * 1.0, bias, 0.2)
            others = [states, inside, shift, gain, bias]  # products of torch may depend on threads
            results.append([made, *torch.autograd.grad(made, others, torch.ones_like(made))])
        finally:
            torch.set_num_threads(before)
    for other in results[1:]:
        assert all(torch.equal(one, another) for one, another in zip(results[0], other, strict=True))


def test_second_derivatives_are_refused(built: ctypes.CDLL) -> None:
    (states,) = drawn((3, 4))
    (gradient,) = torch.autograd.grad(dropped(states, 0.5).square().sum(), states, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()
