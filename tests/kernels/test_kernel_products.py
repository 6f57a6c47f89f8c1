"""Products in half precision beside kernels in single precision: as torch.autocast has them, forward and backward."""

import ctypes
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.data.batch import make_batch
from regard.kernels.attention import Heads, attends, attention
from regard.kernels.library import loaded
from regard.kernels.products import narrowed, product_gradients, widened
from regard.kernels.rows import dropped, normed_projection, rectified
from regard.nn import TransformerEncoderLayer
from regard.nn.dropout import norm_projected, rectified_projection
from tests.toys import toy_system

HALF = torch.bfloat16
Loss = Callable[[], Tensor]


def gradients(module: nn.Module, loss: Tensor) -> dict[str, Tensor]:
    names, parameters = zip(*module.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad(loss, parameters), strict=True))


def apart(one: Tensor, other: Tensor) -> float:
    """How large the difference is, as a part of the other."""
    one, other = one.detach().double(), other.detach().double()
    return float((one - other).norm() / other.norm().clamp_min(1e-12))


def in_half(loss: Loss) -> Tensor:
    with torch.autocast("cpu", dtype=HALF):
        return loss()


def test_precision_follows_autocast() -> None:
    one, other = torch.randn(3, 4), torch.randn(2, 3).double()
    assert narrowed(one) is one
    assert widened(one) is one
    assert widened(other) is other
    with torch.autocast("cpu", dtype=HALF):
        assert narrowed(one).dtype is HALF
    assert widened(one.bfloat16()).dtype is torch.float32


@pytest.mark.parametrize("shape", [(7,), (3, 7), (2, 3, 7)])
def test_gradients_are_those_of_torch(shape: tuple[int, ...]) -> None:
    inputs, weight = (torch.randn(one, dtype=HALF, requires_grad=True) for one in (shape, (5, 7)))
    made = functional.linear(inputs, weight)
    errors = torch.randn_like(made)
    expected = torch.autograd.grad(made, (inputs, weight), errors)
    found = product_gradients(errors.view(-1, 5), inputs, weight, (True, True))
    for one, other, kind in zip(found, expected, (HALF, torch.float32), strict=True):
        assert one is not None
        assert one.dtype is kind
        assert torch.equal(one.to(HALF), other)
    assert product_gradients(errors.view(-1, 5), inputs, weight, (False, False)) == (None, None)


def encoder_layer() -> tuple[nn.Module, Loss]:
    torch.manual_seed(2)
    layer = TransformerEncoderLayer(width=32, heads=2, inner=48, norm_first=False, dropout=0.0, layer=0).train()
    states, mask = torch.randn(3, 6, 32), torch.ones(3, 1, 1, 6, dtype=torch.bool)
    mask[0, ..., 4:] = False
    return layer, lambda: (layer(states, mask) * torch.linspace(-1, 1, 32)).square().sum()


def system() -> tuple[nn.Module, Loss]:
    torch.manual_seed(3)
    made = toy_system(dropout=0.0, kind="transformer").train()
    batch = make_batch([[4, 5, 6], [7, 4]], [[5, 6], [4, 7, 8, 5]])
    return made, lambda: made.loss(batch).sum


def spied(name: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Filled with the name of a kernel whenever it is called."""
    calls: list[str] = []
    library = loaded().library
    kernel = getattr(library, f"regard_{name}")

    def called(*given: object) -> object:
        calls.append(name)
        return kernel(*given)

    monkeypatch.setattr(library, f"regard_{name}", called)
    return calls


@pytest.mark.parametrize(
    ("make", "in_halves", "by_torch"),
    [
        (encoder_layer, {"calls"}, {"attention", "normed", "rectified"}),
        (system, {"attention", "loss", "product"}, {"attention", "peaked"}),  # with the norm before each part
    ],
)
def test_kernels_change_no_more_than_half_precision_does(
    kernels: ctypes.CDLL,
    make: Callable[[], tuple[nn.Module, Loss]],
    in_halves: set[str],
    by_torch: set[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Against single precision, with kernels and without: both are as far from it as products in half precision are.

    Which kernels are asked depends on whether they make the products, too.
    """
    module, loss = make()
    exact = loss()
    wanted = gradients(module, exact)
    used = in_halves if kernels.regard_has_half() else by_torch
    counted = {name: spied(name, monkeypatch) for name in in_halves | by_torch}
    ours = in_half(loss)
    found = gradients(module, ours)
    assert {name for name, calls in counted.items() if calls} == used
    monkeypatch.setenv("REGARD_KERNELS", "off")
    loaded.cache_clear()
    theirs = in_half(loss)
    others = gradients(module, theirs)
    monkeypatch.undo()
    loaded.cache_clear()
    assert apart(ours, exact) < max(2 * apart(theirs, exact), 0.01)
    assert ours.item() != exact.item()  # products were narrow
    for name, one in wanted.items():
        assert found[name].dtype is torch.float32
        assert apart(found[name], one) < max(2 * apart(others[name], one), 0.03), name


def halves(*shapes: tuple[int, ...]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(7)
    return [torch.randn(shape, generator=generator).to(HALF).requires_grad_() for shape in shapes]


def assert_nearest(found: Tensor, wide: Tensor, slack: float) -> None:
    """What is found is the nearest number to a wide one, or to one that is no further from it than the slack."""
    found, wide = found.detach(), wide.detach()
    assert ((wide - slack).to(found.dtype) <= found).all()
    assert (found <= (wide + slack).to(found.dtype)).all()


def assert_rounded_once(made: Callable[..., Tensor], given: list[Tensor], slack: float = 0.0) -> None:
    """Values and gradients in half precision are the nearest ones to those of the same numbers in single precision.

    `slack` is for sums of single precision that are made in another order.
    """
    wide = [one.detach().float().requires_grad_() for one in given]
    ours, expected = made(*given), made(*wide)
    assert ours.dtype is HALF
    assert_nearest(ours, expected, slack)
    errors = torch.randn(ours.shape, generator=torch.Generator().manual_seed(8)).to(HALF)
    found = torch.autograd.grad(ours, given, errors)
    wanted = torch.autograd.grad(expected, wide, errors.float())
    for one, other in zip(found, wanted, strict=True):
        assert_nearest(one, other, slack)


@pytest.mark.parametrize(
    "size",
    [
        (2, 5, 7, 4, 4, 32),
        (1, 1, 1, 1, 1, 1),
        (2, 20, 20, 4, 2, 16),
        (2, 70, 40, 2, 1, 9),
        (3, 14, 14, 4, 4, 32),
        (2, 1, 17, 2, 2, 32),
        (2, 33, 33, 2, 2, 64),
        (1, 70, 40, 1, 1, 32),
        (1, 40, 70, 1, 1, 96),
        (2, 16, 16, 4, 2, 32),
    ],
)
@pytest.mark.parametrize("causal", [False, True])
def test_attention_rounds_once(kernels: ctypes.CDLL, size: tuple[int, ...], causal: bool) -> None:
    rows, queries, keys, heads, key_heads, width = size
    how = Heads(heads=heads, key_heads=key_heads, scale=1 / width**0.5, causal=causal)
    mask = torch.rand(rows, 1, 1, keys, generator=torch.Generator().manual_seed(1)) > 0.3
    given = halves((rows, queries, heads * width), (rows, keys, 2 * key_heads * width))
    assert attends(given[0], given[1], mask, how)
    assert not attends(given[0], given[1].float(), mask, how)
    assert_rounded_once(lambda query, joined: attention(query, joined, mask, how), given, slack=1e-6)


@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (5, 16), (4, 33), (2, 3, 48), (130, 65)])
@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_rectifiers_round_once(kernels: ctypes.CDLL, shape: tuple[int, ...], rate: float) -> None:
    bias = torch.linspace(-1, 1, shape[-1])

    def made(states: Tensor) -> Tensor:
        torch.manual_seed(4)
        return rectified(states * 1, bias, rate)

    assert_rounded_once(made, halves(shape))


@pytest.mark.parametrize("shape", [(3, 7), (5, 16), (2, 3, 48), (130, 65)])
@pytest.mark.parametrize("rate", [0.0, 0.3])
@pytest.mark.parametrize("narrow", [False, True])
def test_a_norm_takes_a_product_in_half_precision(
    kernels: ctypes.CDLL, shape: tuple[int, ...], rate: float, narrow: bool
) -> None:
    """`narrow`: what is projected comes in half precision already."""
    width, generator = shape[-1], torch.Generator().manual_seed(3)
    states, shift, gain, bias, inside, weight = (
        torch.randn(one, generator=generator).requires_grad_()
        for one in (shape, (width,), (width,), (width,), (*shape[:-1], 19), (width, 19))
    )
    read = inside.detach().to(HALF).requires_grad_() if narrow else inside
    torch.manual_seed(1)
    mask = dropped(torch.ones(shape), rate) if rate else torch.ones(shape)
    torch.manual_seed(1)
    with torch.autocast("cpu", dtype=HALF):
        ours = normed_projection(states, read, (weight, shift), rate, gain=gain, bias=bias, epsilon=1e-5)
    product = functional.linear(inside.to(HALF), weight.to(HALF)).float()
    expected = functional.layer_norm(states + (product + shift) * mask, (width,), gain, bias)
    assert ours.dtype is torch.float32
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-5)
    errors = torch.randn(shape, generator=generator)
    found = torch.autograd.grad(ours, (states, shift, gain, bias, read, weight), errors)
    wanted = torch.autograd.grad(expected, (states, shift, gain, bias, inside, weight), errors)
    for one, other in zip(found[:4], wanted[:4], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    for one, other in zip(found[4:], wanted[4:], strict=True):  # their errors were rounded before the product
        assert apart(one, other) < 0.01
    assert found[4].dtype is read.dtype
    assert found[5].dtype is torch.float32


def test_other_half_precision_is_left_to_torch(built: ctypes.CDLL) -> None:
    states, norm, projection = torch.randn(4, 6, 8), nn.LayerNorm(8), nn.Linear(8, 8)
    with torch.autocast("cpu", dtype=torch.float16):
        made = norm_projected(norm, states, states, projection, 0.0, True)
        active = rectified_projection(projection, states, 0.0, True)
    assert active.dtype is torch.float16
    torch.testing.assert_close(made.float(), norm(states + projection(states)), rtol=0.01, atol=0.02)
