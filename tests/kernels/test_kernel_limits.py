"""What kernels must leave to torch: other labels, other shapes, modules that are more than their parameters."""

import ctypes

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from regard.nn import Projection, TransformerEncoderLayer, projected_cross_entropy
from regard.nn.dropout import dropout, norm_projected

MASK = torch.ones(3, 1, 1, 5, dtype=torch.bool)


def layer(rate: float = 0.0) -> TransformerEncoderLayer:
    torch.manual_seed(2)
    return TransformerEncoderLayer(width=16, heads=2, inner=24, norm_first=False, dropout=rate, layer=0).train()


def test_labels_are_numbers_of_64_bits_one_for_each_row(built: ctypes.CDLL) -> None:
    features, weight = torch.randn(64, 8, requires_grad=True), torch.randn(40, 8, requires_grad=True)
    labels = torch.randint(0, 40, (64,))
    expected = functional.cross_entropy(features @ weight.t(), labels, reduction="sum")
    for given in (labels, labels.int()):
        loss, _ = projected_cross_entropy(Projection(features, weight, None), given, smoothing=0.0)
        torch.testing.assert_close(loss.sum(), expected)
    with pytest.raises(RuntimeError):
        projected_cross_entropy(Projection(features, weight, None), labels[:2], smoothing=0.0)


def test_rows_that_are_stretched_are_left_to_torch(built: ctypes.CDLL) -> None:
    states, inside = torch.randn(4, 6, 8), torch.randn(1, 6, 12)
    norm, projection = nn.LayerNorm(8), nn.Linear(12, 8)
    made = norm_projected(norm, states, inside, projection, 0.0, True)
    torch.testing.assert_close(made, norm(states + projection(inside)))
    with pytest.raises(RuntimeError, match="normalized_shape"):
        norm_projected(nn.LayerNorm(7), states, inside, projection, 0.0, True)


class Adapted(nn.Linear):
    """A projection with something added."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__(base.in_features, base.out_features)
        self.load_state_dict(base.state_dict())
        self.more = nn.Parameter(torch.ones(base.out_features))

    def forward(self, given: Tensor) -> Tensor:
        return super().forward(given) + self.more


def parts(of: TransformerEncoderLayer) -> list[tuple[nn.Module, str]]:
    return [
        (of.attention, "query"),
        (of.attention, "key_value"),
        (of.attention, "output"),
        (of.feedforward, "inner"),
        (of.feedforward, "outer"),
    ]


def test_what_stands_in_the_place_of_a_projection_is_called_and_learns(built: ctypes.CDLL) -> None:
    ours = layer()
    for owner, name in parts(ours):
        setattr(owner, name, Adapted(getattr(owner, name)))
    states = torch.randn(3, 5, 16)
    trained = ours(states, MASK)
    trained.square().sum().backward()
    grads = [getattr(owner, name).more.grad for owner, name in parts(ours)]
    assert all(one is not None and one.abs().sum() > 0 for one in grads if one is not grads[1])
    torch.testing.assert_close(trained, ours.eval()(states, MASK))


def test_hooks_are_heard_in_training(built: ctypes.CDLL) -> None:
    ours, heard = layer(), []
    watched = [module for module in ours.modules() if isinstance(module, nn.Linear | nn.LayerNorm)]
    for module in watched:
        module.register_forward_hook(lambda one, *_: heard.append(one))
    ours(torch.randn(3, 5, 16), MASK)
    assert set(heard) == set(watched)
    assert len(heard) == len(watched) == 7


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_pass_that_is_made_again_drops_the_same(built: ctypes.CDLL, reentrant: bool) -> None:
    ours = layer(0.4)
    states = torch.randn(3, 5, 16, requires_grad=True)
    results = []
    for again in (False, True):
        torch.manual_seed(5)
        ours.zero_grad()
        states.grad = None
        made = checkpoint(ours, states, MASK, use_reentrant=reentrant) if again else ours(states, MASK)
        made.square().sum().backward()
        results.append([made.detach(), states.grad, *(one.grad.clone() for one in ours.parameters())])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)


def test_frozen_parameters_get_no_gradient(built: ctypes.CDLL) -> None:
    ours = layer()
    ours.requires_grad_(False)
    states = torch.randn(3, 5, 16, requires_grad=True)
    ours(states, MASK).square().sum().backward()
    assert states.grad is not None
    assert all(one.grad is None for one in ours.parameters())


def test_numbers_that_are_turned_around_only_in_name(built: ctypes.CDLL) -> None:
    states = torch.rand(4, 8) + 1
    assert (dropout(torch._neg_view(states), 0.3, True) <= 0).all()
