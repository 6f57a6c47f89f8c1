"""Normalisation before tokenisation, with a map back: spans always refer to the raw text."""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from regard.text.encoding import Encoding
from regard.text.storage import Stored, StoredTokenizer, write_tokenizer
from regard.text.tokenizer import Draw
from regard.text.utf8 import to_bytes

Form = Literal["none", "nfc", "nfkc"]
Place = tuple[int, int]

_LONGEST_STRETCH: Final = 256
"""Characters that are normalised together; Unicode's stream-safe text has at most 30 marks in a row (UAX 15)."""


@dataclass(frozen=True, slots=True)
class Normalised:
    """A normalised text; `places[i]` is the range of the raw text that its character `i` came from."""

    text: str
    places: tuple[Place, ...]
    raw_length: int

    def raw_span(self, start: int, end: int) -> tuple[int, int]:
        """The range of the raw text behind a range of the normalised text."""
        if start < end:
            return self.places[start][0], self.places[end - 1][1]
        place = self.places[start][0] if start < len(self.places) else self.raw_length
        return place, place


@dataclass(frozen=True, slots=True)
class Normaliser:
    """Unicode normalisation, lower case, or both.

    With both, text is normalised, lower-cased, and normalised again: compatibility forms can hold capitals (`™`), and
    lower case can make characters that compose. Lower case follows Python's `str.lower` (a final sigma is `ς`).
    """

    form: Form = "none"
    lowercase: bool = False

    @property
    def changes_nothing(self) -> bool:
        """Whether this is the identity for every text."""
        return self.form == "none" and not self.lowercase

    def normalise(self, text: str) -> Normalised:
        """The normalised text with its places in the raw text."""
        to_bytes(text)
        result = text
        places: list[Place] = [(place, place + 1) for place in range(len(text))]
        if self.form != "none":
            result, places = _compose(result, places, self.form)
        if self.lowercase:
            places = [
                place for character, place in zip(result, places, strict=True) for _ in range(len(character.lower()))
            ]
            result = result.lower()
            if self.form != "none":
                result, places = _compose(result, places, self.form)
        return Normalised(result, tuple(places), len(text))


def _compose(text: str, places: list[Place], form: Literal["nfc", "nfkc"]) -> tuple[str, list[Place]]:
    name: Literal["NFC", "NFKC"] = "NFC" if form == "nfc" else "NFKC"
    if text.isascii() or (form == "nfc" and max(text) < "\u0300"):
        return text, places
    parts, new_places = [], []
    for start, end in _stretches(text, name):
        part = unicodedata.normalize(name, text[start:end])
        parts.append(part)
        new_places += [(places[start][0], places[end - 1][1])] * len(part)
    return "".join(parts), new_places


def _stretches(text: str, name: Literal["NFC", "NFKC"]) -> Iterator[Place]:
    """Ranges of a text that can be normalised one by one: none reaches over into its neighbours.

    Longer runs of marks than any writing has are cut, because `unicodedata.normalize` takes quadratic time for them.
    """
    start = 0
    for place in range(1, len(text)):
        if place - start >= _LONGEST_STRETCH or _begins(text[start:place], text[place], name):
            yield start, place
            start = place
    if text:
        yield start, len(text)


def _begins(before: str, character: str, name: Literal["NFC", "NFKC"]) -> bool:
    # Below U+0300 nothing combines with what stands before it.
    if character < "\u0300":
        return True
    if unicodedata.combining(unicodedata.normalize("NFKD", character)[0]):
        return False
    together = unicodedata.normalize(name, before + character)
    return together == unicodedata.normalize(name, before) + unicodedata.normalize(name, character)


class NormalisedTokenizer:
    """A tokenizer of normalised text whose spans refer to the raw text."""

    def __init__(self, *, inner: StoredTokenizer, normaliser: Normaliser) -> None:
        self._inner = inner
        self._normaliser = normaliser

    @property
    def unit(self) -> str:
        return self._inner.unit

    @property
    def size(self) -> int:
        return self._inner.size

    @property
    def margin(self) -> tuple[bytes, bytes]:
        return self._inner.margin

    def encode(self, text: str, draw: Draw | None = None) -> Encoding:
        normalised = self._normaliser.normalise(text)
        encoding = self._inner.encode(normalised.text, draw)
        return Encoding(ids=encoding.ids, spans=tuple(normalised.raw_span(*span) for span in encoding.spans))

    def decode(self, ids: Sequence[int]) -> str:
        return self._inner.decode(ids)

    def piece(self, id_: int) -> str:
        return self._inner.piece(id_)

    def surface(self, id_: int) -> bytes:
        return self._inner.surface(id_)

    def stored(self) -> Stored:
        inner = self._inner.stored()
        fields = {"normal": self._normaliser.form, "lowercase": self._normaliser.lowercase, **inner.fields}
        return Stored(fields, model=inner.model)

    def save(self, folder: Path, name: str) -> None:
        write_tokenizer(folder, name, self.stored())
