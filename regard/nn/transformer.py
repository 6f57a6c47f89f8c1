"""Transformer layers: attention and feed-forward parts, each with a residual connection and a layer norm.

Shapes: B rows, N source items, M target items, S sentences, K beams, D width.
"""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from regard.nn.attention import Attention, Keys
from regard.nn.feedforward import Activation, FeedForward
from regard.nn.past import Reading
from regard.nn.positions import (
    AlibiPositions,
    LearnedPositions,
    Positions,
    PositionsName,
    RelativeBias,
    RelativePositions,
    RotaryPositions,
    SinusoidalPositions,
    Waves,
)
from regard.nn.relations import Relations, RelativeTerms
from regard.nn.residual import Residual
from regard.nn.scores import ScoreName
from regard.nn.sites import Part, Site, visit, watched
from regard.nn.whole import attended_whole, attended_within_whole, fed_whole

NormName = Literal["layer", "rms"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """In what a Transformer may differ from that of Vaswani et al. 2017; the defaults are theirs."""

    positions: PositionsName = "sinusoidal"
    longest: int = 512  # how many positions are learned
    furthest: int = 16  # the distance from which on all are one (relative, relative_bias)
    buckets: int = 32  # of relative_bias
    activation: Activation = "relu"
    score: ScoreName = "scaled_dot"
    key_heads: int | None = None  # as many as heads
    head_width: int | None = None  # an equal share of the width
    attention_bias: bool = True  # of the projections of queries, keys, values and heads
    feedforward_bias: bool | None = None  # unless the activation is gated
    feedforward_dropout: float | None = None  # of what is inside the feed-forward part; as everywhere
    norm_kind: NormName = "layer"
    norm_epsilon: float = 1e-5
    embedding_norm: bool = False  # a norm of what the first layer reads, positions included (BERT, BART)
    waves: Waves = "interleaved"  # how sinusoidal positions are laid out

    def build_norm(self, width: int) -> nn.Module:
        """`layer`: (x - mean) / √(variance + ε) · g + b (Ba et al. 2016). `rms`: x / √(mean(x²) + ε) · g (T5)."""
        if self.norm_kind == "rms":
            return nn.RMSNorm(width, eps=self.norm_epsilon)
        return nn.LayerNorm(width, eps=self.norm_epsilon)

    def build_residual(self, *, width: int, norm_first: bool, dropout: float) -> Residual:
        """What goes around one part of a layer."""
        return Residual(norm=self.build_norm(width), norm_first=norm_first, dropout=dropout)

    def build_feedforward(self, *, width: int, inner: int, dropout: float) -> FeedForward:
        """The position-wise part of one layer."""
        inside = dropout if self.feedforward_dropout is None else self.feedforward_dropout
        return FeedForward(
            width=width, inner=inner, dropout=inside, activation=self.activation, bias=self.feedforward_bias
        )

    def build_positions(self, *, width: int, heads: int, causal: bool, scaled: bool = True) -> Positions:
        """What tells positions to the layers of one side, whose embeddings may be `scaled`."""
        match self.positions:
            case "none":
                return Positions()
            case "sinusoidal":
                return Positions(added=SinusoidalPositions(width=width, waves=self.waves))
            case "learned":
                return Positions(added=LearnedPositions(width=width, longest=self.longest, scaled=scaled))
            case "relative":
                return Positions(related=RelativePositions())
            case "relative_bias":
                bias = RelativeBias(heads=heads, buckets=self.buckets, furthest=self.furthest, causal=causal)
                return Positions(related=bias)
            case "rotary":
                return Positions(related=RotaryPositions(head_width=self.head_width or width // heads))
            case "alibi":
                return Positions(related=AlibiPositions(heads=heads))

    def build_attention(self, *, width: int, memory_width: int, heads: int, site: Site) -> Attention:
        """Self-attention or cross-attention of one layer; only the former knows of positions."""
        terms = None
        if self.positions == "relative" and site.kind == "self":
            terms = RelativeTerms(
                width=self.head_width or width // heads, furthest=self.furthest, causal=site.part == "decoder"
            )
        return Attention(
            query_width=width,
            memory_width=memory_width,
            heads=heads,
            key_heads=self.key_heads,
            head_width=self.head_width,
            bias=self.attention_bias,
            score=self.score,
            relative=terms,
            site=site,
        )


PAPER = Variant()


def feed(feedforward: FeedForward, around: Residual, site: Site, states: Tensor) -> Tensor:
    """The position-wise part of a layer with what goes around it; its result is made apart where somebody looks."""
    if (whole := fed_whole(feedforward, around, site, states)) is not None:
        return whole
    inside = feedforward.inside(around.enter(states))
    if watched(site):
        return around.leave(states, visit(site, feedforward.outer(inside)))
    return around.leave_through(feedforward.outer, states, inside)


def look_within(
    attention: Attention,
    around: Residual,
    states: Tensor,
    mask: Tensor | None,
    relations: Relations | None,
    *,
    causal: bool,
) -> Tensor:
    """Self-attention of a layer with what goes around it."""
    whole = attended_within_whole(attention, around, states, mask, relations, causal=causal)
    if whole is not None:
        return whole
    context = attention.look_within(around.enter(states), mask, causal=causal, relations=relations)
    return around.leave_through(attention.output, states, context)


def look_at(attention: Attention, around: Residual, states: Tensor, keys: Keys, mask: Tensor | None) -> Tensor:
    """Cross-attention of a layer with what goes around it."""
    whole = attended_whole(attention, around, states, keys, mask)
    if whole is not None:
        return whole
    context = attention.look(around.enter(states), keys, mask)
    return around.leave_through(attention.output, states, context)


class TransformerEncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(
        self,
        *,
        width: int,
        heads: int,
        inner: int,
        norm_first: bool,
        dropout: float,
        layer: int,
        variant: Variant = PAPER,
    ) -> None:
        super().__init__()
        self.ffn_site = Site("encoder", "ffn", layer)
        self.attention = variant.build_attention(
            width=width, memory_width=width, heads=heads, site=Site("encoder", "self", layer)
        )
        self.feedforward = variant.build_feedforward(width=width, inner=inner, dropout=dropout)
        self.around_attention = variant.build_residual(width=width, norm_first=norm_first, dropout=dropout)
        self.around_feedforward = variant.build_residual(width=width, norm_first=norm_first, dropout=dropout)

    def forward(self, states: Tensor, mask: Tensor, relations: Relations | None = None) -> Tensor:
        """(B, N, D), mask (B, 1, 1, N) → (B, N, D)."""
        states = look_within(self.attention, self.around_attention, states, mask, relations, causal=False)
        return feed(self.feedforward, self.around_feedforward, self.ffn_site, states)


class TransformerDecoderLayer(nn.Module):
    """Masked self-attention, then cross-attention into the memory (where there is one to look into), then feed-forward.

    Without a memory this is the layer of a language model (Radford et al. 2018).
    """

    def __init__(
        self,
        *,
        width: int,
        memory_width: int | None,
        heads: int,
        inner: int,
        norm_first: bool,
        dropout: float,
        layer: int,
        variant: Variant = PAPER,
    ) -> None:
        super().__init__()
        part: Part = "decoder"
        self.ffn_site = Site(part, "ffn", layer)
        self.attention = variant.build_attention(
            width=width, memory_width=width, heads=heads, site=Site(part, "self", layer)
        )
        self.cross = self.around_cross = None
        if memory_width is not None:
            self.cross = variant.build_attention(
                width=width, memory_width=memory_width, heads=heads, site=Site(part, "cross", layer)
            )
            self.around_cross = variant.build_residual(width=width, norm_first=norm_first, dropout=dropout)
        self.feedforward = variant.build_feedforward(width=width, inner=inner, dropout=dropout)
        self.around_attention = variant.build_residual(width=width, norm_first=norm_first, dropout=dropout)
        self.around_feedforward = variant.build_residual(width=width, norm_first=norm_first, dropout=dropout)

    def prepare(self, states: Tensor) -> Keys | None:
        """Keys and values of a memory (B, N, D), once for all steps; None where nothing is looked up in it."""
        return None if self.cross is None else self.cross.prepare(states)

    def forward(
        self, states: Tensor, memory: Keys | None, memory_mask: Tensor, relations: Relations | None = None
    ) -> Tensor:
        """All steps at once: (B, M, D), mask (B, 1, 1, N) → (B, M, D)."""
        states = look_within(self.attention, self.around_attention, states, None, relations, causal=True)
        return self._from_memory(states, memory, memory_mask)

    def step(self, states: Tensor, reading: Reading, memory: Keys | None, memory_mask: Tensor | None) -> Tensor:
        """One more item for a grid of rows: (S, K, D), mask (S, 1, 1, N) → (S, K, D)."""
        context = reading.attend(self.attention, self.ffn_site.layer, self.around_attention.enter(states))
        return self._from_memory(self.around_attention.leave(states, context), memory, memory_mask)

    def _from_memory(self, states: Tensor, memory: Keys | None, memory_mask: Tensor | None) -> Tensor:
        if self.cross is not None and self.around_cross is not None and memory is not None:
            states = look_at(self.cross, self.around_cross, states, memory, memory_mask)
        return feed(self.feedforward, self.around_feedforward, self.ffn_site, states)
