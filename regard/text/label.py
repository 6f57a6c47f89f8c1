"""Answers that are no text: one of a few labels, or a number.

They have the interface of text, so that a target is encoded, stored and told in one way whatever it is.
"""

import math
import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from regard.errors import DataError
from regard.special import FIRST_FREE
from regard.text.encoding import Encoding
from regard.text.storage import Fields, Stored, write_tokenizer
from regard.text.tokenizer import Draw
from regard.text.utf8 import UNKNOWN_SIGN, join_surfaces, reserved_name, reserved_surfaces, show, to_bytes
from regard.text.vocabulary import Vocabulary, most_frequent


class LabelTokenizer:
    """One id for each whole text, blanks around it aside: a class, a topic, a speaker."""

    unit = "label"
    margin = (b"", b"")

    def __init__(self, *, labels: Sequence[str]) -> None:
        self._vocabulary = Vocabulary(labels)
        self._surfaces = (*reserved_surfaces(UNKNOWN_SIGN), *(label.encode() for label in labels))

    @classmethod
    def train(cls, texts: Iterable[str], *, size: int, minimum_count: int = 1) -> "LabelTokenizer":
        """The most frequent of some labels."""
        counts = Counter(label for text in texts if (label := text.strip()))
        for label in counts:
            to_bytes(label)
        return cls(labels=most_frequent(counts, size=size, minimum_count=minimum_count))

    @classmethod
    def restore(cls, fields: Fields) -> "LabelTokenizer":
        """Build the tokenizer that a file describes."""
        labels = fields.texts("labels")
        fields.finish()
        return cls(labels=labels)

    @property
    def size(self) -> int:
        return self._vocabulary.size

    def encode(self, text: str, draw: Draw | None = None) -> Encoding:  # noqa: ARG002
        to_bytes(text)
        label = text.strip()
        if not label:
            return Encoding(ids=(), spans=())
        start = len(text) - len(text.lstrip())
        return Encoding(ids=(self._vocabulary.id(label),), spans=((start, start + len(label)),))

    def decode(self, ids: Sequence[int]) -> str:
        return join_surfaces(self._surfaces, ids, self.margin)

    def piece(self, id_: int) -> str:
        return reserved_name(id_) or show(self.surface(id_).decode())

    def surface(self, id_: int) -> bytes:
        return self._surfaces[id_]

    def stored(self) -> Stored:
        return Stored({"unit": self.unit, "labels": self._vocabulary.entries})

    def save(self, folder: Path, name: str) -> None:
        write_tokenizer(folder, name, self.stored())


class NumberTokenizer:
    """A number; its id is the bit pattern of it in single precision, so that stores of ids can hold it."""

    unit = "number"
    margin = (b"", b"")
    size = FIRST_FREE

    @classmethod
    def restore(cls, fields: Fields) -> "NumberTokenizer":
        """There is nothing to remember."""
        fields.finish()
        return cls()

    def encode(self, text: str, draw: Draw | None = None) -> Encoding:  # noqa: ARG002
        if not text.strip():
            return Encoding(ids=(), spans=())
        try:
            value = float(text)
            bits = struct.pack("<f", value)
        except (ValueError, OverflowError):
            raise DataError(f"a number was expected, such as 3.5, and found is {text.strip()[:40]!r}") from None
        if not math.isfinite(value):
            raise DataError(f"a finite number was expected, and found is {text.strip()[:40]!r}")
        return Encoding(ids=(struct.unpack("<i", bits)[0],), spans=((0, len(text)),))

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(f"{self.value(id_):.6g}" for id_ in ids)

    @staticmethod
    def value(id_: int) -> float:
        """The number that an id is the bit pattern of."""
        number: float = struct.unpack("<f", struct.pack("<i", id_))[0]
        return number

    def piece(self, id_: int) -> str:
        return self.decode([id_])

    def surface(self, id_: int) -> bytes:
        return self.decode([id_]).encode()

    def stored(self) -> Stored:
        return Stored({"unit": self.unit})

    def save(self, folder: Path, name: str) -> None:
        write_tokenizer(folder, name, self.stored())
