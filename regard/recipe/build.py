"""From a recipe to objects: the one place where names become parts.

Sizes that come from data (vocabularies) are arguments here, never fields of a recipe.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Unpack

from torch import nn

from regard.errors import UsageError
from regard.insight import Reading
from regard.metrics import MeteorSources, Metric, metric
from regard.models import (
    Acceptor,
    AttributeJoin,
    BagEncoder,
    CategoryEncoder,
    ConvolutionEncoder,
    Encoder,
    EncoderDecoder,
    MaskedLanguageModel,
    NoSource,
    Rater,
    RecurrentEncoder,
    SelfAttentiveEncoder,
    System,
    Transducer,
    TransformerEncoder,
)
from regard.nn import (
    Attention,
    Embedding,
    FactoredEmbedding,
    Recurrent,
    Site,
    embedding_table,
)
from regard.recipe.decoders import Offer, build_decoder, transformer_variant
from regard.recipe.schema import (
    BagEncoderSection,
    CategoryEncoderSection,
    ConvolutionEncoderSection,
    EvaluationSection,
    ModelSection,
    NoEncoderSection,
    Recipe,
    RecurrentDecoderSection,
    RecurrentEncoderSection,
    SearchSection,
    TransformerEncoderSection,
)
from regard.recipe.texts import Texts
from regard.search import Sampling, SearchOptions
from regard.training import Fall, Settings


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of the vocabularies, which come from data and not from a recipe. `numbers`: targets are numbers."""

    source: int
    target: int
    factors: tuple[int, ...] = ()
    attributes: tuple[int, ...] = ()
    numbers: bool = False


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
    alone = isinstance(section.encoder, CategoryEncoderSection | NoEncoderSection)
    join = None if alone else build_join(section, sizes, encoder)
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
    pictures = isinstance(section.encoder, ConvolutionEncoderSection)
    encoder = build_encoder(section, None if pictures else source_embedding(section, sizes, None), sizes)
    join = build_join(section, sizes, encoder)
    width = encoder.summary_width if join is None else join.summary_width(encoder.summary_width)
    if sizes.numbers:
        return Rater(encoder=encoder, summary_width=width, dropout=section.dropout, attributes=join)
    return Acceptor(
        encoder=encoder, summary_width=width, answers=sizes.target, dropout=section.dropout, attributes=join
    )


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
        case ConvolutionEncoderSection() as convolution:
            return ConvolutionEncoder(
                channels=convolution.channels,
                width=section.width,
                layers=convolution.layers or section.layers,
                dropout=section.dropout,
                halvings=convolution.halvings,
                groups=convolution.groups,
            )
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
            width=side.width or section.width,
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


def training_settings(recipe: Recipe) -> Settings:
    """The numbers of the training loop."""
    section = recipe.training
    return Settings(
        seed=recipe.seed,
        steps=section.steps,
        epochs=section.epochs,
        minutes=section.minutes,
        learning_rate=section.learning_rate,
        optimizer=section.optimizer,
        betas=section.betas,
        momentum=section.momentum,
        weight_decay=section.weight_decay,
        schedule=section.schedule,
        fall=Fall(**section.fall.model_dump()),
        warmup=section.warmup,
        clip=section.clip,
        precision="float32" if section.precision == "auto" else section.precision,
        moving_average=section.moving_average,
        accumulate=section.accumulate,
        lanes=section.lanes or 1,
        parallel=section.parallel,
        validate_every=section.validate_every,
        save_every=section.save_every,
        patience=section.patience,
        average=section.average,
        freeze=section.freeze,
        rates=section.rates,
        layer_decay=section.layer_decay,
    )


RANKING: Final = {
    "length_penalty": 0.0,
    "length_formula": "plain",
    "coverage_penalty": 0.0,
    "groups": 1,
    "diversity": 0.0,
    "stopping": "exact",
}
"""What hypotheses are ranked or kept apart by, and the values that mean nothing of the kind."""


def search_options(
    section: SearchSection,
    *,
    beam: int | None = None,
    best: int = 1,
    measured: bool = True,
    **sampling: Unpack[Sampling],
) -> SearchOptions:
    """How sentences are searched; what the caller asks for stands in place of what the section says.

    Only where there is a text to measure outputs by (`measured`) do they have a ratio to it.
    """
    if not measured and sampling.get("max_ratio") is not None:
        raise UsageError(
            f"max_ratio ({sampling['max_ratio']}) compares an output with the text it is made of, and this model reads "
            "none: leave it out, or bound outputs by max_length"
        )
    if sampling.get("sample") and beam is not None:
        raise UsageError(
            f"a beam ({beam}) has no effect on samples; leave it out: best (--nbest) says how many are drawn"
        )
    beam = max(section.beam if beam is None else beam, best)
    drawn = bool(sampling.get("sample") or sampling.get("stochastic"))
    idle = [name for name, none in RANKING.items() if drawn and sampling.get(name, none) != none]
    if idle:
        raise UsageError(f"{', '.join(idle)} can have no effect on outputs that are drawn, for they are not ranked")
    groups = 1 if drawn else sampling.get("groups", section.groups)
    said: Sampling = {
        "length_penalty": section.length_penalty,
        "length_formula": section.length_formula,
        "coverage_penalty": 0.0 if drawn else section.coverage_penalty,
        "min_length": section.min_length,
        "max_length": section.max_length,
        "max_ratio": section.max_ratio if measured else None,
        "block_ngrams": section.block_ngrams,
        "groups": groups,
        "diversity": section.diversity if groups > 1 else 0.0,
        "stopping": "exact" if drawn else section.stopping,
        **sampling,
    }
    beam = -(-beam // groups) * groups
    return SearchOptions(beam=beam, best=best, **said)


def build_metrics(section: EvaluationSection) -> list[Metric]:
    """What is measured."""
    meteor = MeteorSources(**section.meteor.model_dump())
    return [metric(name, tokenize=section.tokenize, meteor=meteor) for name in section.metrics]


def alignment_reading(section: EvaluationSection) -> Reading:
    """Which attention is read as an alignment."""
    chosen = section.alignment
    return Reading(layer=chosen.layer, head=chosen.head, shift=chosen.shift)
