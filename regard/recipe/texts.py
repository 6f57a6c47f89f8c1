"""The vocabularies of a run: learned, saved, loaded, and what becomes of examples by them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from regard.data.collation import (
    AnswerCollation,
    Collation,
    MaskCollation,
    Masking,
    SourceTexts,
    TagCollation,
    TextCollation,
)
from regard.data.pictures import Pictures
from regard.recipe.schema import (
    ConvolutionEncoderSection,
    Recipe,
    SideText,
)
from regard.special import FIRST_FREE
from regard.text import BackwardTokenizer, Tokenizer, load_tokenizer, train_answers, train_tokenizer

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


def text_names(recipe: Recipe) -> tuple[str, ...]:
    """Under which names tokenizers stand in a run folder."""
    return (
        *(("text",) if recipe.one_text else ("source", "target")),
        *(f"factor{number}" for number in range(1, len(recipe.data.factors) + 1)),
        *(f"attribute{number}" for number in range(1, len(recipe.data.attributes) + 1)),
    )


def train_texts(recipe: Recipe, sources: Iterable[str], targets: Iterable[str], *, whole: Sequence[str] = ()) -> Texts:
    """Learn the vocabularies from the training examples, whose sources may have further columns.

    Both sides are gone through once or more. Words of `whole` are never cut into pieces (bpe, unigram).
    """
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
            whole=whole,
        )

    further = len(recipe.data.factors) + len(recipe.data.attributes)

    def column(number: int) -> Iterator[str]:
        return (source.rsplit("\t", further)[number] if further else source for source in sources)

    first = int(recipe.data.source is not None)
    factors = tuple(
        train_tokenizer(column(number), unit="word", size=MOST)
        for number in range(first, first + len(recipe.data.factors))
    )
    attributes = tuple(
        train_answers(column(number), unit="label") for number in range(first + len(factors), first + further)
    )
    texts = column(0) if recipe.reads_text else ()
    if recipe.one_text:
        both = learn((text for side in (texts, targets) for text in side), section.target)
        return Texts(source=both, target=both, factors=factors, attributes=attributes)
    tags = recipe.model.shape == "transducer"  # all of them, as they are
    return Texts(
        source=learn(texts, section.source),
        target=train_tokenizer(targets, unit="word", size=MOST) if tags else learn(targets, section.target),
        factors=factors,
        attributes=attributes,
    )


def load_texts(recipe: Recipe, folder: Path) -> Texts:
    """Read the vocabularies of a run folder."""
    loaded = {name: load_tokenizer(folder, name) for name in text_names(recipe)}
    return Texts(
        source=loaded["text" if recipe.one_text else "source"],
        target=loaded["text" if recipe.one_text else "target"],
        factors=tuple(one for name, one in loaded.items() if name.startswith("factor")),
        attributes=tuple(one for name, one in loaded.items() if name.startswith("attribute")),
    )


def pictures_of(recipe: Recipe) -> Pictures | None:
    """How pictures are read, where they are the source."""
    side = recipe.model.encoder
    if not isinstance(side, ConvolutionEncoderSection):
        return None
    layers = side.layers or recipe.model.layers
    return Pictures(channels=side.channels, cell=2 ** (layers if side.halvings is None else side.halvings))


def _takes_tabs(recipe: Recipe, text: Tokenizer) -> bool:
    """Whether source texts may have tabs in them: not where they were columns of a TSV, or never had any.

    The source of an inflection has one itself, before its features.
    """
    data = recipe.data
    paths = (data.train,) if isinstance(data.train, str) else data.train
    records = all(str(path).removesuffix(".gz").endswith((".jsonl", ".json", ".ndjson")) for path in paths)
    if text.unit == "inflection":
        return True
    if data.format == "tsv" or (data.format == "auto" and len(paths) == 1 and not records):
        return False
    return any(b"\t" in text.surface(id_) for id_ in range(FIRST_FREE, text.size))


def as_written(recipe: Recipe, texts: Texts) -> Texts:
    """Tokenizers whose target ids stand in the order in which the model writes them."""
    return replace(texts, target=BackwardTokenizer(texts.target)) if recipe.text.reverse_target else texts


def build_collation(recipe: Recipe, texts: Texts) -> Collation:
    """How examples become batches, by the shape of the model."""
    texts = as_written(recipe, texts)
    source = SourceTexts(
        text=texts.source if recipe.reads_text else None,
        factors=texts.factors,
        attributes=texts.attributes,
        pictures=pictures_of(recipe),
        tabs=not recipe.reads_text or _takes_tabs(recipe, texts.source),
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
