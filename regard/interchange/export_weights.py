"""Our Transformers in plain terms: as many keys as heads, scaled dot products, and projections of their own.

Other programs know one kind of attention: softmax(q kᵀ / √E) v with H heads. What of ours is the same in other words is
put into these: a scale goes into the query, the matrix of a bilinear score into the key (qᵀ W k = qᵀ (W k)), and key
heads that serve several heads are repeated for each.

Shapes: H heads, G key heads, D width, E width of a head.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.errors import ModelError
from regard.models import EncoderDecoder, System, TransformerDecoder, TransformerEncoder
from regard.nn import Attention, TransformerDecoderLayer, TransformerEncoderLayer
from regard.nn.scores import BilinearScore

_LAYER = (
    r"layers\.\d+\.((attention|cross)\.(query|key_value|output)\.(weight|bias)|attention\.relative\.(keys|values)"
    r"|(attention|cross)\.score\.weight|feedforward\.(inner|outer)\.(weight|bias)"
    r"|around_(attention|cross|feedforward)\.norm\.(weight|bias))"
)
_KNOWN = re.compile(
    rf"(encoder|decoder)\.(embedding\.weight|positions\..+|norm\.(weight|bias)|{_LAYER})|decoder\.output\.(weight|bias)"
)


@dataclass(frozen=True, slots=True)
class Projection:
    """x Wᵀ + b, or without b."""

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

    @property
    def epsilon(self) -> float:
        """Of all norms."""
        return layer_norm(self.encoder_layers[0].around_attention.norm).eps


def layer_norm(norm: nn.Module) -> nn.LayerNorm:
    """What the recipe was asked about before: all norms are layer norms."""
    assert isinstance(norm, nn.LayerNorm), "only layer norms are exported"
    return norm


def transformer_sides(system: System) -> Sides:
    """What the recipe was asked about before: both sides are Transformers. Weights that are not known are refused."""
    assert isinstance(system, EncoderDecoder), "only encoder-decoders are exported"
    encoder, decoder = system.encoder, system.decoder
    assert isinstance(encoder, TransformerEncoder), "only Transformers are exported"
    assert isinstance(decoder, TransformerDecoder), "only Transformers are exported"
    strange = [name for name, _ in system.named_parameters() if not _KNOWN.fullmatch(name)]
    if strange:
        raise ModelError(f"this model cannot be exported: other programs have no place for {', '.join(strange[:3])}")
    norms = [part for name, part in system.named_modules() if name.endswith("norm")]
    if not all(isinstance(norm, nn.LayerNorm | nn.Identity) for norm in norms):
        raise ModelError("this model cannot be exported: its norms are not layer norms")
    if len({norm.eps for norm in norms if isinstance(norm, nn.LayerNorm)}) > 1:
        raise ModelError("this model cannot be exported: its norms have not all the same epsilon")
    for name, part in system.named_modules():
        if isinstance(part, Attention) and part.query is not None and part.query.out_features != encoder.memory_width:
            raise ModelError(
                f"this model cannot be exported: the heads of {name} have {part.query.out_features} numbers together, "
                f"and states have {encoder.memory_width}"
            )
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
    query = with_bias(Projection.of(attention.query))
    keys, values = with_bias(Projection.of(attention.key_value)).chunk(2)  # (G · E, D + 1) each
    keys, values = (both.unflatten(0, (groups, -1)) for both in (keys, values))  # (G, E, D + 1)
    if isinstance(attention.score, BilinearScore):
        keys = attention.score.weight.detach() @ keys
    keys, values = (both.repeat_interleave(heads // groups, dim=0).flatten(0, 1) for both in (keys, values))
    return PlainAttention(
        query=_apart(query if scale == 1 else query * scale),
        key=_apart(keys),
        value=_apart(values),
        output=_apart(with_bias(Projection.of(attention.output))),
    )


def with_bias(projection: Projection) -> Tensor:
    """Weight and bias side by side (·, D + 1); a bias that is not there is zero."""
    weight, bias = projection.weight, projection.bias
    return torch.cat((weight, (weight.new_zeros(len(weight)) if bias is None else bias).unsqueeze(1)), dim=1)


def _apart(both: Tensor) -> Projection:
    return Projection(weight=both[:, :-1].contiguous(), bias=both[:, -1].contiguous())


def scaled(side: TransformerEncoder | TransformerDecoder) -> bool:
    """Whether embeddings are multiplied by √D."""
    return side.embedding.scale != 1.0


def position_table(side: TransformerEncoder | TransformerDecoder, items: int) -> Tensor:
    """What is added to the first embeddings: (items, D)."""
    return side.positions(torch.zeros(1, items, side.embedding.width))[0].detach()


def named(name: str, projection: Projection) -> Iterator[tuple[str, Tensor]]:
    """`name.weight`, and `name.bias` where there is one."""
    yield f"{name}.weight", projection.weight
    if projection.bias is not None:
        yield f"{name}.bias", projection.bias
