"""Transformer encoders and decoders in the engine's terms."""

from collections.abc import Sequence
from typing import Final

import torch
from torch import nn

from regard.engine.attentions import Projection, array, describe_attention, plain
from regard.engine.container import Container
from regard.engine.refusals import refused
from regard.models import TransformerDecoder, TransformerEncoder
from regard.nn import (
    Attention,
    FeedForward,
    LearnedPositions,
    SinusoidalPositions,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
)
from regard.nn.feedforward import GATED
from regard.nn.positions import AlibiPositions, RelativeBias, RotaryPositions, bias_buckets

ACTIVATIONS: Final = {"relu": 1, "gelu": 2, "silu": 3, "swiglu": 3, "geglu": 5}
NONE, ADDED, WAVES, BIAS, ALIBI, ROTARY = range(6)

Layer = TransformerEncoderLayer | TransformerDecoderLayer


def describe_transformer_encoder(container: Container, encoder: TransformerEncoder) -> None:
    layers = [layer for layer in encoder.layers if isinstance(layer, TransformerEncoderLayer)]
    _check_own("encoder", layers, encoder.layers)
    container.settings["encoder.kind"] = 1
    _describe_side(container, "encoder", encoder, layers)


def describe_transformer_decoder(container: Container, decoder: TransformerDecoder) -> None:
    layers = [layer for layer in decoder.layers if isinstance(layer, TransformerDecoderLayer)]
    _check_own("decoder", layers, decoder.layers)
    container.settings["decoder.kind"] = 1
    _describe_side(container, "decoder", decoder, layers)
    for index, layer in enumerate(layers):
        if layer.cross is not None and layer.around_cross is not None:
            _settle(container, "decoder", norm_first=layer.around_cross.norm_first)
            describe_attention(container, f"decoder.{index}.cross", layer.cross)
            describe_norm(container, f"decoder.{index}.around_cross", layer.around_cross.norm)


def _check_own(side: str, known: Sequence[Layer], layers: nn.ModuleList) -> None:
    if len(known) < len(layers):
        raise refused(f"another module stands in the place of a layer of its {side}")


def _describe_side(
    container: Container,
    side: str,
    system: TransformerEncoder | TransformerDecoder,
    layers: Sequence[Layer],
) -> None:
    first = layers[0]
    settings = container.settings
    settings[f"{side}.layers"] = len(layers)
    settings[f"{side}.embedding_norm"] = not isinstance(system.embedding_norm, nn.Identity)
    if settings[f"{side}.embedding_norm"]:
        describe_norm(container, f"{side}.embedding_norm", system.embedding_norm)
    if first.around_attention.norm_first:
        describe_norm(container, f"{side}.norm", system.norm)
    for index, layer in enumerate(layers):
        between = layer.feedforward
        _settle(
            container,
            side,
            norm_first=layer.around_attention.norm_first,
            inner=between.outer.in_features,
            gated=between.activation in GATED,
            activation=ACTIVATIONS[between.activation],
        )
        _settle(container, side, norm_first=layer.around_feedforward.norm_first)
        _describe_self_attention(container, side, f"{side}.{index}.attention", layer.attention)
        _describe_feedforward(container, f"{side}.{index}.feedforward", layer.feedforward)
        describe_norm(container, f"{side}.{index}.around_attention", layer.around_attention.norm)
        describe_norm(container, f"{side}.{index}.around_feedforward", layer.around_feedforward.norm)
    _describe_positions(container, side, system)


def _describe_self_attention(container: Container, side: str, name: str, attention: Attention) -> None:
    """Queries, keys and values of one layer below each other."""
    if attention.relative is not None:
        raise refused("its self-attention has vectors of distances (positions: relative)")
    parts = plain(attention)
    if parts.energy is not None:
        raise refused("its self-attention has an additive score")
    assert parts.query is not None
    assert parts.key is not None
    assert parts.value is not None
    assert parts.output is not None
    three = (parts.query, parts.key, parts.value)
    biases = [torch.zeros(len(one.weight)) if one.bias is None else one.bias for one in three]
    Projection(torch.cat([one.weight for one in three]), torch.cat(biases)).write(container, f"{name}.all")
    parts.output.write(container, f"{name}.output")
    _settle(container, side, heads=parts.heads, key_heads=parts.key_heads, head_width=parts.width, scale=parts.scale)


def _settle(container: Container, side: str, **settings: float) -> None:
    """Tell the engine what it is told once for all layers of a side."""
    for name, value in settings.items():
        if container.settings.setdefault(f"{side}.{name}", value) != value:
            raise refused(f"the layers of its {side} are not alike ({name.replace('_', ' ')})")


def _describe_feedforward(container: Container, name: str, part: FeedForward) -> None:
    Projection.of(part.inner).write(container, f"{name}.inner")
    Projection.of(part.outer).write(container, f"{name}.outer")


def describe_norm(container: Container, name: str, norm: nn.Module) -> None:
    assert isinstance(norm, nn.LayerNorm | nn.RMSNorm)
    assert norm.eps is not None
    container.settings[f"{name}.epsilon"] = norm.eps
    container.floats(f"{name}.gain", array(norm.weight))
    if isinstance(norm, nn.LayerNorm):
        container.floats(f"{name}.bias", array(norm.bias))


def _describe_positions(container: Container, side: str, system: TransformerEncoder | TransformerDecoder) -> None:
    """What is added to embeddings as a table, what is added to scores by distance."""
    added, related = system.positions.added, system.positions.related
    kind = NONE
    match added, related:
        case SinusoidalPositions(), None:
            kind = WAVES
            container.settings[f"{side}.halves"] = added.waves == "halves"
            container.floats(f"{side}.positions", array(added.table))
        case LearnedPositions(), None:
            kind = ADDED
            container.floats(f"{side}.positions", array(added.weight))
        case None, RelativeBias():
            kind = BIAS
            distances = torch.arange(-related.furthest, related.furthest + 1)
            buckets = bias_buckets(distances, buckets=related.buckets, furthest=related.furthest, causal=related.causal)
            container.settings[f"{side}.furthest"] = related.furthest
            container.floats(f"{side}.positions", array(related.weight[buckets].T))
        case None, AlibiPositions():
            kind = ALIBI
            container.floats(f"{side}.positions", array(torch.tensor(related.slopes)))
        case None, RotaryPositions():
            kind = ROTARY
        case None, None:
            pass
        case _:
            raise refused("its positions are of a kind that the engine does not know")
    container.settings[f"{side}.positions"] = kind
