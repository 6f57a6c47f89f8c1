"""Our Transformers in plain terms: as many keys as heads, scaled dot products, and projections of their own.

Other programs know one kind of attention: softmax(q kᵀ / √E) v with H heads. What of ours is the same in other words is
put into these: a scale goes into the query, the matrix of a bilinear score into the key (qᵀ W k = qᵀ (W k)), and key
heads that serve several heads are repeated for each.

Shapes: H heads, G key heads, D width, E width of a head.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.models import EncoderDecoder, TransformerDecoder, TransformerEncoder
from regard.nn import Attention, TransformerDecoderLayer, TransformerEncoderLayer
from regard.nn.scores import BilinearScore


@dataclass(frozen=True, slots=True)
class Projection:
    """x Wᵀ + b; swiglu has no b."""

    weight: Tensor
    bias: Tensor | None

    @classmethod
    def of(cls, linear: nn.Linear | nn.LayerNorm) -> "Projection":
        bias = linear.bias
        return cls(weight=linear.weight.detach(), bias=None if bias is None else bias.detach())


@dataclass(frozen=True, slots=True)
class PlainAttention:
    """Scaled dot products in H heads."""

    query: Projection
    key: Projection
    value: Projection
    output: Projection


@dataclass(frozen=True, slots=True)
class Sides:
    """The two sides of a Transformer, with their layers."""

    encoder: TransformerEncoder
    decoder: TransformerDecoder
    encoder_layers: tuple[TransformerEncoderLayer, ...]
    decoder_layers: tuple[TransformerDecoderLayer, ...]


def transformer_sides(system: EncoderDecoder) -> Sides:
    """What the recipe was asked about before: both sides are Transformers."""
    encoder, decoder = system.encoder, system.decoder
    assert isinstance(encoder, TransformerEncoder), "only Transformers are exported"
    assert isinstance(decoder, TransformerDecoder), "only Transformers are exported"
    return Sides(
        encoder=encoder,
        decoder=decoder,
        encoder_layers=tuple(layer for layer in encoder.layers if isinstance(layer, TransformerEncoderLayer)),
        decoder_layers=tuple(layer for layer in decoder.layers if isinstance(layer, TransformerDecoderLayer)),
    )


@torch.no_grad()
def plain_attention(attention: Attention) -> PlainAttention:
    """The same attention as scaled dot products of H heads."""
    assert attention.query is not None, "Transformers project what they compare"
    assert attention.key_value is not None, "Transformers project what they compare"
    assert attention.output is not None, "Transformers project what they compare"
    assert attention.score.scale is not None, "the additive score is no product"
    heads, groups = attention.heads, attention.key_heads
    scale = attention.score.scale * math.sqrt(attention.query.out_features // heads)
    query = Projection.of(attention.query)
    assert query.bias is not None, "projections of attention have biases"
    weights = attention.key_value.weight.detach().chunk(2)  # (G · E, D) each
    biases = attention.key_value.bias.detach().chunk(2)
    keys, values = (torch.cat((weight, bias.unsqueeze(1)), dim=1) for weight, bias in zip(weights, biases, strict=True))
    keys, values = (both.unflatten(0, (groups, -1)) for both in (keys, values))  # (G, E, D + 1)
    if isinstance(attention.score, BilinearScore):
        keys = attention.score.weight.detach() @ keys
    keys, values = (both.repeat_interleave(heads // groups, dim=0).flatten(0, 1) for both in (keys, values))
    return PlainAttention(
        query=query if scale == 1 else Projection(weight=query.weight * scale, bias=query.bias * scale),
        key=Projection(weight=keys[:, :-1].contiguous(), bias=keys[:, -1].contiguous()),
        value=Projection(weight=values[:, :-1].contiguous(), bias=values[:, -1].contiguous()),
        output=Projection.of(attention.output),
    )


def named(name: str, projection: Projection) -> Iterator[tuple[str, Tensor]]:
    """`name.weight`, and `name.bias` where there is one."""
    yield f"{name}.weight", projection.weight
    if projection.bias is not None:
        yield f"{name}.bias", projection.bias
