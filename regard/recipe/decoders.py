"""From the decoder section of a recipe to a decoder."""

from dataclasses import dataclass

from torch import nn

from regard.models import (
    AttentionalVector,
    AttentiveDecoder,
    BahdanauDecoder,
    Bridge,
    Decoder,
    EveryStepDecoder,
    FinalStates,
    FromNothing,
    InitialStateDecoder,
    LocalAttention,
    SideBySide,
    TransformedSummary,
    TransformerDecoder,
)
from regard.nn import (
    Attention,
    Embedding,
    Recurrent,
    Site,
    StateSize,
    Variant,
)
from regard.recipe.schema import (
    BUCKETS,
    FURTHEST_BIAS,
    FURTHEST_RELATIVE,
    LONGEST,
    ModelSection,
    NoDecoderSection,
    RecurrentDecoderSection,
    TransformerDecoderSection,
    TransformerEncoderSection,
)


@dataclass(frozen=True, slots=True)
class Offer:
    """What a decoder finds of a source."""

    memory_width: int
    summary_width: int
    finals: StateSize | None


def build_decoder(section: ModelSection, table: nn.Parameter, output: nn.Linear, offer: Offer) -> Decoder:
    """Writes the target."""
    assert not isinstance(section.decoder, NoDecoderSection)
    match section.decoder:
        case TransformerDecoderSection() as side:
            return TransformerDecoder(
                embedding=Embedding(weight=table, scaled=side.embedding_scale),
                output=output,
                memory_width=None if section.shape == "language-model" else offer.memory_width,
                layers=side.layers or section.layers,
                heads=side.heads,
                inner=side.feedforward or 2 * section.width,
                norm_first=side.norm == "pre",
                dropout=section.dropout,
                variant=transformer_variant(side),
            )
        case RecurrentDecoderSection() as side:
            return build_recurrent_decoder(section, side, table, output, offer)


def build_recurrent_decoder(
    section: ModelSection, side: RecurrentDecoderSection, table: nn.Parameter, output: nn.Linear, offer: Offer
) -> Decoder:
    """Writes the target one item after the other; the wiring says how the source gets in."""
    embedding, dropout, width = Embedding(weight=table, scaled=False), section.dropout, section.width
    network = Recurrent(
        part="decoder",
        input_width=2 * width if side.wiring == "every_step" else width,
        width=width,
        layers=side.layers or section.layers,
        cell=side.cell,
        residual=side.residual,
        layer_norm=side.layer_norm,
        dropout=dropout,
    )
    match side.wiring:
        case "bahdanau":
            attention = build_attention(side, width, offer)
            return BahdanauDecoder(
                embedding=embedding,
                output=output,
                network=network,
                bridge=TransformedSummary(summary_width=offer.summary_width, wanted=network.size),
                attention=attention,
                context_width=attention.context_width,
                dropout=dropout,
            )
        case "luong" | "output":
            attention = build_attention(side, width, offer)
            combine = AttentionalVector if side.wiring == "luong" else SideBySide
            return AttentiveDecoder(
                embedding=embedding,
                output=output,
                network=network,
                bridge=build_bridge(offer, network),
                attention=attention
                if side.window is None
                else LocalAttention(attention=attention, query_width=width, window=side.window),
                combine=combine(state_width=width, context_width=attention.context_width, width=output.in_features),
                feeding=side.wiring == "luong" and side.input_feeding is not False,
                dropout=dropout,
            )
        case "initial" | "transformed" | "none":
            bridge: Bridge = TransformedSummary(summary_width=offer.summary_width, wanted=network.size)
            if side.wiring == "initial":
                bridge = FinalStates(offered=offer.finals, wanted=network.size)
            elif side.wiring == "none":
                bridge = FromNothing(wanted=network.size)
            return InitialStateDecoder(
                embedding=embedding, output=output, network=network, bridge=bridge, dropout=dropout
            )
        case "every_step":
            return EveryStepDecoder(
                embedding=embedding,
                output=output,
                network=network,
                summary_width=offer.summary_width,
                dropout=dropout,
            )


def build_bridge(offer: Offer, network: Recurrent) -> Bridge:
    """Final states are handed over as they are where they fit; else the summary is transformed."""
    if offer.finals == network.size:
        return FinalStates(offered=offer.finals, wanted=network.size)
    return TransformedSummary(summary_width=offer.summary_width, wanted=network.size)


def build_attention(side: RecurrentDecoderSection, width: int, offer: Offer) -> Attention:
    """From the states of a recurrent decoder to the memory."""
    return Attention(
        query_width=width,
        memory_width=offer.memory_width,
        width=width,
        score=side.score,
        projections=side.projections,
        heads=side.heads,
        site=Site("decoder", "cross"),
    )


def transformer_variant(side: TransformerEncoderSection) -> Variant:
    """In what the Transformer of one side differs from the paper's."""
    return Variant(
        positions=side.positions,
        longest=side.longest or LONGEST,
        furthest=side.furthest or (FURTHEST_RELATIVE if side.positions == "relative" else FURTHEST_BIAS),
        buckets=side.buckets or BUCKETS,
        activation=side.activation,
        score=side.score,
        key_heads=side.key_heads,
        head_width=side.head_width,
        attention_bias=side.attention_bias,
        feedforward_bias=side.feedforward_bias,
        feedforward_dropout=side.feedforward_dropout,
        norm_kind=side.norm_kind,
        norm_epsilon=side.norm_epsilon,
        embedding_norm=side.embedding_norm,
        waves=side.waves or "interleaved",
    )
