"""Two draws that must agree, natively, against torch in double precision."""

import ctypes
import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from regard.kernels.agreement import agreed
from regard.nn import Projection
from regard.nn.agreement import projected_agreement


def drawn(*shape: int, seed: int = 0, scale: float = 1.0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * scale


def plainly(logits: Tensor, labels: Tensor, smoothing: float, weight: float) -> tuple[Tensor, Tensor, Tensor]:
    """The loss, the mean likelihood and the mean divergence of logits (2 P, V), by torch's own functions."""
    said, twice = logits.log_softmax(-1), labels.repeat(2)
    first, second = said.chunk(2)
    forth = functional.kl_div(second, first, reduction="sum", log_target=True)
    back = functional.kl_div(first, second, reduction="sum", log_target=True)
    smoothed = functional.cross_entropy(logits, twice, label_smoothing=smoothing, reduction="sum")
    divergence = 0.5 * (forth + back)
    likelihood = 0.5 * functional.nll_loss(said, twice, reduction="sum")
    return 0.5 * smoothed + weight * divergence, likelihood, divergence


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("scale", [0.1, 3.0, 40.0])
@pytest.mark.parametrize("width", [1, 3, 16, 33, 100, 1000])
def test_results_and_errors(kernels: ctypes.CDLL, width: int, scale: float, narrow: bool) -> None:
    logits = drawn(2, 5, width, scale=scale)
    labels = torch.tensor([0, width - 1, width // 2, width // 3, width // 4])
    exact = logits.flatten(0, 1).double().requires_grad_()
    total, likelihood, divergence = plainly(exact, labels, 0.1, 2.5)
    (wanted,) = torch.autograd.grad(total, exact)
    results = logits.new_empty(2, 5), logits.new_empty(2, 5), logits.new_empty(5)
    errors = torch.empty_like(logits, dtype=torch.bfloat16) if narrow else logits
    agreed(logits, labels, (0.9, 0.1 / width, 2.5), results, errors)
    size = max(1.0, scale)
    torch.testing.assert_close(0.5 * results[0].sum().double(), likelihood.detach(), rtol=1e-5, atol=1e-5 * size)
    torch.testing.assert_close(results[2].sum().double(), divergence.detach(), rtol=1e-4, atol=1e-5 * size)
    found = 0.5 * (0.9 * results[0] + 0.1 * results[1]).sum() + 2.5 * results[2].sum()
    torch.testing.assert_close(found.double(), total.detach(), rtol=1e-4, atol=1e-4 * size)
    tolerance = 1e-2 if narrow else 2e-5
    torch.testing.assert_close(errors.flatten(0, 1).double(), wanted, rtol=tolerance, atol=2e-5 * size)


def test_results_alone_leave_logits_as_they_are(kernels: ctypes.CDLL) -> None:
    logits = drawn(2, 3, 50)
    before, results = logits.clone(), (torch.empty(2, 3), torch.empty(2, 3), torch.empty(3))
    agreed(logits, torch.tensor([1, 2, 3]), (1.0, 0.0, 1.0), results, None)
    assert torch.equal(logits, before)
    assert all(one.isfinite().all() for one in results)


def test_what_all_logits_of_a_draw_have_in_common_means_nothing(kernels: ctypes.CDLL) -> None:
    logits = drawn(1, 4, 300, scale=2.0).repeat(2, 1, 1)
    logits[1] += drawn(4, 300, seed=1, scale=0.01)
    logits[0] += 64.0
    _, _, divergence = plainly(logits.flatten(0, 1).double(), torch.zeros(4, dtype=torch.long), 0.0, 1.0)
    results = torch.empty(2, 4), torch.empty(2, 4), torch.empty(4)
    agreed(logits, torch.zeros(4, dtype=torch.long), (1.0, 0.0, 1.0), results, None)
    torch.testing.assert_close(results[2].sum().double(), divergence, rtol=0.02, atol=0)


def test_what_is_no_number_is_told(kernels: ctypes.CDLL) -> None:
    logits, results = drawn(2, 2, 40), (torch.empty(2, 2), torch.empty(2, 2), torch.empty(2))
    logits[1, 0, 17] = math.nan
    agreed(logits, torch.tensor([1, 2]), (1.0, 0.0, 1.0), results, None)
    assert results[2].isnan().tolist() == [True, False]
    assert results[0][1].isnan().tolist() == [True, False]


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("at_a_time", [1, 1 << 22])
@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_loss_and_gradients_of_projections(
    kernels: ctypes.CDLL,
    monkeypatch: pytest.MonkeyPatch,
    kind: torch.dtype,
    at_a_time: int,
    bias: bool,
    smoothing: float,
) -> None:
    """Also a pair at a time, and in double precision, where there is no kernel."""
    monkeypatch.setattr("regard.nn.agreement.AT_A_TIME", at_a_time)
    parts = [drawn(14, 9, seed=1), drawn(37, 9, seed=2), drawn(37, seed=3)][: 2 + bias]
    given = [one.to(kind).requires_grad_() for one in parts]
    exact = [one.double().requires_grad_() for one in parts]
    labels = torch.tensor([0, 36, 5, 5, 20, 1, 2])
    projection = Projection(given[0], given[1], given[2] if bias else None)
    found = projected_agreement(projection, labels, smoothing=smoothing, weight=1.5)
    logits = functional.linear(exact[0], exact[1], exact[2] if bias else None)
    wanted = plainly(logits, labels, smoothing, 1.5)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-5, atol=1e-5)
    assert not found[1].requires_grad
    assert not found[2].requires_grad
    of_found = torch.autograd.grad(0.7 * found[0], given)
    of_wanted = torch.autograd.grad(0.7 * wanted[0], exact)
    for one, other in zip(of_found, of_wanted, strict=True):
        assert one.dtype is kind
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("pairs_at_a_time", [1, 2, 59, 60])
def test_half_precision(built: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch, pairs_at_a_time: int) -> None:
    """Those of rounded factors, but for the rounding of errors. A pair may be alone, its draws far from each other."""
    monkeypatch.setattr("regard.nn.agreement.AT_A_TIME", 2 * 300 * pairs_at_a_time)
    given = [drawn(120, 64, seed=1), drawn(300, 64, seed=2, scale=0.2), drawn(300, seed=3)]
    given = [one.requires_grad_() for one in given]
    labels = torch.arange(60) * 5
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = projected_agreement(Projection(*given), labels, smoothing=0.1, weight=2.5)
    exact = [one.detach().bfloat16().double().requires_grad_() for one in given[:2]]
    exact.append(given[2].detach().double().requires_grad_())
    wanted = plainly(functional.linear(*exact), labels, 0.1, 2.5)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=5e-3, atol=1e-3)
    gradients = torch.autograd.grad(found[0], given), torch.autograd.grad(wanted[0], exact)
    for one, other in zip(*gradients, strict=True):
        assert float((one.double() - other).norm()) <= 0.01 * float(other.norm())


def test_nothing_is_learned_where_nobody_learns(kernels: ctypes.CDLL) -> None:
    with torch.no_grad():
        projection, labels = Projection(drawn(6, 4), drawn(9, 4, seed=1)), torch.tensor([1, 2, 3])
        found = projected_agreement(projection, labels, smoothing=0.0, weight=1.0)
        wanted = plainly(projection.logits().double(), labels, 0.0, 1.0)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-5, atol=1e-5)
        assert not one.requires_grad
