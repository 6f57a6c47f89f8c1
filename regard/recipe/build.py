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
    BahdanauDecoder,
    Decoder,
    Encoder,
    EncoderDecoder,
    RecurrentEncoder,
    TransformerDecoder,
    TransformerEncoder,
)
from regard.nn import Embedding, Variant, embedding_table
from regard.recipe.schema import (
    BUCKETS,
    FURTHEST_BIAS,
    FURTHEST_RELATIVE,
    LONGEST,
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
    output = nn.Linear(section.width, target_vocabulary, bias=False)
    if section.tie == "none":
        nn.init.normal_(output.weight, std=section.width**-0.5)
    else:
        output.weight = target
    encoder = build_encoder(section, source)
    decoder = build_decoder(section, target, output, encoder)
    return EncoderDecoder(encoder=encoder, decoder=decoder, vocabulary=target_vocabulary)


def build_encoder(section: ModelSection, table: nn.Parameter) -> Encoder:
    """Reads the source."""
    match section.encoder:
        case TransformerEncoderSection() as side:
            return TransformerEncoder(
                embedding=Embedding(weight=table, scaled=True),
                layers=side.layers or section.layers,
                heads=side.heads,
                inner=side.feedforward or 2 * section.width,
                norm_first=side.norm == "pre",
                dropout=section.dropout,
                variant=transformer_variant(side),
            )
        case RecurrentEncoderSection() as side:
            from_backward = side.two_way and isinstance(section.decoder, RecurrentDecoderSection)
            return RecurrentEncoder(
                embedding=Embedding(weight=table, scaled=False),
                width=section.width,
                layers=side.layers or section.layers,
                two_way=side.two_way,
                cell=side.cell,
                dropout=section.dropout,
                summary="backward" if from_backward else "all",
            )


def build_decoder(section: ModelSection, table: nn.Parameter, output: nn.Linear, encoder: Encoder) -> Decoder:
    """Writes the target."""
    match section.decoder:
        case TransformerDecoderSection() as side:
            return TransformerDecoder(
                embedding=Embedding(weight=table, scaled=True),
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
            return BahdanauDecoder(
                embedding=Embedding(weight=table, scaled=False),
                output=output,
                width=section.width,
                memory_width=encoder.memory_width,
                summary_width=encoder.summary_width,
                cell=side.cell,
                dropout=section.dropout,
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
