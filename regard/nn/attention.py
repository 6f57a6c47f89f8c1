"""Attention: compare a query with every key, and take the mean of the values weighted by how well they fit.

Score, heads and projections are independent choices. There are two paths with the same result: the fused kernel (scaled
dot product only), and the explicit one, which makes the weights; it is taken when somebody looks (`nn.sites`), or when
the score has no fused kernel. No hidden state is kept between calls: keys are prepared once and handed in.

Shapes: B rows, Q queries, N keys, H heads, D width, E = D / H.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.nn.dropout import dropout
from regard.nn.sites import Site, visit, watched


@dataclass(frozen=True, slots=True)
class Keys:
    """What an attention keeps of the attended states."""

    keys: Tensor  # (B, H, N, E)
    values: Tensor  # (B, H, N, E)


def weighted(weights: Tensor, values: Tensor) -> Tensor:
    """Σ_n weights_n · values_n: (B, H, Q, N), (B, H, N, E) → (B, H, Q, E)."""
    return weights @ values


def _past(query: Tensor, keys: Keys, mask: Tensor | None) -> Tensor:
    """What `mask` permits of keys j ≤ i for query i: broadcast to (B, H, Q, N)."""
    past = torch.ones(query.size(-2), keys.keys.size(-2), dtype=torch.bool, device=query.device).tril()
    return past if mask is None else mask & past


def masked_softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Softmax over the last axis among the permitted; a row with nothing permitted becomes all zeros."""
    if mask is None:
        return scores.softmax(-1)
    weights = scores.masked_fill(~mask, -math.inf).softmax(-1)
    return weights.masked_fill(~mask, 0.0)


class MultiHeadAttention(nn.Module):
    """Scaled dot-product attention with heads and projections.

    Vaswani et al. 2017, section 3.2: head_h = softmax(q W_q (k W_k)ᵀ / √E) v W_v, all heads concatenated, times W_o.
    """

    def __init__(self, *, width: int, memory_width: int, heads: int, dropout: float, site: Site) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"width {width} cannot be split into {heads} heads")
        self.heads = heads
        self.dropout = dropout
        self.site = site
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(memory_width, 2 * width)
        self.output = nn.Linear(width, width)
        for projection in (self.query, self.key_value, self.output):
            nn.init.xavier_uniform_(projection.weight)
            nn.init.zeros_(projection.bias)

    def split(self, states: Tensor) -> Tensor:
        """(B, N, D) → (B, H, N, E)."""
        rows, items, width = states.shape
        return states.view(rows, items, self.heads, width // self.heads).transpose(1, 2)

    def prepare(self, states: Tensor) -> Keys:
        """Keys and values of states (B, N, memory width), made once for any number of queries."""
        keys, values = self.key_value(states).chunk(2, dim=-1)  # (B, N, D) each
        return Keys(keys=self.split(keys), values=self.split(values))

    def attend(self, queries: Tensor, keys: Keys, mask: Tensor | None, *, causal: bool = False) -> Tensor:
        """Context of queries (B, Q, D) → (B, Q, D).

        `mask` is broadcast to (B, H, Q, N), True where a key may be looked at; `causal` lets query i see keys ≤ i.
        """
        query = self.split(self.query(queries))  # (B, H, Q, E)
        looking = watched(self.site)
        if causal and (looking or mask is not None):  # the fused kernel takes a mask or `is_causal`, not both
            mask, causal = _past(query, keys, mask), False
        if looking:
            context = self.explicit(query, keys, mask)
        else:
            context = functional.scaled_dot_product_attention(
                query,
                keys.keys,
                keys.values,
                attn_mask=mask,
                dropout_p=self.dropout if self.training else 0.0,
                is_causal=causal,
            )
        rows, _, items, _ = context.shape
        return self.output(context.transpose(1, 2).reshape(rows, items, -1))

    def explicit(self, query: Tensor, keys: Keys, mask: Tensor | None) -> Tensor:
        """The same context, with the weights made and shown to whoever looks."""
        scores = query @ keys.keys.transpose(-1, -2) / math.sqrt(query.size(-1))  # (B, H, Q, N)
        weights = visit(self.site, masked_softmax(scores, mask))
        return weighted(dropout(weights, self.dropout, self.training), keys.values)


class AdditiveAttention(nn.Module):
    """Attention whose score is a small network of query and key.

    Bahdanau et al. 2015, A.1.2: e_ij = vᵀ tanh(W_a s_{i-1} + U_a h_j). The values are the states themselves.
    """

    def __init__(self, *, query_width: int, memory_width: int, width: int, site: Site) -> None:
        super().__init__()
        self.site = site
        self.query = nn.Linear(query_width, width, bias=False)
        self.key = nn.Linear(memory_width, width)
        self.energy = nn.Linear(width, 1, bias=False)

    def prepare(self, states: Tensor) -> Keys:
        """U_a h_j for all j, once; one head."""
        return Keys(keys=self.key(states).unsqueeze(1), values=states.unsqueeze(1))

    def attend(self, queries: Tensor, keys: Keys, mask: Tensor | None) -> Tensor:
        """Context of queries (B, Q, query width) → (B, Q, memory width); `mask` as (B, 1, 1, N)."""
        inner = torch.tanh(self.query(queries)[:, None, :, None] + keys.keys.unsqueeze(2))  # (B, 1, Q, N, D)
        scores = self.energy(inner).squeeze(-1)  # (B, 1, Q, N)
        weights = visit(self.site, masked_softmax(scores, mask))
        return weighted(weights, keys.values).squeeze(1)
