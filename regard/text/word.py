"""Words: what stands between spaces, as it is.

Only U+0020 parts words, so text that was tokenised before stays as it was, whatever other blanks its tokens hold. Runs
of spaces, and spaces at the ends, hold no words and come back as one space or none.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from regard.text.encoding import Encoding
from regard.text.storage import Fields, Stored, write_tokenizer
from regard.text.tokenizer import Draw
from regard.text.utf8 import UNKNOWN_SIGN, join_surfaces, reserved_name, reserved_surfaces, show, to_bytes
from regard.text.vocabulary import Vocabulary, most_frequent


def space_words(text: str) -> Iterator[tuple[str, int]]:
    """The words between single spaces, each with the place of its first character."""
    start = 0
    for word in text.split(" "):
        if word:
            yield word, start
        start += len(word) + 1


class WordTokenizer:
    """One id for each known word."""

    unit = "word"
    margin = (b"", b" ")

    def __init__(self, *, words: Sequence[str]) -> None:
        self._vocabulary = Vocabulary(words)
        self._surfaces = (*reserved_surfaces(UNKNOWN_SIGN + " "), *(word.encode() + b" " for word in words))

    @classmethod
    def train(cls, texts: Iterable[str], *, size: int, minimum_count: int = 1) -> "WordTokenizer":
        """The most frequent words of some texts."""
        counts: Counter[str] = Counter()
        for text in texts:
            to_bytes(text)
            counts.update(word for word, _ in space_words(text))
        return cls(words=most_frequent(counts, size=size, minimum_count=minimum_count))

    @classmethod
    def restore(cls, fields: Fields) -> "WordTokenizer":
        """Build the tokenizer that a file describes."""
        words = fields.texts("words")
        if any(" " in word for word in words):
            fields.refuse("`words` holds a word with a space in it")
        fields.finish()
        return cls(words=words)

    @property
    def size(self) -> int:
        return self._vocabulary.size

    def encode(self, text: str, draw: Draw | None = None) -> Encoding:  # noqa: ARG002
        to_bytes(text)
        words = list(space_words(text))
        return Encoding(
            ids=tuple(self._vocabulary.id(word) for word, _ in words),
            spans=tuple((start, start + len(word)) for word, start in words),
        )

    def decode(self, ids: Sequence[int]) -> str:
        return join_surfaces(self._surfaces, ids, self.margin)

    def piece(self, id_: int) -> str:
        return reserved_name(id_) or show(self.surface(id_).decode().removesuffix(" "))

    def surface(self, id_: int) -> bytes:
        return self._surfaces[id_]

    def stored(self) -> Stored:
        return Stored({"unit": self.unit, "words": self._vocabulary.entries})

    def save(self, folder: Path, name: str) -> None:
        write_tokenizer(folder, name, self.stored())
