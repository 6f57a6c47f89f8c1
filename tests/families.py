"""Small systems of every family, for the tests of models and search.

Weights are drawn anew with a large variance: at their usual beginning all outputs are about equally likely, and many a
mistake would not show.
"""

import torch
from torch import nn

from regard.models import (
    BahdanauDecoder,
    Decoder,
    Encoder,
    EncoderDecoder,
    RecurrentEncoder,
    TransformerDecoder,
    TransformerEncoder,
)
from regard.nn import Embedding, Variant, embedding_table
from regard.nn.recurrent import CellName

WIDTH = 8
VARIANTS = {  # of encoder and decoder; together they hold every pair of choices that matter to each other
    "transformer none": (
        Variant(positions="none", score="bilinear", activation="gelu", key_heads=1),
        Variant(positions="none", score="dot", activation="swiglu"),
    ),
    "transformer learned": (
        Variant(positions="learned", score="additive", activation="swiglu", key_heads=1),
        Variant(positions="learned", longest=530, score="bilinear", activation="gelu"),
    ),
    "transformer relative": (
        Variant(positions="relative", furthest=2, score="bilinear"),
        Variant(positions="relative", furthest=2, activation="swiglu", key_heads=1),
    ),
    "transformer relative_bias": (
        Variant(positions="relative_bias", buckets=8, furthest=5, score="dot"),
        Variant(positions="relative_bias", buckets=8, furthest=6, score="additive", key_heads=1),
    ),
    "transformer rotary": (
        Variant(positions="rotary", activation="swiglu", key_heads=1),
        Variant(positions="rotary", score="bilinear", activation="gelu", key_heads=1),
    ),
    "transformer alibi": (
        Variant(positions="alibi", score="additive", activation="gelu"),
        Variant(positions="alibi", score="scaled_dot", key_heads=1),
    ),
    "transformer relative to rotary": (
        Variant(positions="relative", furthest=3, score="dot", key_heads=1, activation="gelu"),
        Variant(positions="rotary", score="scaled_dot"),
    ),
}
FAMILIES = (
    *VARIANTS,
    "transformer post",
    "transformer pre",
    "bahdanau gru",
    "bahdanau gru_cho",
    "rnn to transformer",
    "transformer to bahdanau",
)


PAPER = Variant()


def transformer_encoder(
    vocabulary: int, *, norm_first: bool, dropout: float = 0.0, variant: Variant = PAPER
) -> TransformerEncoder:
    return TransformerEncoder(
        embedding=Embedding(weight=embedding_table(vocabulary, WIDTH), scaled=True),
        layers=2,
        heads=2,
        inner=12,
        norm_first=norm_first,
        dropout=dropout,
        variant=variant,
    )


def transformer_decoder(
    vocabulary: int, memory_width: int, *, norm_first: bool, dropout: float = 0.0, variant: Variant = PAPER
) -> TransformerDecoder:
    table = embedding_table(vocabulary, WIDTH)
    output = nn.Linear(WIDTH, vocabulary, bias=False)
    output.weight = table
    return TransformerDecoder(
        embedding=Embedding(weight=table, scaled=True),
        output=output,
        memory_width=memory_width,
        layers=2,
        heads=2,
        inner=12,
        norm_first=norm_first,
        dropout=dropout,
        variant=variant,
    )


def recurrent_encoder(vocabulary: int, cell: CellName, *, layers: int = 1, dropout: float = 0.0) -> RecurrentEncoder:
    return RecurrentEncoder(
        embedding=Embedding(weight=embedding_table(vocabulary, WIDTH), scaled=False),
        width=5,
        layers=layers,
        two_way=True,
        cell=cell,
        dropout=dropout,
        summary="backward" if layers == 1 else "all",
    )


def bahdanau_decoder(vocabulary: int, encoder: Encoder, cell: CellName, *, dropout: float = 0.0) -> BahdanauDecoder:
    return BahdanauDecoder(
        embedding=Embedding(weight=embedding_table(vocabulary, WIDTH), scaled=False),
        output=nn.Linear(WIDTH, vocabulary),
        width=6,
        memory_width=encoder.memory_width,
        summary_width=encoder.summary_width,
        cell=cell,
        dropout=dropout,
    )


def family(
    name: str, *, vocabulary: int = 9, seed: int = 1, dtype: torch.dtype = torch.float64, dropout: float = 0.0
) -> EncoderDecoder:
    """A system in evaluation mode with wildly drawn weights."""
    torch.manual_seed(seed)
    encoder: Encoder
    decoder: Decoder
    match name:
        case "transformer post" | "transformer pre":
            norm_first = name.endswith("pre")
            encoder = transformer_encoder(vocabulary, norm_first=norm_first, dropout=dropout)
            decoder = transformer_decoder(vocabulary, encoder.memory_width, norm_first=norm_first, dropout=dropout)
        case name if name in VARIANTS:
            for_encoder, for_decoder = VARIANTS[name]
            encoder = transformer_encoder(vocabulary, norm_first=True, dropout=dropout, variant=for_encoder)
            decoder = transformer_decoder(
                vocabulary, encoder.memory_width, norm_first=False, dropout=dropout, variant=for_decoder
            )
        case "bahdanau gru":
            encoder = recurrent_encoder(vocabulary, "gru", dropout=dropout)
            decoder = bahdanau_decoder(vocabulary, encoder, "gru", dropout=dropout)
        case "bahdanau gru_cho":
            encoder = recurrent_encoder(vocabulary, "gru_cho", layers=2, dropout=dropout)
            decoder = bahdanau_decoder(vocabulary, encoder, "gru_cho", dropout=dropout)
        case "rnn to transformer":
            encoder = recurrent_encoder(vocabulary, "gru", layers=2, dropout=dropout)
            decoder = transformer_decoder(vocabulary, encoder.memory_width, norm_first=True, dropout=dropout)
        case "transformer to bahdanau":
            encoder = transformer_encoder(vocabulary, norm_first=True, dropout=dropout)
            decoder = bahdanau_decoder(vocabulary, encoder, "gru_cho", dropout=dropout)
        case _:
            raise AssertionError(name)
    system = EncoderDecoder(encoder=encoder, decoder=decoder, vocabulary=vocabulary).to(dtype)
    with torch.no_grad():
        for parameter in system.parameters():
            parameter.normal_(std=0.5)
    return system.eval()
