"""How well a query fits a key: dot product, scaled dot product, bilinear, additive.

What a score can make of the keys alone is made once (`keys`), so that a query is compared with little work. Where the
rest is a product times a scale, the fused kernel can do it.

Shapes: B rows, Q queries, N keys, H heads, G key heads (each serves H / G heads), E width of a head, A inner width.
"""

import math
from abc import ABC, abstractmethod
from typing import Any, Final, Literal

import torch
from torch import Tensor, nn

from regard.nn.linear import linear

ScoreName = Literal["dot", "scaled_dot", "bilinear", "additive"]

IN_CACHE: Final = 1 << 17
"""Numbers that are worked on at once: half a megabyte in single precision."""


class Score(nn.Module, ABC):
    """Compares queries with keys. `scale` is that of the product of query and key; None: the score is no product."""

    scale: float | None

    def keys(self, keys: Tensor) -> Tensor:
        """What is made of the keys once: (B, G, N, ·) → (B, G, N, ·)."""
        return keys

    @abstractmethod
    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Queries (B, H, Q, ·) and prepared keys (B, G, N, ·) → (B, H, Q, N)."""


class DotScore(Score):
    """qᵀ k · scale. Vaswani et al. 2017, section 3.2.1, have scale = 1 / √E; Luong et al. 2015 have 1 (their `dot`)."""

    def __init__(self, *, scale: float) -> None:
        super().__init__()
        self.scale: float = scale

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        return product(queries, keys) * self.scale


class BilinearScore(Score):
    """qᵀ W k, a matrix for each key head. Luong et al. 2015, section 3.1 (their `general`). W k is made once."""

    scale: float = 1.0

    def __init__(self, *, key_heads: int, query_width: int, key_width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(key_heads, query_width, key_width))
        for head in self.weight:
            nn.init.xavier_uniform_(head)

    def keys(self, keys: Tensor) -> Tensor:
        return per_head(keys, self.weight)

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        return product(queries, keys)


class AdditiveScore(Score):
    """vᵀ tanh(W q + U k + b), a network for each head. Bahdanau et al. 2015, A.1.2. U k + b is made once."""

    scale = None

    def __init__(self, *, heads: int, key_heads: int, query_width: int, key_width: int, inner: int) -> None:
        super().__init__()
        self.query = _uniform(heads, inner, query_width, fan=query_width)
        self.key = _uniform(key_heads, inner, key_width, fan=key_width)
        self.bias = _uniform(key_heads, inner, fan=key_width)
        self.energy = _uniform(heads, inner, fan=inner)

    def keys(self, keys: Tensor) -> Tensor:
        return per_head(keys, self.key, self.bias)

    def mapped(self, queries: Tensor) -> Tensor:
        """W q of one head: (B, Q, ·) → (B, Q, A)."""
        return linear(queries, self.query[0])

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        heads, key_heads = self.query.size(0), self.key.size(0)
        if heads == 1:
            return compare(self.mapped(queries[:, 0]), keys[:, 0], self.energy[0])[0].unsqueeze(1)
        if heads != key_heads:
            keys = keys.repeat_interleave(heads // key_heads, dim=1)
        inner = torch.tanh(per_head(queries, self.query).unsqueeze(3) + keys.unsqueeze(2))  # (B, H, Q, N, A)
        return torch.einsum("bhqna,ha->bhqn", inner, self.energy)


def compare(queries: Tensor, keys: Tensor, energy: Tensor) -> tuple[Tensor, Tensor]:
    """vᵀ tanh(q + k) of each pair, and the keys again: (B, Q, A), (B, N, A), v (A,) → (B, Q, N), (B, N, A).

    A few rows at a time, which a cache can hold. Where the same keys are compared step after step, each step can take
    the keys that the one before it returned: their gradient is then one sum, to which each step adds in its turn.
    """
    inputs = queries, keys, energy.to(queries.dtype)
    if not torch.is_grad_enabled():  # parameters would say that they need a gradient, and all rows would be kept for it
        inputs = inputs[0].detach(), inputs[1].detach(), inputs[2].detach()
    scores, same = _Compared.apply(*inputs)  # type: ignore[no-untyped-call]
    return scores, same


class _Compared(torch.autograd.Function):
    """With u = tanh(q + k): ∂/∂q = Σ_n e_n v ∘ (1 - u²), ∂/∂k the same over queries, ∂/∂v = Σ e u."""

    @staticmethod
    def forward(ctx: Any, queries: Tensor, keys: Tensor, energy: Tensor) -> tuple[Tensor, Tensor]:
        (rows, asked, width), items = queries.shape, keys.size(1)
        learns = any(ctx.needs_input_grad)
        at_a_time = _at_a_time(asked * items * width)
        inner = queries.new_empty(rows if learns else min(rows, at_a_time), asked, items, width)
        scores = queries.new_empty(rows, asked, items)
        for start in range(0, rows, at_a_time):
            block = slice(start, min(rows, start + at_a_time))
            part = inner[block] if learns else inner[: block.stop - start]
            torch.add(queries[block].unsqueeze(2), keys[block].unsqueeze(1), out=part).tanh_()
            torch.mv(part.view(-1, width), energy, out=scores[block].view(-1))
        ctx.save_for_backward(inner if learns else None, energy)
        ctx.set_materialize_grads(False)
        return scores, keys

    @staticmethod
    def backward(ctx: Any, of_scores: Tensor | None, of_same: Tensor | None) -> tuple[Tensor | None, ...]:
        if of_scores is None:
            return None, of_same, None
        inner, energy = ctx.saved_tensors
        rows, asked, items, width = inner.shape
        of_queries = inner.new_empty(rows, asked, width)
        of_keys = inner.new_zeros(rows, items, width) if of_same is None else of_same
        of_energy = torch.zeros_like(energy)
        at_a_time = _at_a_time(asked * items * width)
        scratch = torch.empty_like(inner[:at_a_time])
        for start in range(0, rows, at_a_time):
            block = slice(start, min(rows, start + at_a_time))
            given, part, errors = inner[block], scratch[: block.stop - start], of_scores[block]
            of_energy += given.view(-1, width).t() @ errors.reshape(-1)
            torch.mul(errors.unsqueeze(-1), energy, out=part)
            torch.ops.aten.tanh_backward.grad_input(part, given, grad_input=part)
            torch.sum(part, dim=2, out=of_queries[block])
            of_keys[block] += part.squeeze(1) if asked == 1 else part.sum(1)
        return of_queries, of_keys, of_energy


def _at_a_time(numbers: int) -> int:
    """How many rows of so many numbers are worked on at once."""
    return max(1, IN_CACHE // max(1, numbers))


def _uniform(*shape: int, fan: int) -> nn.Parameter:
    """As torch draws the weights of a linear layer with so many inputs."""
    return nn.Parameter(torch.empty(shape).uniform_(-1 / math.sqrt(fan), 1 / math.sqrt(fan)))


def per_head(states: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """A linear map for each head: (B, H, N, I), weight (H, O, I), bias (H, O) → (B, H, N, O)."""
    if weight.size(0) == 1:
        return linear(states, weight[0], None if bias is None else bias[0])
    mapped = torch.einsum("bhni,hoi->bhno", states, weight)
    return mapped if bias is None else mapped + bias.unsqueeze(1)


def product(queries: Tensor, keys: Tensor) -> Tensor:
    """qᵀ k of each pair: (B, H, Q, E), (B, G, N, E) → (B, H, Q, N). Head h meets key head ⌊h G / H⌋."""
    if queries.size(1) == keys.size(1):
        return queries @ keys.transpose(-1, -2)
    grouped = queries.unflatten(1, (keys.size(1), -1))  # (B, G, H / G, Q, E)
    return (grouped @ keys.transpose(-1, -2).unsqueeze(2)).flatten(1, 2)


def weighted(weights: Tensor, values: Tensor) -> Tensor:
    """Σ_n weights_n · values_n: (B, H, Q, N), (B, G, N, E) → (B, H, Q, E)."""
    if weights.size(1) == values.size(1):
        return weights @ values
    grouped = weights.unflatten(1, (values.size(1), -1))  # (B, G, H / G, Q, N)
    return (grouped @ values.unsqueeze(2)).flatten(1, 2)
