"""From a recipe to objects: the one place where names become parts.

Sizes that come from data (vocabularies) are arguments here, never fields of a recipe.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from torch import nn

from regard.data.collation import (
    AnswerCollation,
    Collation,
    MaskCollation,
    Masking,
    SourceTexts,
    TagCollation,
    TextCollation,
)
from regard.errors import UsageError
from regard.insight import Reading
from regard.metrics import Metric, metric
from regard.models import (
    Acceptor,
    AttentionalVector,
    AttentiveDecoder,
    AttributeJoin,
    BagEncoder,
    BahdanauDecoder,
    Bridge,
    CategoryEncoder,
    Decoder,
    Encoder,
    EncoderDecoder,
    EveryStepDecoder,
    FinalStates,
    FromNothing,
    InitialStateDecoder,
    LocalAttention,
    MaskedLanguageModel,
    NoSource,
    Rater,
    RecurrentEncoder,
    SelfAttentiveEncoder,
    SideBySide,
    System,
    Transducer,
    TransformedSummary,
    TransformerDecoder,
    TransformerEncoder,
)
from regard.nn import (
    Attention,
    Embedding,
    FactoredEmbedding,
    Recurrent,
    Site,
    StateSize,
    Variant,
    embedding_table,
)
from regard.recipe.schema import (
    BUCKETS,
    FURTHEST_BIAS,
    FURTHEST_RELATIVE,
    LONGEST,
    BagEncoderSection,
    CategoryEncoderSection,
    EvaluationSection,
    ModelSection,
    NoDecoderSection,
    NoEncoderSection,
    Recipe,
    RecurrentDecoderSection,
    RecurrentEncoderSection,
    SearchSection,
    SideText,
    TransformerDecoderSection,
    TransformerEncoderSection,
)
from regard.search import Sampling, SearchOptions
from regard.text import Tokenizer, load_tokenizer, train_answers, train_tokenizer
from regard.training import Settings

MOST = 1_000_000
"""Entries of the vocabulary of a factor."""


@dataclass(frozen=True, slots=True)
class Texts:
    """The tokenizers of a run; source and target are one and the same where there is one vocabulary."""

    source: Tokenizer
    target: Tokenizer
    factors: tuple[Tokenizer, ...] = ()
    attributes: tuple[Tokenizer, ...] = ()

    def save(self, folder: Path) -> None:
        sides = (
            (("text", self.source),)
            if self.source is self.target
            else (("source", self.source), ("target", self.target))
        )
        further = (("factor", self.factors), ("attribute", self.attributes))
        numbered = ((f"{name}{number}", one) for name, all_ in further for number, one in enumerate(all_, start=1))
        for name, tokenizer in (*sides, *numbered):
            tokenizer.save(folder, name)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of the vocabularies, which come from data and not from a recipe. `numbers`: targets are numbers."""

    source: int
    target: int
    factors: tuple[int, ...] = ()
    attributes: tuple[int, ...] = ()
    numbers: bool = False


def text_names(recipe: Recipe) -> tuple[str, ...]:
    """Under which names tokenizers stand in a run folder."""
    return (
        *(("text",) if recipe.text.shared else ("source", "target")),
        *(f"factor{number}" for number in range(1, len(recipe.data.factors) + 1)),
        *(f"attribute{number}" for number in range(1, len(recipe.data.attributes) + 1)),
    )


def train_texts(recipe: Recipe, sources: Sequence[str], targets: Sequence[str]) -> Texts:
    """Learn the vocabularies from the training examples, whose sources may have further columns."""
    section = recipe.text
    codes = None if section.codes is None else Path(section.codes)

    def learn(texts: Iterable[str], own: SideText | None) -> Tokenizer:
        unit = own.unit if own else section.unit
        if unit == "label" or unit == "number":
            return train_answers(texts, unit=unit)
        return train_tokenizer(
            texts,
            unit=unit,
            size=own.size if own else section.size,
            minimum_count=section.minimum_count,
            normal=section.normal,
            lowercase=section.lowercase,
            codes=codes,
        )

    further = len(recipe.data.factors) + len(recipe.data.attributes)
    lines = [source.rsplit("\t", further) for source in sources] if further else [[source] for source in sources]
    first = int(recipe.data.source is not None)
    columns = list(zip(*lines, strict=True))[first:] if further else []
    factors = tuple(train_tokenizer(column, unit="word", size=MOST) for column in columns[: len(recipe.data.factors)])
    attributes = tuple(train_answers(column, unit="label") for column in columns[len(recipe.data.factors) :])
    texts = (line[0] for line in lines) if first else ()
    if section.shared:
        both = learn((text for side in (texts, targets) for text in side), None)
        return Texts(source=both, target=both, factors=factors, attributes=attributes)
    return Texts(
        source=learn(texts, section.source),
        target=learn(targets, section.target),
        factors=factors,
        attributes=attributes,
    )


def load_texts(recipe: Recipe, folder: Path) -> Texts:
    """Read the vocabularies of a run folder."""
    loaded = {name: load_tokenizer(folder, name) for name in text_names(recipe)}
    return Texts(
        source=loaded["text" if recipe.text.shared else "source"],
        target=loaded["text" if recipe.text.shared else "target"],
        factors=tuple(one for name, one in loaded.items() if name.startswith("factor")),
        attributes=tuple(one for name, one in loaded.items() if name.startswith("attribute")),
    )


def build_collation(recipe: Recipe, texts: Texts) -> Collation:
    """How examples become batches, by the shape of the model."""
    source = SourceTexts(
        text=None if recipe.data.source is None else texts.source,
        factors=texts.factors,
        attributes=texts.attributes,
    )
    match recipe.model.shape:
        case "encoder-decoder" | "language-model":
            return TextCollation(source=source, target=texts.target)
        case "acceptor":
            return AnswerCollation(source=source, target=texts.target)
        case "transducer":
            return TagCollation(source=source, target=texts.target)
        case "masked-language-model":
            masking = recipe.training.masking
            return MaskCollation(
                source=source,
                masking=Masking(share=masking.share, masked=masking.masked, replaced=masking.replaced),
            )


def build_system(
    section: ModelSection,
    *,
    source_vocabulary: int,
    target_vocabulary: int,
    factors: Sequence[int] = (),
    attributes: Sequence[int] = (),
    numbers: bool = False,
) -> System:
    """What a recipe describes, with fresh weights drawn from torch's random state.

    `factors` and `attributes` are the sizes of their vocabularies; `numbers` says that targets are numbers.
    """
    sizes = Sizes(source_vocabulary, target_vocabulary, tuple(factors), tuple(attributes), numbers)
    match section.shape:
        case "encoder-decoder" | "language-model":
            return build_encoder_decoder(section, sizes)
        case "acceptor":
            return build_acceptor(section, sizes)
        case "transducer":
            encoder = build_encoder(section, source_embedding(section, sizes, None), sizes)
            return Transducer(encoder=encoder, answers=sizes.target, dropout=section.dropout)
        case "masked-language-model":
            return build_masked(section, sizes)


def system_for(recipe: Recipe, texts: Texts) -> System:
    """The system of a recipe for its vocabularies."""
    return build_system(
        recipe.model,
        source_vocabulary=texts.source.size,
        target_vocabulary=texts.target.size,
        factors=[one.size for one in texts.factors],
        attributes=[one.size for one in texts.attributes],
        numbers=texts.target.unit == "number",
    )


def build_masked(section: ModelSection, sizes: Sizes) -> MaskedLanguageModel:
    """Hidden items from both sides of them."""
    table = embedding_table(sizes.source, word_width(section, sizes))
    encoder = build_encoder(section, source_embedding(section, sizes, table), sizes)
    output = nn.Linear(table.size(1), sizes.source, bias=False)
    if section.tie == "none":
        nn.init.normal_(output.weight, std=output.in_features**-0.5)
    else:
        output.weight = table
    side = section.encoder
    epsilon = {"norm_epsilon": side.norm_epsilon} if isinstance(side, TransformerEncoderSection) else {}
    return MaskedLanguageModel(encoder=encoder, output=output, **epsilon)


def build_encoder_decoder(section: ModelSection, sizes: Sizes) -> EncoderDecoder:
    """Any encoder with any decoder; with nothing to read, a language model."""
    reads = isinstance(section.encoder, TransformerEncoderSection | RecurrentEncoderSection | BagEncoderSection)
    source = embedding_table(sizes.source, word_width(section, sizes)) if reads else None
    target = source if section.tie == "all" and source is not None else embedding_table(sizes.target, section.width)
    encoder = build_encoder(section, None if source is None else source_embedding(section, sizes, source), sizes)
    join = build_join(section, sizes, encoder) if reads else None
    output = nn.Linear(output_width(section, encoder), sizes.target, bias=section.output_bias)
    if section.output_bias:
        nn.init.zeros_(output.bias)
    if section.tie == "none":
        nn.init.normal_(output.weight, std=output.in_features**-0.5)
    else:
        output.weight = target
    offer = Offer(
        memory_width=encoder.memory_width,
        summary_width=encoder.summary_width if join is None else join.summary_width(encoder.summary_width),
        finals=encoder.finals,
    )
    decoder = build_decoder(section, target, output, offer)
    return EncoderDecoder(encoder=encoder, decoder=decoder, vocabulary=sizes.target, attributes=join)


def build_acceptor(section: ModelSection, sizes: Sizes) -> Acceptor:
    """One answer for a source."""
    encoder = build_encoder(section, source_embedding(section, sizes, None), sizes)
    join = build_join(section, sizes, encoder)
    width = encoder.summary_width if join is None else join.summary_width(encoder.summary_width)
    if sizes.numbers:
        return Rater(encoder=encoder, summary_width=width, dropout=section.dropout, attributes=join)
    return Acceptor(
        encoder=encoder, summary_width=width, answers=sizes.target, dropout=section.dropout, attributes=join
    )


@dataclass(frozen=True, slots=True)
class Offer:
    """What a decoder finds of a source."""

    memory_width: int
    summary_width: int
    finals: StateSize | None


def word_width(section: ModelSection, sizes: Sizes) -> int:
    """Of the vectors of source words: less than the width where factors stand beside them."""
    return section.width - (section.factor_width * len(sizes.factors) if section.factors == "concat" else 0)


def source_embedding(section: ModelSection, sizes: Sizes, table: nn.Parameter | None) -> Embedding:
    """Of the items of a source, with all their factors."""
    scaled = isinstance(section.encoder, TransformerEncoderSection) and section.encoder.embedding_scale
    weight = embedding_table(sizes.source, word_width(section, sizes)) if table is None else table
    if not sizes.factors:
        return Embedding(weight=weight, scaled=scaled)
    width = section.factor_width if section.factors == "concat" else section.width
    factors = [embedding_table(size, width) for size in sizes.factors]
    return FactoredEmbedding(weight=weight, factors=factors, combine=section.factors, scaled=scaled)


def build_join(section: ModelSection, sizes: Sizes, encoder: Encoder) -> AttributeJoin | None:
    """Attributes beside a source, where there are any."""
    if not sizes.attributes:
        return None
    return AttributeJoin(build_category(section, sizes), encoder.memory_width)


def build_category(section: ModelSection, sizes: Sizes) -> CategoryEncoder:
    """Attributes as vectors."""
    tables = [embedding_table(size, section.width) for size in sizes.attributes]
    return CategoryEncoder(tables=tables, dropout=section.dropout)


def output_width(section: ModelSection, encoder: Encoder) -> int:
    """What the output is read from; the state and its context side by side where nothing stands between."""
    side = section.decoder
    if section.tie == "none" and isinstance(side, RecurrentDecoderSection) and side.wiring == "output":
        context = {"none": encoder.memory_width, "split": encoder.memory_width // 2, "learned": section.width}
        return section.width + context[side.projections]
    return section.width


def build_encoder(section: ModelSection, embedding: Embedding | None, sizes: Sizes) -> Encoder:
    """Reads the source."""
    match section.encoder:
        case NoEncoderSection():
            return NoSource(width=section.width)
        case CategoryEncoderSection():
            return build_category(section, sizes)
    assert embedding is not None
    match section.encoder:
        case TransformerEncoderSection() as side:
            return TransformerEncoder(
                embedding=embedding,
                layers=side.layers or section.layers,
                heads=side.heads,
                inner=side.feedforward or 2 * section.width,
                norm_first=side.norm == "pre",
                dropout=section.dropout,
                variant=transformer_variant(side),
            )
        case RecurrentEncoderSection() as side:
            return build_recurrent_encoder(section, side, embedding)
        case BagEncoderSection():
            return BagEncoder(embedding=embedding, dropout=section.dropout)


def build_recurrent_encoder(section: ModelSection, side: RecurrentEncoderSection, embedding: Embedding) -> Encoder:
    """Reads the source one item after the other."""
    decoder = section.decoder
    bahdanau = isinstance(decoder, RecurrentDecoderSection) and decoder.wiring == "bahdanau"
    encoder = RecurrentEncoder(
        embedding=embedding,
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
        freeze=section.freeze,
        rates=section.rates,
        layer_decay=section.layer_decay,
    )


def search_options(
    section: SearchSection, *, beam: int | None = None, best: int = 1, **sampling: Unpack[Sampling]
) -> SearchOptions:
    """How sentences are searched; `beam`, `best` and how to draw samples may be asked for by the caller."""
    if sampling.get("sample") and beam is not None:
        raise UsageError(f"a beam ({beam}) has no effect on samples; leave it out, `best` is the number of samples")
    beam = max(section.beam if beam is None else beam, best)
    return SearchOptions(
        beam=beam,
        length_penalty=section.length_penalty,
        max_length=section.max_length,
        max_ratio=section.max_ratio,
        best=best,
        **sampling,
    )


def build_metrics(section: EvaluationSection) -> list[Metric]:
    """What is measured."""
    return [metric(name, tokenize=section.tokenize) for name in section.metrics]


def alignment_reading(section: EvaluationSection) -> Reading:
    """Which attention is read as an alignment."""
    chosen = section.alignment
    return Reading(layer=chosen.layer, head=chosen.head, shift=chosen.shift)
