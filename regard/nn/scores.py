"""How well a query fits a key: dot product, scaled dot product, bilinear, additive.

What a score can make of the keys alone is made once (`keys`), so that a query is compared with little work. Where the
rest is a product times a scale, the fused kernel can do it.

Shapes: B rows, Q queries, N keys, H heads, G key heads (each serves H / G heads), E width of a head, A inner width.
"""

import math
from abc import ABC, abstractmethod
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

ScoreName = Literal["dot", "scaled_dot", "bilinear", "additive"]


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

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        heads, key_heads = self.query.size(0), self.key.size(0)
        if heads != key_heads:
            keys = keys.repeat_interleave(heads // key_heads, dim=1)
        inner = torch.tanh(per_head(queries, self.query).unsqueeze(3) + keys.unsqueeze(2))  # (B, H, Q, N, A)
        if heads == 1:
            return functional.linear(inner, self.energy).squeeze(-1)
        return torch.einsum("bhqna,ha->bhqn", inner, self.energy)


def _uniform(*shape: int, fan: int) -> nn.Parameter:
    """As torch draws the weights of a linear layer with so many inputs."""
    return nn.Parameter(torch.empty(shape).uniform_(-1 / math.sqrt(fan), 1 / math.sqrt(fan)))


def per_head(states: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """A linear map for each head: (B, H, N, I), weight (H, O, I), bias (H, O) → (B, H, N, O)."""
    if weight.size(0) == 1:
        return functional.linear(states, weight[0], None if bias is None else bias[0])
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
