"""The feed-forward part against its equations."""

import math

import pytest
import torch
from torch import Tensor, nn

from regard.nn import FeedForward
from regard.nn.feedforward import Activation


def active(activation: Activation, number: float) -> float:
    if activation == "relu":
        return max(0.0, number)
    if activation == "gelu":
        return number * 0.5 * (1 + math.erf(number / math.sqrt(2)))
    return number / (1 + math.exp(-number))


def by_hand(module: FeedForward, states: Tensor) -> Tensor:
    result = []
    for row in states:
        inner = module.inner.weight @ row
        if module.activation == "swiglu":
            gate, value = inner[:7].tolist(), inner[7:].tolist()
            middle = [active("swiglu", one) * other for one, other in zip(gate, value, strict=True)]
        else:
            middle = [active(module.activation, number) for number in (inner + module.inner.bias).tolist()]
        out = module.outer.weight @ torch.tensor(middle, dtype=torch.float64)
        result.append(out if module.activation == "swiglu" else out + module.outer.bias)
    return torch.stack(result)


@pytest.mark.parametrize("activation", ["relu", "gelu", "swiglu"])
@torch.no_grad()
def test_every_activation_follows_its_equation(activation: Activation) -> None:
    module = FeedForward(width=4, inner=7, dropout=0.0, activation=activation).double()
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    states = torch.randn(5, 4, dtype=torch.float64)
    torch.testing.assert_close(module(states), by_hand(module, states), rtol=0, atol=1e-12)
    assert module.outer.weight.shape == (4, 7)
    assert (module.inner.bias is None) == (activation == "swiglu")
