"""What the loss of two draws that must agree keeps for those who learn from it, and what it refuses them."""

import ctypes

import pytest
import torch
from torch import Tensor

from regard.nn import Projection, projected_cross_entropy
from regard.nn.agreement import projected_agreement


def given(rows: int) -> Projection:
    made = torch.Generator().manual_seed(0)
    features, weight, bias = (torch.randn(shape, generator=made) for shape in ((rows, 4), (9, 4), (9,)))
    return Projection(features.requires_grad_(), weight.requires_grad_(), bias.requires_grad_())


def test_no_gradients_are_made_where_nobody_learns(kernels: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parameters ask for them, whoever calls."""

    def unwanted(*_: object) -> None:
        raise AssertionError("nobody learns")

    monkeypatch.setattr("regard.nn.agreement._add_gradients", unwanted)
    with torch.no_grad():
        total, *_ = projected_agreement(given(6), torch.tensor([1, 2, 3]), smoothing=0.1, weight=1.0)
    assert not total.requires_grad


@pytest.mark.parametrize("agrees", [True, False])
def test_second_derivatives_are_refused(kernels: ctypes.CDLL, agrees: bool) -> None:
    """Gradients are kept as numbers: those of gradients would be wrong without a word."""
    projection, labels = given(6), torch.tensor([1, 2, 3])

    def loss() -> Tensor:
        if agrees:
            return projected_agreement(projection, labels, smoothing=0.1, weight=1.0)[0]
        return projected_cross_entropy(projection, labels.repeat(2), 0.1)[0]

    (first,) = torch.autograd.grad(loss().square(), projection.features, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


def test_nothing_to_compare(kernels: ctypes.CDLL) -> None:
    projection = given(0)
    found = projected_agreement(projection, torch.zeros(0, dtype=torch.long), smoothing=0.1, weight=1.0)
    found[0].backward()
    assert [one.item() for one in found] == [0.0, 0.0, 0.0]
    assert projection.weight.grad is not None
    assert not projection.weight.grad.any()
