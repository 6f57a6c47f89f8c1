"""A decoder layer under search as plain calls, for layers that are made of the usual parts.

One step of a small model is many small products, and looking up modules, asking who watches and handing relations on
takes as long as they do. What comes out is the same as from `TransformerDecoderLayer.step`.

Shapes: S sentences, K beams, N source items, C entries of a past, G key heads, D width, E width of a head.
"""

from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional

from regard.nn.attention import Attention, Keys
from regard.nn.past import Past
from regard.nn.scores import DotScore
from regard.nn.transformer import Residual, TransformerDecoderLayer

linear = functional.linear
attention_of = functional.scaled_dot_product_attention


@dataclass(frozen=True, slots=True)
class Projected:
    """A linear map, as its parameters."""

    weight: Tensor
    bias: Tensor | None

    @classmethod
    def of(cls, module: nn.Linear) -> "Projected":
        return cls(module.weight, module.bias)


@dataclass(frozen=True, slots=True)
class Looking:
    """An attention with learned projections and a scaled product."""

    query: Projected
    key_value: Projected
    output: Projected
    heads: int
    key_heads: int
    scale: float

    @classmethod
    def of(cls, attention: Attention) -> "Looking | None":
        """None where the attention has other parts."""
        query, key_value, output = attention.query, attention.key_value, attention.output
        if query is None or key_value is None or output is None or attention.relative is not None:
            return None
        if type(attention.score) is not DotScore:
            return None
        return cls(
            query=Projected.of(query),
            key_value=Projected.of(key_value),
            output=Projected.of(output),
            heads=attention.heads,
            key_heads=attention.key_heads,
            scale=attention.score.scale,
        )

    def look(self, states: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """Context of states (S, K, D) among keys (S, G, N, E)."""
        sentences, beams, _ = states.shape
        query = linear(states, self.query.weight, self.query.bias).view(sentences, beams, self.heads, -1)
        context = attention_of(
            query.transpose(1, 2),
            keys,
            values,
            attn_mask=mask,
            scale=self.scale,
            enable_gqa=self.heads != self.key_heads,
        )
        joined = context.transpose(1, 2).reshape(sentences, beams, -1)
        return linear(joined, self.output.weight, self.output.bias)


@dataclass(frozen=True, slots=True)
class Norm:
    """A residual connection with its layer norm."""

    size: tuple[int, ...]
    weight: Tensor
    bias: Tensor | None
    epsilon: float

    @classmethod
    def of(cls, residual: Residual) -> "Norm | None":
        norm = residual.norm
        if type(norm) is not nn.LayerNorm or norm.weight is None:
            return None
        return cls(norm.normalized_shape, norm.weight, norm.bias, norm.eps)

    def of_states(self, states: Tensor) -> Tensor:
        return functional.layer_norm(states, self.size, self.weight, self.bias, self.epsilon)


@dataclass(frozen=True, slots=True)
class LeanLayer:
    """The parameters of a layer, which are the layer's own: nothing is copied."""

    index: int
    itself: Looking
    cross: Looking | None
    inner: Projected
    outer: Projected
    norms: tuple[Norm, ...]
    norm_first: bool

    @classmethod
    def of(cls, layer: TransformerDecoderLayer) -> "LeanLayer | None":
        """None for a layer with other parts, or one that learns."""
        itself, cross, feedforward = Looking.of(layer.attention), None, layer.feedforward
        around = [layer.around_attention, layer.around_feedforward]
        if layer.cross is not None and layer.around_cross is not None:
            cross = Looking.of(layer.cross)
            around.insert(1, layer.around_cross)
        norms = [norm for one in around if (norm := Norm.of(one)) is not None]
        usual = len(norms) == len(around) and (cross is None) is (layer.cross is None)
        if layer.training or itself is None or not usual or feedforward.activation != "relu":
            return None
        return cls(
            index=layer.ffn_site.layer,
            itself=itself,
            cross=cross,
            inner=Projected.of(feedforward.inner),
            outer=Projected.of(feedforward.outer),
            norms=tuple(norms),
            norm_first=layer.around_attention.norm_first,
        )

    def step(self, states: Tensor, past: Past, seen: Tensor, memory: Keys | None, mask: Tensor | None) -> Tensor:
        """One more item for a grid of rows (S, K, D); `seen` is that of the past, (S, 1, K, C)."""
        sentences, beams, _ = states.shape
        first, own, norms = self.norm_first, self.itself, self.norms
        inside = norms[0].of_states(states) if first else states
        new = linear(inside, own.key_value.weight, own.key_value.bias).view(sentences, beams, 2, own.key_heads, -1)
        keys, values = past.add(self.index, new[:, :, 0], new[:, :, 1])
        states = states + own.look(inside, keys, values, seen)
        if not first:
            states = norms[0].of_states(states)
        if self.cross is not None and memory is not None:
            inside = norms[1].of_states(states) if first else states
            states = states + self.cross.look(inside, memory.keys, memory.values, mask)
            if not first:
                states = norms[1].of_states(states)
        inside = norms[-1].of_states(states) if first else states
        middle = functional.relu(linear(inside, self.inner.weight, self.inner.bias))
        states = states + linear(middle, self.outer.weight, self.outer.bias)
        return states if first else norms[-1].of_states(states)
