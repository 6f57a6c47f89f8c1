"""Our Transformers in the layout of CTranslate2, for fast decoding on CPUs.

Sinusoids are written as a table, since those of CTranslate2 have other wave lengths. Where a side has no positions, it
gets relative ones (Shaw et al. 2018) whose vectors are all zero.

Its search has definitions of its own. What the folder's README tells to set makes greedy search the same as ours: END
may come first, PAD, START and UNKNOWN never, lengths count END. Two things remain in a beam: forbidden tokens are taken
out before the softmax, not after, and a hypothesis that ends leaves its place in the beam to the next best.

Shapes: V vocabulary, D width, E width of a head.
"""

from pathlib import Path

import numpy as np
import torch
from ctranslate2.specs import Activation, TransformerDecoderSpec, TransformerEncoderSpec, TransformerSpec
from ctranslate2.specs.attention_spec import MultiHeadAttentionSpec
from ctranslate2.specs.common_spec import LayerNormSpec, LinearSpec
from ctranslate2.specs.transformer_spec import (
    FeedForwardSpec,
    TransformerDecoderLayerSpec,
    TransformerEncoderLayerSpec,
)
from torch import Tensor, nn

from regard.errors import UsageError
from regard.interchange.export_huggingface import longest
from regard.interchange.export_weights import Projection, Sides, layer_norm, plain_attention, position_table, scaled
from regard.models import TransformerDecoder, TransformerEncoder
from regard.nn import (
    Attention,
    FeedForward,
    LearnedPositions,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
)
from regard.nn.feedforward import GATED
from regard.nn.positions import RelativeBias
from regard.nn.relations import RelativeTerms
from regard.recipe.schema import Recipe, TransformerEncoderSection
from regard.special import END, START, UNKNOWN

QUANTISATIONS = (
    "int8",
    "int8_float32",
    "int8_float16",
    "int8_bfloat16",
    "int16",
    "float16",
    "bfloat16",
    "float32",
)
_ACTIVATIONS = {
    "relu": Activation.RELU,
    "gelu": Activation.GELU,
    "silu": Activation.SWISH,
    "swiglu": Activation.SWISH,
    "geglu": Activation.GELUTanh,
}


def write(
    sides: Sides, recipe: Recipe, folder: Path, *, source: list[str], target: list[str], quantisation: str | None
) -> None:
    """model.bin, config.json and the vocabularies, whose tokens have names of their own in the order of our ids."""
    if quantisation is not None and quantisation not in QUANTISATIONS:
        raise UsageError(f"there is no quantisation {quantisation!r} in CTranslate2; choose {', '.join(QUANTISATIONS)}")
    spec = build(sides, recipe)
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = target[UNKNOWN], target[START], target[END]
    spec.config.decoder_start_token = target[START]
    spec.config.add_source_bos, spec.config.add_source_eos = False, True
    spec.config.layer_norm_epsilon = sides.epsilon
    spec.validate()
    spec.optimize(quantization=quantisation)
    spec.save(str(folder))


def build(sides: Sides, recipe: Recipe) -> TransformerSpec:
    """The model with all its weights."""
    encoder, decoder = recipe.model.encoder, recipe.model.decoder
    assert isinstance(encoder, TransformerEncoderSection), "only Transformers are exported"
    assert isinstance(decoder, TransformerEncoderSection), "only Transformers are exported"
    spec = TransformerSpec(
        TransformerEncoderSpec(len(sides.encoder_layers), **_choices(encoder)),
        TransformerDecoderSpec(len(sides.decoder_layers), alibi=decoder.positions == "alibi", **_choices(decoder)),
    )
    spec.encoder.embeddings[0].weight = _array(sides.encoder.embedding.weight)
    spec.decoder.embeddings.weight = _array(sides.decoder.embedding.weight)
    _set_linear(spec.decoder.projection, [Projection.of(sides.decoder.output)])
    _set_side(spec.encoder, sides.encoder, encoder, recipe)
    _set_side(spec.decoder, sides.decoder, decoder, recipe)
    for layer_spec, encoder_layer in zip(spec.encoder.layer, sides.encoder_layers, strict=True):
        _set_layer(layer_spec, encoder_layer, sides.encoder)
    for layer_spec, layer in zip(spec.decoder.layer, sides.decoder_layers, strict=True):
        _set_layer(layer_spec, layer, sides.decoder)
        assert layer.cross is not None, "an encoder-decoder looks at its source"
        assert layer.around_cross is not None, "an encoder-decoder looks at its source"
        _set_attention(layer_spec.attention, layer.cross, layer_norm(layer.around_cross.norm))
    return spec


def _choices(side: TransformerEncoderSection) -> dict[str, object]:
    """In what a side may differ from the paper."""
    return {
        "num_heads": side.heads,
        "pre_norm": side.norm == "pre",
        "activation": _ACTIVATIONS[side.activation],
        "ffn_glu": side.activation in GATED,
        "relative_position": side.positions in ("relative", "none"),
        "relative_attention_bias": side.positions == "relative_bias",
        "rotary_dim": 0 if side.positions == "rotary" else None,
    }


def _set_side(
    spec: TransformerEncoderSpec | TransformerDecoderSpec,
    side: TransformerEncoder | TransformerDecoder,
    section: TransformerEncoderSection,
    recipe: Recipe,
) -> None:
    spec.scale_embeddings = scaled(side)
    if isinstance(side.norm, nn.LayerNorm):
        _set_norm(spec.layer_norm, side.norm)
    match section.positions:
        case "sinusoidal":
            spec.position_encodings.encodings = _array(position_table(side, longest(recipe)))
        case "learned":
            assert isinstance(side.positions.added, LearnedPositions), "as the recipe says"
            spec.position_encodings.encodings = _array(side.positions.added.weight)


def _set_layer(
    spec: TransformerEncoderLayerSpec | TransformerDecoderLayerSpec,
    layer: TransformerEncoderLayer | TransformerDecoderLayer,
    side: TransformerEncoder | TransformerDecoder,
) -> None:
    _set_attention(spec.self_attention, layer.attention, layer_norm(layer.around_attention.norm))
    _set_relations(spec.self_attention, layer.attention, side)
    _set_feedforward(spec.ffn, layer.feedforward, layer_norm(layer.around_feedforward.norm))


def _set_attention(spec: MultiHeadAttentionSpec, attention: Attention, norm: nn.LayerNorm) -> None:
    """Self-attention has query, key and value in one product; cross-attention has the query apart."""
    plain = plain_attention(attention)
    _set_norm(spec.layer_norm, norm)
    together = [[plain.query, plain.key, plain.value]]
    if len(spec.linear) == 3:
        together = [[plain.query], [plain.key, plain.value]]
    for linear, parts in zip(spec.linear, [*together, [plain.output]], strict=True):
        _set_linear(linear, parts)


def _set_relations(
    spec: MultiHeadAttentionSpec, attention: Attention, side: TransformerEncoder | TransformerDecoder
) -> None:
    """What tells self-attention how two items stand to each other."""
    related = side.positions.related
    if isinstance(related, RelativeBias):
        spec.relative_attention_bias = _array(related.weight)
        spec.relative_attention_max_distance = np.dtype("int32").type(related.furthest)
    elif attention.relative is not None:
        spec.relative_position_keys = _distances(attention.relative, attention.relative.keys)
        spec.relative_position_values = _distances(attention.relative, attention.relative.values)
    elif side.positions.added is None and related is None:
        nothing = np.zeros((3, attention.context_width // attention.heads), dtype=np.float32)
        spec.relative_position_keys = spec.relative_position_values = nothing


def _distances(terms: RelativeTerms, table: Tensor) -> np.ndarray:
    """Vectors of all distances (2 · furthest + 1, E); those that a causal side never sees are zero."""
    whole = torch.zeros(2 * terms.furthest + 1, table.size(1))
    whole[: table.size(0)] = table.detach()
    return _array(whole)


def _set_feedforward(spec: FeedForwardSpec, part: FeedForward, norm: nn.LayerNorm) -> None:
    _set_norm(spec.layer_norm, norm)
    _set_linear(spec.linear_1, [Projection.of(part.outer)])
    if part.activation not in GATED:
        _set_linear(spec.linear_0, [Projection.of(part.inner)])
        return
    inner = Projection.of(part.inner)
    biases = (None, None) if inner.bias is None else inner.bias.chunk(2)
    for linear, weight, bias in zip((spec.linear_0, spec.linear_0_noact), inner.weight.chunk(2), biases, strict=True):
        _set_linear(linear, [Projection(weight=weight, bias=bias)])


def _set_linear(spec: LinearSpec, parts: list[Projection]) -> None:
    """Projections below each other."""
    spec.weight = _array(torch.cat([part.weight for part in parts]))
    biases = [part.bias for part in parts if part.bias is not None]
    if biases:
        spec.bias = _array(torch.cat(biases))


def _set_norm(spec: LayerNormSpec, norm: nn.LayerNorm) -> None:
    spec.gamma = _array(norm.weight)
    spec.beta = _array(norm.bias)


def _array(tensor: Tensor) -> np.ndarray:
    """A copy: CTranslate2 scales and quantises in place."""
    return tensor.detach().float().contiguous().numpy().copy()
