"""BERT (Devlin et al. 2019): a post-norm encoder with learned positions, and a head that says what was hidden.

BERT adds a vector for the first or second sentence of a pair. We read single texts, all of them first sentences, so
that vector is added to every row of the position table: the same sum. `[SEP]` is our END, `[MASK]` our START (which no
source has), and `[CLS]` comes in front of every text. The pooler and the next-sentence head are not needed.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from regard.errors import ModelError
from regard.interchange.checkpoint import Checkpoint
from regard.interchange.parts import Parts, fill
from regard.interchange.rows import Rows, Specials
from regard.interchange.text import Foreign, read_bert_text
from regard.models import MaskedLanguageModel, TransformerEncoder
from regard.nn import Embedding
from regard.recipe.decoders import transformer_variant
from regard.recipe.schema import TransformerEncoderSection
from regard.text.imported import ImportedTokenizer

ACTIVATIONS = {"gelu": "gelu", "relu": "relu", "silu": "silu", "swish": "silu"}
UNNEEDED = (
    r"(bert\.)?pooler\.dense\.(weight|bias)",
    r"(bert\.)?embeddings\.position_ids",
    r"cls\.seq_relationship\..*",
)
HEAD = "cls.predictions"
FIRST, LAST, HIDDEN = "[CLS]", "[SEP]", "[MASK]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bert:
    """An encoder with its text; all of a masked language model where the checkpoint has its head."""

    encoder: TransformerEncoder
    masked: MaskedLanguageModel | None
    tokenizer: ImportedTokenizer
    rows: Rows
    section: TransformerEncoderSection
    longest: int  # tokens, [CLS] and [SEP] included

    @property
    def tied(self) -> bool:
        """Whether the output of the head is the embeddings."""
        return self.masked is not None and torch.equal(self.masked.output.weight, self.encoder.embedding.weight)


def load_bert(folder: str | Path) -> Bert:
    """The encoder of a checkpoint of BERT layout, ready to read."""
    return read_bert(Checkpoint(Path(folder)))


def read_bert(checkpoint: Checkpoint) -> Bert:
    config = checkpoint.config
    config.choice("position_embedding_type", "absolute", {"absolute": "absolute"})
    if config.flag("is_decoder", False):
        config.refuse("`is_decoder` is true; only encoders of BERT layout are read")
    width, size = config.whole("hidden_size", low=1), config.whole("vocab_size", low=1)
    longest = config.whole("max_position_embeddings", 512, low=1)
    with config.possible():
        section = _section(checkpoint, longest)
    if width % section.heads:
        config.refuse(f"`hidden_size` {width} cannot be split into {section.heads} heads")
    text = read_bert_text(checkpoint.folder)
    rows = Rows.order(_specials(checkpoint, text, size), size)
    parts = Parts(checkpoint)
    table = _read_encoder(parts, width, size, section)
    encoder = TransformerEncoder(
        embedding=Embedding(weight=nn.Parameter(rows.take(table)), scaled=section.embedding_scale),
        layers=section.layers or 1,
        heads=section.heads,
        inner=section.feedforward or 1,
        norm_first=False,
        dropout=config.number("hidden_dropout_prob", 0.1),
        variant=transformer_variant(section),
    )
    fill(encoder, parts.tensors | {"embedding.weight": rows.take(table)})
    has_head = checkpoint.has(f"{HEAD}.transform.dense.weight")
    masked = _read_masked(checkpoint, encoder, table, rows) if has_head else None
    checkpoint.finish(UNNEEDED)
    tokenizer = text.tokenizer(rows, prefix=(FIRST,))
    return Bert(encoder=encoder.eval(), masked=masked, tokenizer=tokenizer, rows=rows, section=section, longest=longest)


def _section(checkpoint: Checkpoint, longest: int) -> TransformerEncoderSection:
    config = checkpoint.config
    return TransformerEncoderSection.model_validate(
        {
            "layers": config.whole("num_hidden_layers", 12, low=1),
            "heads": config.whole("num_attention_heads", 12, low=1),
            "feedforward": config.whole("intermediate_size", 3072, low=1),
            "norm": "post",
            "norm_epsilon": config.number("layer_norm_eps", 1e-12),
            "activation": config.choice("hidden_act", "gelu", ACTIVATIONS),
            "positions": "learned",
            "longest": longest,
            "embedding_norm": True,
            "embedding_scale": False,
        }
    )


def _specials(checkpoint: Checkpoint, text: Foreign, size: int) -> Specials:
    missing = [piece for piece in (FIRST, LAST) if text.ids.get(piece, size) >= size]
    if missing:
        raise ModelError(f"{checkpoint.folder}: the vocabulary has no {missing[0]}, which BERT puts around every text")
    return Specials(
        pad=checkpoint.config.whole("pad_token_id", 0),
        unknown=text.unknown_id,
        start=text.ids.get(HIDDEN),
        end=text.ids[LAST],
    )


def _read_encoder(parts: Parts, width: int, size: int, section: TransformerEncoderSection) -> Tensor:
    """Everything but the embeddings, which are given back."""
    checkpoint = parts.checkpoint
    top = "bert." if checkpoint.has("bert.embeddings.word_embeddings.weight") else ""
    under = f"{top}embeddings"
    positions = checkpoint.take(f"{under}.position_embeddings.weight", section.longest or 0, width)
    types = checkpoint.config.whole("type_vocab_size", 2, low=1)
    first = checkpoint.take(f"{under}.token_type_embeddings.weight", types, width)[0]
    parts.tensors["positions.added.weight"] = positions + first
    parts.norm("embedding_norm", f"{under}.LayerNorm", width, bias=True)
    inner = section.feedforward or 0
    for layer in range(section.layers or 0):
        ours, theirs = f"layers.{layer}", f"{top}encoder.layer.{layer}"
        maps = [f"{theirs}.attention.self.{name}" for name in ("query", "key", "value")]
        parts.attention(f"{ours}.attention", [*maps, f"{theirs}.attention.output.dense"], width, width, bias=True)
        parts.norm(f"{ours}.around_attention.norm", f"{theirs}.attention.output.LayerNorm", width, bias=True)
        parts.linear(f"{ours}.feedforward.inner", [f"{theirs}.intermediate.dense"], width, inner, bias=True)
        parts.linear(f"{ours}.feedforward.outer", [f"{theirs}.output.dense"], inner, width, bias=True)
        parts.norm(f"{ours}.around_feedforward.norm", f"{theirs}.output.LayerNorm", width, bias=True)
    return checkpoint.take(f"{under}.word_embeddings.weight", size, width)


def _read_masked(checkpoint: Checkpoint, encoder: TransformerEncoder, table: Tensor, rows: Rows) -> MaskedLanguageModel:
    """The head, on top of an encoder that is read already."""
    config, (size, width) = checkpoint.config, table.shape
    config.choice("hidden_act", "gelu", {"gelu": "gelu"})
    parts = Parts(checkpoint)
    parts.linear("dense", [f"{HEAD}.transform.dense"], width, width, bias=True)
    parts.norm("norm", f"{HEAD}.transform.LayerNorm", width, bias=True)
    names = [f"{HEAD}.decoder.weight", f"{HEAD}.bias", f"{HEAD}.decoder.bias"]
    output = checkpoint.take(names[0], size, width) if checkpoint.has(names[0]) else table
    biases = [checkpoint.take(name, size) for name in names[1:] if checkpoint.has(name)]
    bias = biases[-1] if biases else torch.zeros(size)
    masked = MaskedLanguageModel(
        encoder=encoder,
        output=nn.Linear(width, len(rows.foreign), bias=False),
        norm_epsilon=config.number("layer_norm_eps", 1e-12),
    )
    known = {f"encoder.{name}": tensor for name, tensor in encoder.named_parameters()}
    fill(masked, known | parts.tensors | {"output.weight": rows.take(output), "bias": rows.bias(bias)})
    return masked.eval()
