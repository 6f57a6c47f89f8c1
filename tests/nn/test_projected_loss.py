"""The loss of logits that are never all there, against torch's of logits that are."""

import pytest
import torch
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from regard.nn import Projection, loss, projected_cross_entropy

WIDTH, VOCABULARY = 6, 11


def drawn(tokens: int, *, bias: bool, dtype: torch.dtype = torch.float64) -> tuple[Projection, torch.Tensor]:
    generator = torch.Generator().manual_seed(tokens)
    shapes = ((tokens, WIDTH), (VOCABULARY, WIDTH), (VOCABULARY,))
    made = [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_() for shape in shapes]
    labels = torch.randint(VOCABULARY, (tokens,), generator=generator)
    return Projection(made[0], made[1], made[2] if bias else None), labels


def parameters(projection: Projection) -> list[torch.Tensor]:
    return [one for one in (projection.features, projection.weight, projection.bias) if one is not None]


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("tokens", "at_a_time"), [(1, 1), (7, 3), (9, 3), (5, 100)])
def test_value_and_gradients_are_those_of_torch(
    monkeypatch: pytest.MonkeyPatch, tokens: int, at_a_time: int, bias: bool, smoothing: float
) -> None:
    monkeypatch.setattr(loss, "AT_A_TIME", at_a_time * VOCABULARY)
    projection, labels = drawn(tokens, bias=bias)
    total, likelihood = projected_cross_entropy(projection, labels, smoothing)
    logits = projection.logits()
    expected = functional.cross_entropy(logits, labels, label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(total, expected, rtol=0, atol=1e-12)
    plain = functional.cross_entropy(logits, labels, reduction="sum")
    torch.testing.assert_close(likelihood, plain, rtol=0, atol=1e-12)
    assert not likelihood.requires_grad
    ours = torch.autograd.grad(0.3 * total, parameters(projection))
    theirs = torch.autograd.grad(0.3 * expected, parameters(projection))
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


def test_what_does_not_learn_has_no_gradient() -> None:
    projection, labels = drawn(4, bias=True)
    projection.weight.requires_grad_(False)
    total, _ = projected_cross_entropy(projection, labels, 0.1)
    total.backward()
    assert projection.weight.grad is None
    assert projection.features.grad is not None
    with torch.no_grad():
        again, _ = projected_cross_entropy(projection, labels, 0.1)
    assert not again.requires_grad
    assert float(again) == total.item()


def test_no_tokens_cost_nothing_and_have_gradients_of_nothing() -> None:
    projection, labels = drawn(0, bias=True)
    total, likelihood = projected_cross_entropy(projection, labels, 0.1)
    total.backward()
    assert (total.item(), likelihood.item()) == (0.0, 0.0)
    assert projection.weight.grad is not None
    assert not projection.weight.grad.any()


def test_half_precision_products_are_near_and_sums_are_wide() -> None:
    projection, labels = drawn(200, bias=True, dtype=torch.float32)
    exact, _ = projected_cross_entropy(projection, labels, 0.1)
    expected = torch.autograd.grad(exact, parameters(projection))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        total, _ = projected_cross_entropy(projection, labels, 0.1)
    assert total.dtype == torch.float32
    assert total.item() == pytest.approx(exact.item(), rel=0.01)
    found = torch.autograd.grad(total, parameters(projection))
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == torch.float32
        assert float((one - other).norm() / other.norm()) < 0.02


def test_what_is_not_finite_shows() -> None:
    projection, labels = drawn(3, bias=False)
    with torch.no_grad():
        projection.features[1, 0] = torch.nan
    total, likelihood = projected_cross_entropy(projection, labels, 0.1)
    assert total.isnan()
    assert likelihood.isnan()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_probabilities_that_vanish_still_have_a_logarithm(smoothing: float) -> None:
    features = torch.tensor([[1.0], [400.0], [2.0]], requires_grad=True)
    weight = torch.tensor([[1.0], [0.0], [-1.0]], requires_grad=True)
    labels = torch.tensor([0, 2, 1])
    total, likelihood = projected_cross_entropy(Projection(features, weight), labels, smoothing)
    logits = features.detach().double() @ weight.detach().double().T
    expected = functional.cross_entropy(logits, labels, label_smoothing=smoothing, reduction="sum")
    assert total.item() == pytest.approx(expected.item(), rel=1e-6)
    assert likelihood.item() == pytest.approx(
        functional.cross_entropy(logits, labels, reduction="sum").item(), rel=1e-6
    )
    total.backward()
    assert features.grad is not None
    assert features.grad.isfinite().all()


def test_without_gradients_none_are_made() -> None:
    """A parameter says that it needs one even then; the gradient of the weight is as large as the weight."""
    weight = torch.nn.Parameter(torch.randn(50, 8))
    made = Projection(torch.randn(6, 8), weight, torch.nn.Parameter(torch.zeros(50)))
    labels = torch.arange(6)
    with_gradients, _ = projected_cross_entropy(made, labels, 0.1)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        total, _ = projected_cross_entropy(made, labels, 0.1)
    assert counter.get_total_flops() == 2 * 6 * 8 * 50
    torch.testing.assert_close(total, with_gradients.detach())
