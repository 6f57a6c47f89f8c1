"""Our Transformers in the layouts of Hugging Face's `transformers`: Marian for post-norm, Pegasus for pre-norm.

Both have static sinusoids, embeddings times √D, and biases in all projections, as ours have. One thing differs: ours
hold sine and cosine of a wave side by side (Vaswani et al. 2017, section 3.5), theirs have all sines in the first half
and all cosines in the second. Which number of a state stands where is nobody's business but that of the weights around
it, so the width axis of all of them is put into their order; the numbers stay the same.

Pegasus has one size of vocabulary: the smaller table is filled up, with a bias of -10^9 for outputs that do not exist.

Shapes: V vocabulary, D width.
"""

import json
from collections.abc import Iterator
from typing import Literal

import torch
from safetensors.torch import save
from torch import Tensor

from regard.errors import ModelError
from regard.interchange.export_weights import (
    PlainAttention,
    Projection,
    Sides,
    layer_norm,
    named,
    plain_attention,
    position_table,
    scaled,
)
from regard.nn import FeedForward, TransformerDecoderLayer, TransformerEncoderLayer, sinusoids
from regard.recipe.schema import Recipe, TransformerDecoderSection, TransformerEncoderSection
from regard.special import END, PAD, START, UNKNOWN

Layout = Literal["marian", "pegasus"]
ARCHITECTURES: dict[Layout, str] = {"marian": "MarianMTModel", "pegasus": "PegasusForConditionalGeneration"}
LONGEST = 1024
"""Positions that are written at least; theirs have a longest length, ours have none."""

ABSENT = -1e9
EPSILON = 1e-5


def choose_layout(recipe: Recipe) -> Layout:
    """Marian is post-norm, Pegasus is pre-norm."""
    encoder = recipe.model.encoder
    assert isinstance(encoder, TransformerEncoderSection), "only Transformers are exported"
    return "pegasus" if encoder.norm == "pre" else "marian"


def half_and_half(width: int) -> Tensor:
    """The places of all sines, then those of all cosines: 0, 2, 4, ..., 1, 3, 5, ..."""
    return torch.cat((torch.arange(0, width, 2), torch.arange(1, width, 2)))


class _Writer:
    """Names tensors as the layouts do, with the width axis in their order."""

    def __init__(self, order: Tensor) -> None:
        self.order = order

    def reads(self, projection: Projection) -> Projection:
        """What reads a state (·, D); theirs has a bias always."""
        weight, bias = projection.weight, projection.bias
        return Projection(weight=weight[:, self.order], bias=weight.new_zeros(len(weight)) if bias is None else bias)

    def writes(self, projection: Projection) -> Projection:
        """What writes a state (D, ·), or a norm (D,); theirs has a bias always."""
        weight, bias = projection.weight, projection.bias
        bias = weight.new_zeros(len(weight)) if bias is None else bias
        return Projection(weight=weight[self.order], bias=bias[self.order])

    def attention(self, name: str, plain: PlainAttention) -> Iterator[tuple[str, Tensor]]:
        yield from named(f"{name}.q_proj", self.reads(plain.query))
        yield from named(f"{name}.k_proj", self.reads(plain.key))
        yield from named(f"{name}.v_proj", self.reads(plain.value))
        yield from named(f"{name}.out_proj", self.writes(plain.output))

    def feedforward(self, name: str, part: FeedForward) -> Iterator[tuple[str, Tensor]]:
        yield from named(f"{name}.fc1", self.reads(Projection.of(part.inner)))
        yield from named(f"{name}.fc2", self.writes(Projection.of(part.outer)))

    def layer(
        self, name: str, layer: TransformerEncoderLayer | TransformerDecoderLayer
    ) -> Iterator[tuple[str, Tensor]]:
        yield from self.attention(f"{name}.self_attn", plain_attention(layer.attention))
        yield from named(
            f"{name}.self_attn_layer_norm", self.writes(Projection.of(layer_norm(layer.around_attention.norm)))
        )
        yield from self.feedforward(name, layer.feedforward)
        yield from named(
            f"{name}.final_layer_norm", self.writes(Projection.of(layer_norm(layer.around_feedforward.norm)))
        )
        if isinstance(layer, TransformerDecoderLayer) and layer.cross is not None and layer.around_cross is not None:
            yield from self.attention(f"{name}.encoder_attn", plain_attention(layer.cross))
            yield from named(
                f"{name}.encoder_attn_layer_norm", self.writes(Projection.of(layer_norm(layer.around_cross.norm)))
            )


def weights(sides: Sides, recipe: Recipe) -> dict[str, Tensor]:
    """All tensors of model.safetensors."""
    layout = choose_layout(recipe)
    writer = _Writer(_order(sides))
    tensors = dict(_embeddings(sides, recipe.model.tie, layout, writer.order))
    for index, encoder_layer in enumerate(sides.encoder_layers):
        tensors.update(writer.layer(f"model.encoder.layers.{index}", encoder_layer))
    for index, decoder_layer in enumerate(sides.decoder_layers):
        tensors.update(writer.layer(f"model.decoder.layers.{index}", decoder_layer))
    for side, norm in (("encoder", sides.encoder.norm), ("decoder", sides.decoder.norm)):
        if layout == "pegasus":
            assert isinstance(norm, torch.nn.LayerNorm), "pre-norm sides end with a norm"
            tensors.update(named(f"model.{side}.layer_norm", writer.writes(Projection.of(norm))))
            waves = position_table(sides.encoder, longest(recipe))
            tensors[f"model.{side}.embed_positions.weight"] = waves[:, writer.order]
    return {name: tensor.float().contiguous() for name, tensor in tensors.items()}


def _order(sides: Sides) -> Tensor:
    """Where their states have what ours have; nothing moves where ours have halves already."""
    width = sides.encoder.embedding.width
    waves = sinusoids(torch.arange(64), width).float()
    for order in (half_and_half(width), torch.arange(width)):
        if all(
            torch.allclose(position_table(side, 64)[:, order], waves[:, half_and_half(width)], atol=1e-6)
            for side in (sides.encoder, sides.decoder)
        ):
            return order
    raise ModelError("this model cannot be exported to huggingface: its sinusoids are not those of Marian and Pegasus")


def check(sides: Sides) -> None:
    """ModelError where sizes or scales are none of these layouts."""
    if scaled(sides.encoder) != scaled(sides.decoder):
        raise ModelError("this model cannot be exported to huggingface: only one side multiplies embeddings by √width")
    if sides.epsilon != EPSILON:
        raise ModelError(
            f"this model cannot be exported to huggingface: its norms add {sides.epsilon}, and those of Marian and "
            f"Pegasus add {EPSILON}"
        )


def _embeddings(sides: Sides, tie: str, layout: Layout, order: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Tables, the output, and its bias; what is tied there is written once."""
    source = sides.encoder.embedding.weight.detach()[:, order]
    target = sides.decoder.embedding.weight.detach()[:, order]
    output = sides.decoder.output.weight.detach()[:, order]
    outputs = size = target.size(0)
    if layout == "pegasus" and tie != "all":
        size = max(source.size(0), target.size(0))
        source, target, output = (_filled(table, size) for table in (source, target, output))
        yield "model.shared.weight", source.clone()
    bias = torch.full((1, size), ABSENT)
    bias[:, :outputs] = 0.0 if sides.decoder.output.bias is None else sides.decoder.output.bias.detach()
    yield "final_logits_bias", bias
    if tie == "all":
        yield "model.shared.weight", source
        return
    yield "model.encoder.embed_tokens.weight", source
    yield "model.decoder.embed_tokens.weight", target
    if tie == "none" or layout == "pegasus":
        yield "lm_head.weight", output.clone()


def _filled(table: Tensor, size: int) -> Tensor:
    """(V, D) with rows of zeros after it: (size, D)."""
    return torch.cat((table, table.new_zeros(size - table.size(0), table.size(1))))


def longest(recipe: Recipe) -> int:
    """Positions that are needed: the longest texts that the run reads and writes, START or END included."""
    return max(LONGEST, recipe.data.max_length + 1, recipe.search.max_length + 1)


def config(sides: Sides, recipe: Recipe) -> dict[str, object]:
    """config.json."""
    layout, model = choose_layout(recipe), recipe.model
    encoder, decoder = model.encoder, model.decoder
    assert isinstance(encoder, TransformerEncoderSection), "only Transformers are exported"
    assert isinstance(decoder, TransformerDecoderSection), "only Transformers are exported"
    source, target = sides.encoder.embedding.weight.size(0), sides.decoder.embedding.weight.size(0)
    vocabularies: dict[str, object] = {"vocab_size": max(source, target), "tie_word_embeddings": model.tie == "all"}
    if layout == "marian":
        vocabularies = {
            "vocab_size": source,
            "decoder_vocab_size": target,
            "share_encoder_decoder_embeddings": model.tie == "all",
            "tie_word_embeddings": model.tie != "none",
        }
    return {
        "model_type": layout,
        "architectures": [ARCHITECTURES[layout]],
        "d_model": model.width,
        "encoder_layers": len(sides.encoder_layers),
        "encoder_attention_heads": encoder.heads,
        "encoder_ffn_dim": encoder.feedforward or 2 * model.width,
        "decoder_layers": len(sides.decoder_layers),
        "decoder_attention_heads": decoder.heads,
        "decoder_ffn_dim": decoder.feedforward or 2 * model.width,
        "activation_function": encoder.activation,
        "dropout": model.dropout,
        "activation_dropout": model.dropout,
        "attention_dropout": 0.0,
        "scale_embedding": scaled(sides.encoder),
        "max_position_embeddings": longest(recipe),
        **vocabularies,
        **_reserved(),
        "forced_eos_token_id": None,
        "is_encoder_decoder": True,
        "dtype": "float32",
    }


def _reserved() -> dict[str, object]:
    return {"pad_token_id": PAD, "bos_token_id": START, "eos_token_id": END, "decoder_start_token_id": START}


def generation_config(recipe: Recipe) -> dict[str, object]:
    """generation_config.json: what our search never writes is suppressed, and scores are divided by length as ours.

    With `early_stopping: "never"` a beam would stop as late as ours may, but with no limit for each source as ours has,
    that is always at the longest length.
    """
    search = recipe.search
    return {
        **_reserved(),
        "num_beams": search.beam,
        "length_penalty": search.length_penalty,
        "early_stopping": False,
        "max_new_tokens": search.max_length,
        "suppress_tokens": [PAD, UNKNOWN, START],
    }


def files(sides: Sides, recipe: Recipe) -> Iterator[tuple[str, bytes]]:
    """Names and contents, the tokenizer apart."""
    check(sides)
    yield "model.safetensors", save(weights(sides, recipe), metadata={"format": "pt"})
    for name, record in (("config.json", config(sides, recipe)), ("generation_config.json", generation_config(recipe))):
        yield name, (json.dumps(record, indent=2) + "\n").encode()
