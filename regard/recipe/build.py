"""From a recipe to objects: the one place where names become parts.

Sizes that come from data (vocabularies) are arguments here, never fields of a recipe.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from regard.insight import Reading
from regard.metrics import Metric, metric
from regard.models import (
    AttentionalVector,
    AttentiveDecoder,
    BagEncoder,
    BahdanauDecoder,
    Bridge,
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
from regard.nn import Attention, Embedding, Recurrent, Site, Variant, embedding_table
from regard.recipe.schema import (
    BUCKETS,
    FURTHEST_BIAS,
    FURTHEST_RELATIVE,
    LONGEST,
    BagEncoderSection,
    EvaluationSection,
    ModelSection,
    Recipe,
    RecurrentDecoderSection,
    RecurrentEncoderSection,
    SearchSection,
    TextSection,
    TransformerDecoderSection,
    TransformerEncoderSection,
)
from regard.search import SearchOptions
from regard.text import Tokenizer, load_tokenizer, train_tokenizer
from regard.training import Settings


@dataclass(frozen=True, slots=True)
class Texts:
    """The tokenizers of both sides; one and the same where they share a vocabulary."""

    source: Tokenizer
    target: Tokenizer

    def save(self, folder: Path) -> None:
        if self.source is self.target:
            self.source.save(folder, "text")
        else:
            self.source.save(folder, "source")
            self.target.save(folder, "target")


def text_names(section: TextSection) -> tuple[str, ...]:
    """Under which names tokenizers stand in a run folder."""
    return ("text",) if section.shared else ("source", "target")


def train_texts(section: TextSection, sources: Iterable[str], targets: Iterable[str]) -> Texts:
    """Learn the vocabularies from training text."""
    codes = None if section.codes is None else Path(section.codes)

    def learn(texts: Iterable[str], side: str | None) -> Tokenizer:
        own = {"source": section.source, "target": section.target}.get(side or "")
        return train_tokenizer(
            texts,
            unit=own.unit if own else section.unit,
            size=own.size if own else section.size,
            minimum_count=section.minimum_count,
            normal=section.normal,
            lowercase=section.lowercase,
            codes=codes,
        )

    if section.shared:
        both = learn((text for side in (sources, targets) for text in side), None)
        return Texts(source=both, target=both)
    return Texts(source=learn(sources, "source"), target=learn(targets, "target"))


def load_texts(section: TextSection, folder: Path) -> Texts:
    """Read the vocabularies of a run folder."""
    tokenizers = [load_tokenizer(folder, name) for name in text_names(section)]
    return Texts(source=tokenizers[0], target=tokenizers[-1])


def build_system(section: ModelSection, *, source_vocabulary: int, target_vocabulary: int) -> EncoderDecoder:
    """An encoder-decoder with fresh weights, drawn from torch's random state."""
    source = embedding_table(source_vocabulary, section.width)
    target = source if section.tie == "all" else embedding_table(target_vocabulary, section.width)
    encoder = build_encoder(section, source)
    output = nn.Linear(output_width(section, encoder), target_vocabulary, bias=section.output_bias)
    if section.output_bias:
        nn.init.zeros_(output.bias)
    if section.tie == "none":
        nn.init.normal_(output.weight, std=output.in_features**-0.5)
    else:
        output.weight = target
    decoder = build_decoder(section, target, output, encoder)
    return EncoderDecoder(encoder=encoder, decoder=decoder, vocabulary=target_vocabulary)


def output_width(section: ModelSection, encoder: Encoder) -> int:
    """What the output is read from; the state and its context side by side where nothing stands between."""
    side = section.decoder
    if section.tie == "none" and isinstance(side, RecurrentDecoderSection) and side.wiring == "output":
        context = {"none": encoder.memory_width, "split": encoder.memory_width // 2, "learned": section.width}
        return section.width + context[side.projections]
    return section.width


def build_encoder(section: ModelSection, table: nn.Parameter) -> Encoder:
    """Reads the source."""
    match section.encoder:
        case TransformerEncoderSection() as side:
            return TransformerEncoder(
                embedding=Embedding(weight=table, scaled=side.embedding_scale),
                layers=side.layers or section.layers,
                heads=side.heads,
                inner=side.feedforward or 2 * section.width,
                norm_first=side.norm == "pre",
                dropout=section.dropout,
                variant=transformer_variant(side),
            )
        case RecurrentEncoderSection() as side:
            return build_recurrent_encoder(section, side, table)
        case BagEncoderSection():
            return BagEncoder(embedding=Embedding(weight=table, scaled=False), dropout=section.dropout)


def build_recurrent_encoder(section: ModelSection, side: RecurrentEncoderSection, table: nn.Parameter) -> Encoder:
    """Reads the source one item after the other."""
    decoder = section.decoder
    bahdanau = isinstance(decoder, RecurrentDecoderSection) and decoder.wiring == "bahdanau"
    encoder = RecurrentEncoder(
        embedding=Embedding(weight=table, scaled=False),
        network=Recurrent(
            part="encoder",
            input_width=section.width,
            width=section.width,
            layers=side.layers or section.layers,
            cell=side.cell,
            two_way=side.two_way,
            residual=side.residual,
            pyramid=side.pyramid,
            layer_norm=side.layer_norm,
            dropout=section.dropout,
        ),
        dropout=section.dropout,
        summary="backward" if side.two_way and bahdanau else "all",
        backwards=side.reversed,
    )
    if side.self_attention is None:
        return encoder
    width = encoder.memory_width
    attention = Attention(
        query_width=width,
        memory_width=width,
        heads=side.self_attention,
        dropout=section.dropout,
        site=Site("encoder", "self"),
    )
    return SelfAttentiveEncoder(encoder=encoder, attention=attention, dropout=section.dropout)


def build_decoder(section: ModelSection, table: nn.Parameter, output: nn.Linear, encoder: Encoder) -> Decoder:
    """Writes the target."""
    match section.decoder:
        case TransformerDecoderSection() as side:
            return TransformerDecoder(
                embedding=Embedding(weight=table, scaled=side.embedding_scale),
                output=output,
                memory_width=encoder.memory_width,
                layers=side.layers or section.layers,
                heads=side.heads,
                inner=side.feedforward or 2 * section.width,
                norm_first=side.norm == "pre",
                dropout=section.dropout,
                variant=transformer_variant(side),
            )
        case RecurrentDecoderSection() as side:
            return build_recurrent_decoder(section, side, table, output, encoder)


def build_recurrent_decoder(
    section: ModelSection, side: RecurrentDecoderSection, table: nn.Parameter, output: nn.Linear, encoder: Encoder
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
            attention = build_attention(side, width, encoder)
            return BahdanauDecoder(
                embedding=embedding,
                output=output,
                network=network,
                bridge=TransformedSummary(summary_width=encoder.summary_width, wanted=network.size),
                attention=attention,
                context_width=attention.context_width,
                dropout=dropout,
            )
        case "luong" | "output":
            attention = build_attention(side, width, encoder)
            combine = AttentionalVector if side.wiring == "luong" else SideBySide
            return AttentiveDecoder(
                embedding=embedding,
                output=output,
                network=network,
                bridge=build_bridge(encoder, network),
                attention=attention
                if side.window is None
                else LocalAttention(attention=attention, query_width=width, window=side.window),
                combine=combine(state_width=width, context_width=attention.context_width, width=output.in_features),
                feeding=side.wiring == "luong" and side.input_feeding is not False,
                dropout=dropout,
            )
        case "initial" | "transformed":
            bridge: Bridge = TransformedSummary(summary_width=encoder.summary_width, wanted=network.size)
            if side.wiring == "initial":
                bridge = FinalStates(offered=encoder.finals, wanted=network.size)
            return InitialStateDecoder(
                embedding=embedding, output=output, network=network, bridge=bridge, dropout=dropout
            )
        case "every_step":
            return EveryStepDecoder(
                embedding=embedding,
                output=output,
                network=network,
                summary_width=encoder.summary_width,
                dropout=dropout,
            )


def build_bridge(encoder: Encoder, network: Recurrent) -> Bridge:
    """Final states are handed over as they are where they fit; else the summary is transformed."""
    if encoder.finals == network.size:
        return FinalStates(offered=encoder.finals, wanted=network.size)
    return TransformedSummary(summary_width=encoder.summary_width, wanted=network.size)


def build_attention(side: RecurrentDecoderSection, width: int, encoder: Encoder) -> Attention:
    """From the states of a recurrent decoder to the memory."""
    return Attention(
        query_width=width,
        memory_width=encoder.memory_width,
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
        norm_kind=side.norm_kind,
        norm_epsilon=side.norm_epsilon,
        embedding_norm=side.embedding_norm,
        waves=side.waves or "interleaved",
    )


def training_settings(recipe: Recipe) -> Settings:
    """The numbers of the training loop."""
    section = recipe.training
    return Settings(
        seed=recipe.seed,
        steps=section.steps,
        epochs=section.epochs,
        minutes=section.minutes,
        learning_rate=section.learning_rate,
        betas=section.betas,
        weight_decay=section.weight_decay,
        schedule=section.schedule,
        warmup=section.warmup,
        clip=section.clip,
        label_smoothing=section.label_smoothing,
        accumulate=section.accumulate,
        validate_every=section.validate_every,
        save_every=section.save_every,
        patience=section.patience,
        average=section.average,
    )


def search_options(section: SearchSection, *, beam: int | None = None, best: int = 1) -> SearchOptions:
    """How sentences are searched; `beam` and `best` may be asked for by the caller."""
    beam = max(section.beam if beam is None else beam, best)
    return SearchOptions(
        beam=beam,
        length_penalty=section.length_penalty,
        max_length=section.max_length,
        max_ratio=section.max_ratio,
        best=best,
    )


def build_metrics(section: EvaluationSection) -> list[Metric]:
    """What is measured."""
    return [metric(name, tokenize=section.tokenize) for name in section.metrics]


def alignment_reading(section: EvaluationSection) -> Reading:
    """Which attention is read as an alignment."""
    chosen = section.alignment
    return Reading(layer=chosen.layer, head=chosen.head, shift=chosen.shift)
