"""One function that trains a tokenizer of any unit, and one that loads it again."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, Literal, assert_never, get_args

from regard.errors import UsageError
from regard.text.byte import ByteTokenizer
from regard.text.character import CharacterTokenizer
from regard.text.codes import Codes, CodesTokenizer
from regard.text.imported import ImportedTokenizer
from regard.text.inflection import InflectionTokenizer
from regard.text.label import LabelTokenizer, NumberTokenizer
from regard.text.normal import Form, NormalisedTokenizer, Normaliser
from regard.text.piece import PieceTokenizer
from regard.text.storage import Fields, StoredTokenizer, read_fields
from regard.text.tokenizer import Tokenizer
from regard.text.word import WordTokenizer

Unit = Literal["word", "character", "byte", "bpe", "unigram", "codes", "inflection", "imported"]
Answer = Literal["label", "number"]
UNITS: Final[tuple[Unit, ...]] = get_args(Unit)
ANSWERS: Final[tuple[Answer, ...]] = get_args(Answer)
FORMS: Final[tuple[Form, ...]] = get_args(Form)
MOST_LABELS: Final = 1_000_000


def train_tokenizer(
    texts: Iterable[str],
    *,
    unit: Unit,
    size: int,
    minimum_count: int = 1,
    normal: Form = "none",
    lowercase: bool = False,
    codes: Path | None = None,
    whole: Sequence[str] = (),
) -> Tokenizer:
    """A tokenizer for some texts, of at most `size` ids (bytes always have 260).

    Words of `whole` are one piece each of a bpe or unigram vocabulary; other units cut all words by the same rule.

    The result depends on the texts and the settings alone, for word, character, codes and inflection not even on the
    order of the texts. `tokenizer.size` is the size that was reached.
    """
    if unit not in UNITS:
        raise UsageError(f"there is no unit {unit!r}; choose one of {', '.join(UNITS)}")
    if normal not in FORMS:
        raise UsageError(f"there is no normal form {normal!r}; choose one of {', '.join(FORMS)}")
    if (unit == "codes") != (codes is not None):
        raise UsageError("unit codes needs a codes file, and no other unit uses one")
    normaliser = Normaliser(form=normal, lowercase=lowercase)
    if normaliser.changes_nothing:
        return _train(texts, unit=unit, size=size, minimum_count=minimum_count, codes=codes, whole=whole)
    kept = [normaliser.normalise(word).text for word in whole]
    normalised = (normaliser.normalise(text).text for text in texts)
    inner = _train(normalised, unit=unit, size=size, minimum_count=minimum_count, codes=codes, whole=kept)
    return NormalisedTokenizer(inner=inner, normaliser=normaliser)


def _train(
    texts: Iterable[str], *, unit: Unit, size: int, minimum_count: int, codes: Path | None, whole: Sequence[str]
) -> StoredTokenizer:
    match unit:
        case "word":
            return WordTokenizer.train(texts, size=size, minimum_count=minimum_count)
        case "character":
            return CharacterTokenizer.train(texts, size=size, minimum_count=minimum_count)
        case "byte":
            return ByteTokenizer()
        case "bpe" | "unigram":
            return PieceTokenizer.train(texts, unit=unit, size=size, minimum_count=minimum_count, whole=whole)
        case "codes":
            assert codes is not None
            return CodesTokenizer.train(texts, codes=Codes.read(codes), size=size, minimum_count=minimum_count)
        case "inflection":
            return InflectionTokenizer.train(texts, size=size, minimum_count=minimum_count)
        case "imported":
            raise UsageError(
                "unit imported is a vocabulary that came with a model from elsewhere (`regard import`), and is not "
                "learned from text; choose another `text.unit`, or go on from the run that has it"
            )
        case _:
            assert_never(unit)


def train_answers(texts: Iterable[str], *, unit: Answer) -> Tokenizer:
    """A tokenizer for answers that are no text: labels, which are all kept, or numbers."""
    match unit:
        case "label":
            return LabelTokenizer.train(texts, size=MOST_LABELS)
        case "number":
            return NumberTokenizer()
        case _:
            assert_never(unit)


def load_tokenizer(folder: Path, name: str) -> Tokenizer:
    """The tokenizer that `save(folder, name)` wrote; ModelError for anything else."""
    fields = read_fields(folder / f"{name}.json")
    unit = fields.choice("unit", (*UNITS, *ANSWERS))
    if not fields.has("normal"):
        return _restore(fields, unit)
    normaliser = Normaliser(form=fields.choice("normal", FORMS), lowercase=fields.flag("lowercase"))
    return NormalisedTokenizer(inner=_restore(fields, unit), normaliser=normaliser)


def _restore(fields: Fields, unit: Unit | Answer) -> StoredTokenizer:
    match unit:
        case "word":
            return WordTokenizer.restore(fields)
        case "character":
            return CharacterTokenizer.restore(fields)
        case "byte":
            return ByteTokenizer.restore(fields)
        case "bpe" | "unigram":
            return PieceTokenizer.restore(fields, unit=unit)
        case "codes":
            return CodesTokenizer.restore(fields)
        case "inflection":
            return InflectionTokenizer.restore(fields)
        case "imported":
            return ImportedTokenizer.restore(fields)
        case "label":
            return LabelTokenizer.restore(fields)
        case "number":
            return NumberTokenizer.restore(fields)
        case _:
            assert_never(unit)
