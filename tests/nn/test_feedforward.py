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
    if activation == "geglu":
        return number * 0.5 * (1 + math.tanh(math.sqrt(2 / math.pi) * (number + 0.044715 * number**3)))
    return number / (1 + math.exp(-number))


def by_hand(module: FeedForward, states: Tensor) -> Tensor:
    result = []
    for row in states:
        inner = module.inner.weight @ row
        if module.inner.bias is not None:
            inner = inner + module.inner.bias
        if module.activation in ("swiglu", "geglu"):
            gate, value = inner[:7].tolist(), inner[7:].tolist()
            middle = [active(module.activation, one) * other for one, other in zip(gate, value, strict=True)]
        else:
            middle = [active(module.activation, number) for number in inner.tolist()]
        out = module.outer.weight @ torch.tensor(middle, dtype=torch.float64)
        result.append(out if module.outer.bias is None else out + module.outer.bias)
    return torch.stack(result)


@pytest.mark.parametrize("bias", [None, False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu", "silu", "swiglu", "geglu"])
@torch.no_grad()
def test_every_activation_follows_its_equation(activation: Activation, bias: bool | None) -> None:
    module = FeedForward(width=4, inner=7, dropout=0.0, activation=activation, bias=bias).double()
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    states = torch.randn(5, 4, dtype=torch.float64)
    torch.testing.assert_close(module(states), by_hand(module, states), rtol=0, atol=1e-12)
    assert module.outer.weight.shape == (4, 7)
    with_bias = activation not in ("swiglu", "geglu") if bias is None else bias
    assert (module.inner.bias is not None) == (module.outer.bias is not None) == with_bias
