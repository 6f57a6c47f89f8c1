"""The errors of a wide softmax, against torch's."""

import ctypes

import pytest
import torch
from torch.nn import functional

from regard.kernels.softmax import peaked
from regard.nn import Projection, projected_cross_entropy


@pytest.mark.parametrize("writes", [False, True])
@pytest.mark.parametrize(("rows", "width"), [(1, 1), (3, 5), (4, 64), (9, 1000), (2, 131)])
def test_errors_likelihoods_and_normalisers(kernels: ctypes.CDLL, rows: int, width: int, writes: bool) -> None:
    generator = torch.Generator().manual_seed(width)
    logits = torch.randn(rows, width, generator=generator) * 5
    labels = torch.randint(width, (rows,), generator=generator)
    wide, given = logits.double(), logits.clone()
    results = torch.empty(3, rows)
    peaked(given, labels, 0.9, (results[0], results[1], results[2]), writes=writes)
    chosen = wide.log_softmax(-1).gather(-1, labels[:, None]).squeeze(-1)
    torch.testing.assert_close(results[0].double(), chosen, rtol=1e-6, atol=2e-6)
    torch.testing.assert_close(results[1].double(), wide.logsumexp(-1), rtol=1e-6, atol=2e-6)
    if not writes:
        assert torch.equal(given, logits)
        return
    error = wide.softmax(-1) - 0.9 * functional.one_hot(labels, width)
    torch.testing.assert_close(given.double() * results[2].double()[:, None], error, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("rows", "width"), [(1, 1), (3, 5), (4, 64), (9, 1000), (2, 131)])
def test_logits_of_half_precision_round_once(kernels: ctypes.CDLL, rows: int, width: int) -> None:
    """What is written is the nearest bfloat16 of what single precision writes, and the rest is the same."""
    generator = torch.Generator().manual_seed(width)
    given = (torch.randn(rows, width, generator=generator) * 5).bfloat16()
    labels = torch.randint(width, (rows,), generator=generator)
    wide, found, expected = given.float(), torch.empty(3, rows), torch.empty(3, rows)
    for logits, results in ((given, found), (wide, expected)):
        peaked(logits, labels, 0.9, (results[0], results[1], results[2]), writes=True)
    assert torch.equal(given, wide.bfloat16())
    assert torch.equal(found, expected)
    broken = torch.tensor([[0.0, torch.nan, 1.0]], dtype=torch.bfloat16)
    peaked(broken, torch.tensor([0]), 0.9, (found[0, :1], found[1, :1], found[2, :1]), writes=True)
    assert broken[0, 1].isnan()
    assert found[1, 0].isnan()


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_of_single_precision(kernels: ctypes.CDLL, bias: bool, smoothing: float) -> None:
    generator = torch.Generator().manual_seed(1)
    shapes = ((50, 24), (300, 24), (300,))
    made = [torch.randn(shape, generator=generator).requires_grad_() for shape in shapes][: 3 if bias else 2]
    labels = torch.randint(300, (50,), generator=generator)
    total, likelihood = projected_cross_entropy(Projection(*made), labels, smoothing)
    wide = [one.detach().double().requires_grad_() for one in made]
    logits = Projection(*wide).logits()
    expected = functional.cross_entropy(logits, labels, label_smoothing=smoothing, reduction="sum")
    assert total.item() == pytest.approx(expected.item(), rel=1e-6)
    plain = functional.cross_entropy(logits, labels, reduction="sum")
    assert likelihood.item() == pytest.approx(plain.item(), rel=1e-6)
    for one, other in zip(torch.autograd.grad(total, made), torch.autograd.grad(expected, wide), strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("label", [-1, 7])
def test_a_label_outside_of_the_vocabulary_is_told_by_torch(built: ctypes.CDLL, label: int) -> None:
    with pytest.raises((IndexError, RuntimeError), match="out of bounds"):
        projected_cross_entropy(Projection(torch.randn(2, 3), torch.randn(7, 3)), torch.tensor([0, label]), 0.1)


def test_threads_change_nothing(built: ctypes.CDLL) -> None:
    logits, labels = torch.randn(70, 500), torch.arange(70)
    results = []
    before = torch.get_num_threads()
    for count in (1, 2):
        torch.set_num_threads(count)
        try:
            given, rest = logits.clone(), torch.empty(3, 70)
            peaked(given, labels, 0.9, (rest[0], rest[1], rest[2]), writes=True)
            results.append((given, rest))
        finally:
            torch.set_num_threads(before)
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))
