"""The loss against torch's."""

import pytest
import torch
from torch.nn import functional

from regard.nn import smoothed_cross_entropy


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
def test_smoothed_cross_entropy_equals_that_of_torch(smoothing: float) -> None:
    logits = (3 * torch.randn(7, 5, dtype=torch.float64)).requires_grad_()
    labels = torch.tensor([0, 1, 2, 3, 4, 0, 2])
    total, likelihood = smoothed_cross_entropy(logits, labels, smoothing)
    expected = functional.cross_entropy(logits, labels, label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(total, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(
        likelihood, functional.cross_entropy(logits, labels, reduction="sum"), rtol=0, atol=1e-12
    )
    (ours,) = torch.autograd.grad(total, logits, retain_graph=True)
    (theirs,) = torch.autograd.grad(expected, logits)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


def test_no_tokens_cost_nothing() -> None:
    total, likelihood = smoothed_cross_entropy(torch.empty(0, 5), torch.empty(0, dtype=torch.long), 0.1)
    assert (float(total), float(likelihood)) == (0.0, 0.0)


def test_large_logits_stay_finite() -> None:
    total, _ = smoothed_cross_entropy(torch.tensor([[1e4, -1e4]]), torch.tensor([1]), 0.1)
    assert float(total) == pytest.approx(0.9 * 2e4 + 0.1 * 1e4)
