"""Attention in the engine's terms: queries, keys and values by one matrix each, and a product or additive score.

Shapes: H heads, G key heads, E width of a head, A inner width of an additive score, D width, C memory width.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.engine.container import Container
from regard.engine.refusals import refused
from regard.nn import Attention
from regard.nn.scores import AdditiveScore, BilinearScore


def array(tensor: Tensor) -> NDArray[np.float32]:
    """Weights as numpy has them."""
    return tensor.detach().float().contiguous().numpy()


@dataclass(frozen=True, slots=True)
class Projection:
    """x Wᵀ + b."""

    weight: Tensor
    bias: Tensor | None

    @classmethod
    def of(cls, linear: nn.Linear) -> "Projection":
        return cls(linear.weight.detach(), None if linear.bias is None else linear.bias.detach())

    def followed(self, weight: Tensor, bias: Tensor | None = None) -> "Projection":
        """This, and another map behind it."""
        moved = None if self.bias is None else weight @ self.bias
        total = bias if moved is None else moved if bias is None else moved + bias
        return Projection(weight @ self.weight, total)

    def write(self, container: Container, name: str) -> None:
        container.linear(name, array(self.weight), None if self.bias is None else array(self.bias))


@dataclass(frozen=True, slots=True)
class Plain:
    """An attention in the engine's terms; None where states are taken as they are."""

    heads: int
    key_heads: int
    width: int
    value_width: int
    scale: float
    query: Projection | None
    key: Projection | None
    value: Projection | None
    output: Projection | None
    energy: Tensor | None  # (H, A)


def plain(attention: Attention) -> Plain:
    """The same attention in other words."""
    query, key, value = _projections(attention)
    score, heads, groups = attention.score, attention.heads, attention.key_heads
    memory = attention.context_width if attention.output is None else attention.output.in_features
    values_width = memory // heads
    width, scale, energy = 0, 1.0, None
    match score:
        case AdditiveScore():
            if heads != groups:
                raise refused("an additive score shares keys between heads")
            width, energy = score.energy.size(1), score.energy.detach()
            query = _behind(query, torch.block_diag(*score.query.detach()), None)
            key = _behind(key, torch.block_diag(*score.key.detach()), score.bias.detach().flatten())
        case BilinearScore():
            width = score.weight.size(1)
            key = _behind(key, torch.block_diag(*score.weight.detach()), None)
        case _:
            assert score.scale is not None
            scale = score.scale
            width = values_width
    output = None if attention.output is None else Projection.of(attention.output)
    return Plain(heads, groups, width, values_width, scale, query, key, value, output, energy)


def _projections(attention: Attention) -> tuple[Projection | None, Projection | None, Projection | None]:
    """Of queries, keys and values, before what the score makes of them."""
    if attention.key_value is not None:
        assert attention.query is not None
        both = Projection.of(attention.key_value)
        keys, values = both.weight.chunk(2)
        key_bias, value_bias = (None, None) if both.bias is None else both.bias.chunk(2)
        return Projection.of(attention.query), Projection(keys, key_bias), Projection(values, value_bias)
    if attention.projections == "split":
        half = attention.context_width * attention.key_heads // attention.heads
        keys, values = torch.eye(2 * half).chunk(2)
        return None, Projection(keys, None), Projection(values, None)
    return None, None, None


def _behind(projection: Projection | None, weight: Tensor, bias: Tensor | None) -> Projection:
    return Projection(weight, bias) if projection is None else projection.followed(weight, bias)


def describe_attention(container: Container, name: str, attention: nn.Module) -> None:
    """Attention to a memory."""
    if not isinstance(attention, Attention):
        raise refused("its attention looks at a window (local-p)")
    parts = plain(attention)
    named = {"query": parts.query, "key": parts.key, "value": parts.value, "output": parts.output}
    for part, projection in named.items():
        container.settings[f"{name}.has_{part}"] = projection is not None
        if projection is not None:
            projection.write(container, f"{name}.{part}")
    if parts.output is not None:
        container.settings[f"{name}.outputs"] = parts.output.weight.size(0)
    container.settings[f"{name}.additive"] = parts.energy is not None
    if parts.energy is not None:
        container.floats(f"{name}.energy", array(parts.energy))
    for setting in ("heads", "key_heads", "width", "value_width", "scale"):
        container.settings[f"{name}.{setting}"] = getattr(parts, setting)
