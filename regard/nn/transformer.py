"""Transformer layers: attention and feed-forward parts, each with a residual connection and a layer norm.

Post-norm is the paper's (Vaswani et al. 2017, section 3.1: LayerNorm(x + Sublayer(x))); pre-norm is
x + Sublayer(LayerNorm(x)), which trains without care for the warm-up.

Shapes: B rows, N source items, M target items, T items seen so far, S sentences, K beams, H heads, D width, E = D / H.
"""

import torch
from torch import Tensor, nn

from regard.nn.attention import Keys, MultiHeadAttention
from regard.nn.dropout import dropout
from regard.nn.feedforward import FeedForward
from regard.nn.sites import Part, Site, visit


class Residual(nn.Module):
    """The residual connection and layer norm around one part of a layer."""

    def __init__(self, *, width: int, norm_first: bool, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.norm_first = norm_first
        self.dropout = dropout

    def enter(self, states: Tensor) -> Tensor:
        """What the part sees."""
        return self.norm(states) if self.norm_first else states

    def leave(self, states: Tensor, result: Tensor) -> Tensor:
        """What the next part sees."""
        total = states + dropout(result, self.dropout, self.training)
        return total if self.norm_first else self.norm(total)


class TransformerEncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, *, width: int, heads: int, inner: int, norm_first: bool, dropout: float, layer: int) -> None:
        super().__init__()
        self.ffn_site = Site("encoder", "ffn", layer)
        self.attention = MultiHeadAttention(
            width=width, memory_width=width, heads=heads, dropout=0.0, site=Site("encoder", "self", layer)
        )
        self.feedforward = FeedForward(width=width, inner=inner, dropout=dropout)
        self.around_attention = Residual(width=width, norm_first=norm_first, dropout=dropout)
        self.around_feedforward = Residual(width=width, norm_first=norm_first, dropout=dropout)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """(B, N, D), mask (B, 1, 1, N) → (B, N, D)."""
        inside = self.around_attention.enter(states)
        context = self.attention.attend(inside, self.attention.prepare(inside), mask)
        states = self.around_attention.leave(states, context)
        result = visit(self.ffn_site, self.feedforward(self.around_feedforward.enter(states)))
        return self.around_feedforward.leave(states, result)


class TransformerDecoderLayer(nn.Module):
    """Masked self-attention, then cross-attention into the memory, then feed-forward."""

    def __init__(
        self,
        *,
        width: int,
        memory_width: int,
        heads: int,
        inner: int,
        norm_first: bool,
        dropout: float,
        layer: int,
    ) -> None:
        super().__init__()
        part: Part = "decoder"
        self.ffn_site = Site(part, "ffn", layer)
        self.attention = MultiHeadAttention(
            width=width, memory_width=width, heads=heads, dropout=0.0, site=Site(part, "self", layer)
        )
        self.cross = MultiHeadAttention(
            width=width, memory_width=memory_width, heads=heads, dropout=0.0, site=Site(part, "cross", layer)
        )
        self.feedforward = FeedForward(width=width, inner=inner, dropout=dropout)
        self.around_attention = Residual(width=width, norm_first=norm_first, dropout=dropout)
        self.around_cross = Residual(width=width, norm_first=norm_first, dropout=dropout)
        self.around_feedforward = Residual(width=width, norm_first=norm_first, dropout=dropout)

    def forward(self, states: Tensor, memory: Keys, memory_mask: Tensor) -> Tensor:
        """All steps at once: (B, M, D), mask (B, 1, 1, N) → (B, M, D)."""
        inside = self.around_attention.enter(states)
        context = self.attention.attend(inside, self.attention.prepare(inside), None, causal=True)
        states = self.around_attention.leave(states, context)
        return self._from_memory(states, memory, memory_mask)

    def step(
        self, states: Tensor, past: Keys | None, past_mask: Tensor, memory: Keys, memory_mask: Tensor
    ) -> tuple[Tensor, Keys]:
        """One more item for a grid of rows: (S, K, D) → (S, K, D), with the keys seen so far (S·K, H, T, E).

        `past_mask` is (S·K, 1, 1, T + 1), the new item included.
        """
        sentences, beams, width = states.shape
        inside = self.around_attention.enter(states).reshape(sentences * beams, 1, width)
        new = self.attention.prepare(inside)
        if past is not None:
            new = Keys(keys=torch.cat((past.keys, new.keys), dim=2), values=torch.cat((past.values, new.values), dim=2))
        context = self.attention.attend(inside, new, past_mask).view(sentences, beams, width)
        states = self.around_attention.leave(states, context)
        return self._from_memory(states, memory, memory_mask), new

    def _from_memory(self, states: Tensor, memory: Keys, memory_mask: Tensor) -> Tensor:
        context = self.cross.attend(self.around_cross.enter(states), memory, memory_mask)
        states = self.around_cross.leave(states, context)
        result = visit(self.ffn_site, self.feedforward(self.around_feedforward.enter(states)))
        return self.around_feedforward.leave(states, result)
