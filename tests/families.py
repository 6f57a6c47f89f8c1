"""Small systems of every family, for the tests of models and search.

Weights are drawn anew with a large variance: at their usual beginning all outputs are about equally likely, and many a
mistake would not show.
"""

import torch
from torch import nn

from regard.models import (
    Attending,
    AttentionalVector,
    AttentiveDecoder,
    BagEncoder,
    BahdanauDecoder,
    Decoder,
    Encoder,
    EncoderDecoder,
    EveryStepDecoder,
    FinalStates,
    InitialStateDecoder,
    LocalAttention,
    RecurrentEncoder,
    SelfAttentiveEncoder,
    SideBySide,
    TransformedSummary,
    TransformerDecoder,
    TransformerEncoder,
)
from regard.nn import Attention, CellName, Embedding, Recurrent, Site, Variant, embedding_table
from regard.nn.scores import ScoreName

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
    "pyramid to deep bahdanau",
    "luong lstm",
    "luong elman local",
    "bag to output",
    "sutskever",
    "transformed",
    "every step",
    "self-attentive rnn to transformer",
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


def recurrent_encoder(
    vocabulary: int,
    cell: CellName,
    *,
    layers: int = 1,
    width: int = 5,
    two_way: bool = True,
    backwards: bool = False,
    residual: bool = False,
    pyramid: bool = False,
    layer_norm: bool = False,
    dropout: float = 0.0,
) -> RecurrentEncoder:
    return RecurrentEncoder(
        embedding=Embedding(weight=embedding_table(vocabulary, WIDTH), scaled=False),
        network=Recurrent(
            part="encoder",
            input_width=WIDTH,
            width=width,
            layers=layers,
            two_way=two_way,
            cell=cell,
            residual=residual,
            pyramid=pyramid,
            layer_norm=layer_norm,
            dropout=dropout,
        ),
        dropout=dropout,
        summary="backward" if layers == 1 and two_way else "all",
        backwards=backwards,
    )


def self_attentive_encoder(vocabulary: int, *, dropout: float = 0.0) -> SelfAttentiveEncoder:
    encoder = recurrent_encoder(vocabulary, "elman", dropout=dropout)
    width = encoder.memory_width
    attention = Attention(query_width=width, memory_width=width, heads=2, dropout=dropout, site=Site("encoder", "self"))
    return SelfAttentiveEncoder(encoder=encoder, attention=attention, dropout=dropout)


def bag_encoder(vocabulary: int, *, dropout: float = 0.0) -> BagEncoder:
    return BagEncoder(embedding=Embedding(weight=embedding_table(vocabulary, WIDTH), scaled=False), dropout=dropout)


def target_embedding(vocabulary: int) -> Embedding:
    return Embedding(weight=embedding_table(vocabulary, WIDTH), scaled=False)


def decoder_network(
    cell: CellName,
    *,
    input_width: int = WIDTH,
    layers: int = 1,
    residual: bool = False,
    layer_norm: bool = False,
    dropout: float = 0.0,
) -> Recurrent:
    return Recurrent(
        part="decoder",
        input_width=input_width,
        width=6,
        layers=layers,
        cell=cell,
        residual=residual,
        layer_norm=layer_norm,
        dropout=dropout,
    )


def plain_attention(encoder: Encoder, score: ScoreName = "additive") -> Attention:
    return Attention(
        query_width=6,
        memory_width=encoder.memory_width,
        width=7,
        score=score,
        projections="none",
        site=Site("decoder", "cross"),
    )


def bahdanau_decoder(
    vocabulary: int, encoder: Encoder, cell: CellName, *, layers: int = 1, dropout: float = 0.0
) -> BahdanauDecoder:
    network = decoder_network(cell, layers=layers, dropout=dropout)
    return BahdanauDecoder(
        embedding=target_embedding(vocabulary),
        output=nn.Linear(WIDTH, vocabulary),
        network=network,
        bridge=TransformedSummary(summary_width=encoder.summary_width, wanted=network.size),
        attention=plain_attention(encoder),
        context_width=encoder.memory_width,
        dropout=dropout,
    )


def luong_decoder(
    vocabulary: int,
    encoder: Encoder,
    cell: CellName,
    *,
    layers: int = 1,
    feeding: bool = True,
    window: int | None = None,
    score: ScoreName = "additive",
    dropout: float = 0.0,
) -> AttentiveDecoder:
    network = decoder_network(cell, layers=layers, residual=layers > 1, dropout=dropout)
    attention: Attending = plain_attention(encoder, score)
    if window is not None:
        attention = LocalAttention(attention=attention, query_width=6, window=window)
    return AttentiveDecoder(
        embedding=target_embedding(vocabulary),
        output=nn.Linear(WIDTH, vocabulary),
        network=network,
        bridge=TransformedSummary(summary_width=encoder.summary_width, wanted=network.size),
        attention=attention,
        combine=AttentionalVector(state_width=6, context_width=encoder.memory_width, width=WIDTH),
        feeding=feeding,
        dropout=dropout,
    )


def output_decoder(
    vocabulary: int,
    encoder: Encoder,
    cell: CellName,
    *,
    width: int | None = None,
    score: ScoreName = "additive",
    dropout: float = 0.0,
) -> AttentiveDecoder:
    network = decoder_network(cell, dropout=dropout)
    both = 6 + encoder.memory_width
    return AttentiveDecoder(
        embedding=target_embedding(vocabulary),
        output=nn.Linear(width or both, vocabulary),
        network=network,
        bridge=TransformedSummary(summary_width=encoder.summary_width, wanted=network.size),
        attention=plain_attention(encoder, score),
        combine=SideBySide(state_width=6, context_width=encoder.memory_width, width=width or both),
        feeding=False,
        dropout=dropout,
    )


def initial_decoder(
    vocabulary: int,
    encoder: Encoder,
    cell: CellName,
    *,
    handed: bool,
    layers: int = 1,
    layer_norm: bool = False,
    dropout: float = 0.0,
) -> InitialStateDecoder:
    network = decoder_network(cell, layers=layers, layer_norm=layer_norm, dropout=dropout)
    return InitialStateDecoder(
        embedding=target_embedding(vocabulary),
        output=nn.Linear(6, vocabulary),
        network=network,
        bridge=FinalStates(offered=encoder.finals, wanted=network.size)
        if handed
        else TransformedSummary(summary_width=encoder.summary_width, wanted=network.size),
        dropout=dropout,
    )


def every_step_decoder(vocabulary: int, encoder: Encoder, cell: CellName, *, dropout: float = 0.0) -> EveryStepDecoder:
    return EveryStepDecoder(
        embedding=target_embedding(vocabulary),
        output=nn.Linear(WIDTH, vocabulary),
        network=decoder_network(cell, input_width=WIDTH + 4, dropout=dropout),
        summary_width=encoder.summary_width,
        dropout=dropout,
    )


def family(
    name: str, *, vocabulary: int = 9, seed: int = 1, dtype: torch.dtype = torch.float64, dropout: float = 0.0
) -> EncoderDecoder:
    """A system in evaluation mode with wildly drawn weights."""
    torch.manual_seed(seed)
    encoder, decoder = sides(name, vocabulary, dropout)
    system = EncoderDecoder(encoder=encoder, decoder=decoder, vocabulary=vocabulary).to(dtype)
    with torch.no_grad():
        for parameter in system.parameters():
            parameter.normal_(std=0.5)
    return system.eval()


def sides(name: str, vocabulary: int, dropout: float) -> tuple[Encoder, Decoder]:
    encoder: Encoder
    match name:
        case "transformer post" | "transformer pre":
            norm_first = name.endswith("pre")
            encoder = transformer_encoder(vocabulary, norm_first=norm_first, dropout=dropout)
            return encoder, transformer_decoder(
                vocabulary, encoder.memory_width, norm_first=norm_first, dropout=dropout
            )
        case name if name in VARIANTS:
            for_encoder, for_decoder = VARIANTS[name]
            encoder = transformer_encoder(vocabulary, norm_first=True, dropout=dropout, variant=for_encoder)
            return encoder, transformer_decoder(
                vocabulary, encoder.memory_width, norm_first=False, dropout=dropout, variant=for_decoder
            )
        case "bahdanau gru":
            encoder = recurrent_encoder(vocabulary, "gru", dropout=dropout)
            return encoder, bahdanau_decoder(vocabulary, encoder, "gru", dropout=dropout)
        case "bahdanau gru_cho":
            encoder = recurrent_encoder(vocabulary, "gru_cho", layers=2, dropout=dropout)
            return encoder, bahdanau_decoder(vocabulary, encoder, "gru_cho", dropout=dropout)
        case "rnn to transformer":
            encoder = recurrent_encoder(vocabulary, "gru", layers=2, residual=True, dropout=dropout)
            return encoder, transformer_decoder(vocabulary, encoder.memory_width, norm_first=True, dropout=dropout)
        case "transformer to bahdanau":
            encoder = transformer_encoder(vocabulary, norm_first=True, dropout=dropout)
            return encoder, bahdanau_decoder(vocabulary, encoder, "gru_cho", dropout=dropout)
        case "self-attentive rnn to transformer":
            encoder = self_attentive_encoder(vocabulary, dropout=dropout)
            return encoder, transformer_decoder(vocabulary, encoder.memory_width, norm_first=True, dropout=dropout)
        case _:
            return recurrent_sides(name, vocabulary, dropout)


def recurrent_sides(name: str, vocabulary: int, dropout: float) -> tuple[Encoder, Decoder]:
    encoder: Encoder
    match name:
        case "pyramid to deep bahdanau":
            encoder = recurrent_encoder(vocabulary, "lstm", layers=2, pyramid=True, dropout=dropout)
            return encoder, bahdanau_decoder(vocabulary, encoder, "lstm", layers=2, dropout=dropout)
        case "luong lstm":
            encoder = recurrent_encoder(vocabulary, "lstm", two_way=False, dropout=dropout)
            return encoder, luong_decoder(vocabulary, encoder, "lstm", layers=2, dropout=dropout)
        case "luong elman local":
            encoder = recurrent_encoder(vocabulary, "elman", dropout=dropout)
            return encoder, luong_decoder(vocabulary, encoder, "elman", feeding=False, window=2, dropout=dropout)
        case "bag to output":
            encoder = bag_encoder(vocabulary, dropout=dropout)
            return encoder, output_decoder(vocabulary, encoder, "gru", width=WIDTH, dropout=dropout)
        case "sutskever":
            encoder = recurrent_encoder(
                vocabulary, "lstm", layers=2, width=6, two_way=False, backwards=True, dropout=dropout
            )
            return encoder, initial_decoder(vocabulary, encoder, "lstm", handed=True, layers=2, dropout=dropout)
        case "transformed":
            encoder = recurrent_encoder(vocabulary, "gru", layers=2, layer_norm=True, dropout=dropout)
            return encoder, initial_decoder(
                vocabulary, encoder, "lstm", handed=False, layers=2, layer_norm=True, dropout=dropout
            )
        case "every step":
            encoder = recurrent_encoder(vocabulary, "gru_cho", two_way=False, dropout=dropout)
            return encoder, every_step_decoder(vocabulary, encoder, "gru_cho", dropout=dropout)
        case _:
            raise AssertionError(name)
