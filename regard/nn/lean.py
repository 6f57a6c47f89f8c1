"""Transformer layers under search as plain calls, where they are made of the usual parts.

One step of a small model is many small products, and looking up modules, asking who watches and handing relations on
takes as long as they do. What comes out is the same as from `TransformerEncoderLayer.forward` and
`TransformerDecoderLayer.step`; weights are laid out anew (`nn.kept`), and those of queries, keys and values are one.

Shapes: R rows (S · K), S sentences, K beams, N source items, C entries of a past, H heads, G key heads, D width,
E width of a head.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.nn.attention import Attention, Keys
from regard.nn.kept import Product
from regard.nn.past import Past
from regard.nn.plain import is_plain
from regard.nn.residual import Residual
from regard.nn.scores import DotScore
from regard.nn.transformer import TransformerDecoderLayer, TransformerEncoderLayer

attention_of = functional.scaled_dot_product_attention


def is_usual(attention: Attention | None) -> bool:
    """Whether an attention has learned projections and a scaled product."""
    if attention is None or attention.query is None or attention.key_value is None or attention.output is None:
        return False
    plain = all(is_plain(one, nn.Linear) for one in (attention.query, attention.key_value, attention.output))
    return plain and attention.relative is None and type(attention.score) is DotScore


@dataclass(frozen=True, slots=True)
class Looking:
    """An attention: `asked` makes queries, scaled, and of what is read also keys and values."""

    asked: Product
    query: Product  # the first part of that
    entry: Product  # the others
    output: Product
    heads: int
    key_heads: int

    @classmethod
    def of(cls, attention: Attention, *, reads: bool) -> "Looking":
        assert attention.query is not None
        assert attention.key_value is not None
        assert attention.output is not None
        assert attention.score.scale is not None
        linear, scales = [attention.query], [attention.score.scale]
        if reads:
            linear, scales = [*linear, attention.key_value], [*scales, 1.0]
        asked, width = Product.of(*linear, scales=scales), attention.query.out_features
        return cls(
            asked=asked,
            query=asked.part(0, width),
            entry=asked.part(width, asked.weight.size(1)),
            output=Product.of(attention.output),
            heads=attention.heads,
            key_heads=attention.key_heads,
        )

    def look(self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """Context of queries (S, K, H, E) among keys (S, G, N, E): (R, D)."""
        context = attention_of(
            query.transpose(1, 2), keys, values, attn_mask=mask, scale=1.0, enable_gqa=self.heads != self.key_heads
        )
        rows = query.size(0) * query.size(1)
        return self.output(context.transpose(1, 2).reshape(rows, -1))


@dataclass(frozen=True, slots=True)
class Norm:
    """A layer norm."""

    size: tuple[int, ...]
    weight: Tensor
    bias: Tensor | None
    epsilon: float

    @classmethod
    def of(cls, residual: Residual) -> "Norm | None":
        norm = residual.norm
        if not isinstance(norm, nn.LayerNorm) or not is_plain(norm, nn.LayerNorm) or norm.weight is None:
            return None
        return cls(norm.normalized_shape, norm.weight, norm.bias, norm.eps)

    def __call__(self, states: Tensor) -> Tensor:
        return torch.layer_norm(states, self.size, self.weight, self.bias, self.epsilon)


@dataclass(frozen=True, slots=True)
class LeanLayer:
    """The parameters of a layer, as its steps need them."""

    index: int
    itself: Looking
    cross: Looking | None
    inner: Product
    outer: Product
    norms: tuple[Norm, ...]
    norm_first: bool

    @classmethod
    def of(cls, layer: TransformerDecoderLayer | TransformerEncoderLayer) -> "LeanLayer | None":
        """None for a layer with other parts, and for one with ways of its own."""
        if not is_plain(layer, TransformerDecoderLayer) and not is_plain(layer, TransformerEncoderLayer):
            return None
        around, cross = [layer.around_attention, layer.around_feedforward], None
        if isinstance(layer, TransformerDecoderLayer) and layer.around_cross is not None:
            around.insert(1, layer.around_cross)
            cross = layer.cross
        norms = [norm for one in around if (norm := Norm.of(one)) is not None]
        usual = is_usual(layer.attention) and (cross is None or is_usual(cross))
        usual = usual and all(is_plain(one, nn.Linear) for one in (layer.feedforward.inner, layer.feedforward.outer))
        if not usual or len(norms) < len(around) or layer.feedforward.activation != "relu":
            return None
        return cls(
            index=layer.ffn_site.layer,
            itself=Looking.of(layer.attention, reads=True),
            cross=None if cross is None else Looking.of(cross, reads=False),
            inner=Product.of(layer.feedforward.inner),
            outer=Product.of(layer.feedforward.outer),
            norms=tuple(norms),
            norm_first=layer.around_attention.norm_first,
        )

    def step(
        self, rows: Tensor, grid: tuple[int, int], past: Past, seen: Tensor, memory: Keys | None, mask: Tensor | None
    ) -> Tensor:
        """One more item for the rows (R, D) of a grid (S, K); `seen` is that of the past, (S, 1, K, C)."""
        first, own, norms = self.norm_first, self.itself, self.norms
        query, key, value = self._asked(rows, grid)
        keys, values = past.add(self.index, key, value)
        rows = own.look(query, keys, values, seen).add_(rows)
        rows = rows if first else norms[0](rows)
        if self.cross is not None and memory is not None:
            query = self.cross.asked(norms[1](rows) if first else rows).view(*grid, self.cross.heads, -1)
            rows = self.cross.look(query, memory.keys, memory.values, mask).add_(rows)
            rows = rows if first else norms[1](rows)
        return self.fed_forward(rows)

    def read(self, rows: Tensor, grid: tuple[int, int], mask: Tensor | None) -> Tensor:
        """All items of sequences (B, N) at once, each of which sees all: (R, D), mask (B, 1, 1, N) → (R, D)."""
        query, key, value = self._asked(rows, grid)
        rows = self.itself.look(query, key.transpose(1, 2), value.transpose(1, 2), mask).add_(rows)
        return self.fed_forward(rows if self.norm_first else self.norms[0](rows))

    def _asked(self, rows: Tensor, grid: tuple[int, int]) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of what is read: (R, D) → (S, K, ·, E) each."""
        own = self.itself
        joined = own.asked(self.norms[0](rows) if self.norm_first else rows)
        query, key, value = joined.view(*grid, own.heads + 2 * own.key_heads, -1).split(
            (own.heads, own.key_heads, own.key_heads), dim=2
        )
        return query, key, value

    def fed_forward(self, rows: Tensor) -> Tensor:
        """The last part of the layer: (R, D) → (R, D)."""
        inside = self.norms[-1](rows) if self.norm_first else rows
        rows = self.outer(self.inner(inside).relu_()).add_(rows)
        return rows if self.norm_first else self.norms[-1](rows)


def lean_layers(layers: Sequence[TransformerDecoderLayer | TransformerEncoderLayer]) -> tuple[LeanLayer, ...]:
    """All of them, or none where one of them has other parts."""
    lean = [LeanLayer.of(layer) for layer in layers]
    return tuple(one for one in lean if one is not None) if all(one is not None for one in lean) else ()
