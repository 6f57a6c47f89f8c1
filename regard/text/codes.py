"""BPE with a subword-nmt codes file, as that program applies it (Sennrich et al. 2016).

Text is split into words at spaces; the merges of the file are applied to each; pieces that go on are shown with `@@`.
The vocabulary is what the segmented training text holds, and the characters of its words. A piece outside it (a rare
one, or one that dropped merges leave) is split again along the merges that made it, as `apply-bpe --vocabulary` does,
down to characters, of which unknown ones become UNKNOWN.

No word holds a space, so a space marks the end of a word in symbols: `t ` is what the file writes as `t</w>`.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from regard.errors import DataError
from regard.text.encoding import Encoding
from regard.text.merges import merge, random_for
from regard.text.storage import Fields, Stored, write_tokenizer
from regard.text.tokenizer import Draw
from regard.text.utf8 import UNKNOWN_SIGN, join_surfaces, reserved_name, reserved_surfaces, show, to_bytes
from regard.text.vocabulary import Vocabulary, most_frequent
from regard.text.word import space_words

VERSIONS: Final = ("0.1", "0.2")
_CACHED_WORDS: Final = 200_000
_END: Final = "</w>"


@dataclass(frozen=True, slots=True)
class Codes:
    """The merges of a codes file, the first done first.

    Version 0.1 has the end of a word as a symbol of its own, 0.2 as a mark on the last character.
    """

    version: str
    merges: tuple[tuple[str, str], ...]

    @classmethod
    def read(cls, path: Path) -> "Codes":
        """Read a codes file."""
        try:
            lines = path.read_bytes().decode("utf-8-sig").removesuffix("\n").split("\n")
        except OSError as error:
            raise DataError(f"{path}: the codes file cannot be read ({error.strerror})") from error
        except UnicodeDecodeError as error:
            raise DataError(
                f"{path}: byte {error.start + 1} of the codes file is not UTF-8; is it a codes file?"
            ) from error
        version = "0.1"
        if lines[0].startswith("#version:"):
            version = re.sub(r"^(\d+\.\d+)(\.0+)*$", r"\1", lines[0].removeprefix("#version:").strip())
            if version not in VERSIONS:
                raise DataError(f"{path}:1: codes of version {version!r}; known are {' and '.join(VERSIONS)}")
        header = lines[0].startswith("#version:")
        numbered = list(enumerate(lines, start=1))[header:]
        return cls(version, tuple(_read_merge(path, number, line) for number, line in numbered))

    def symbols(self, word: str) -> list[str]:
        """What a word is before the first merge."""
        return [*word, " "] if self.version == "0.1" else [*word[:-1], word[-1] + " "]


def _read_merge(path: Path, number: int, line: str) -> tuple[str, str]:
    symbols = line.strip("\r ").split(" ")
    if len(symbols) != 2 or not all(symbols):
        raise DataError(f"{path}:{number}: {line[:80]!r} is no merge; a line has two symbols with a space between them")
    left, right = symbols
    return left, right.removesuffix(_END) + " " if right.endswith(_END) else right


class CodesTokenizer:
    """One id for each piece that the merges leave in the training text."""

    unit = "codes"
    margin = (b"", b" ")

    def __init__(self, *, codes: Codes, pieces: Sequence[str]) -> None:
        self._codes = codes
        self._vocabulary = Vocabulary(pieces)
        self._surfaces = (*reserved_surfaces(UNKNOWN_SIGN + " "), *(piece.encode() for piece in pieces))
        self._ranks = {pair: place for place, pair in reversed(list(enumerate(codes.merges)))}
        self._parts = {left + right: (left, right) for left, right in reversed(codes.merges)}
        self._cache: dict[str, tuple[tuple[int, int], ...]] = {}

    @classmethod
    def train(cls, texts: Iterable[str], *, codes: Codes, size: int, minimum_count: int = 1) -> "CodesTokenizer":
        """The most frequent pieces of some texts after all merges, and the most frequent characters."""
        words: Counter[str] = Counter()
        for text in texts:
            to_bytes(text)
            words.update(word for word, _ in space_words(text))
        bare = cls(codes=codes, pieces=())
        pieces: Counter[str] = Counter()
        for word, count in words.items():
            characters = [*word[:-1], word[-1] + " "]
            for piece in [*characters, *(piece for piece in bare.merged(word) if len(piece.removesuffix(" ")) > 1)]:
                pieces[piece] += count
        return cls(codes=codes, pieces=most_frequent(pieces, size=size, minimum_count=minimum_count))

    @classmethod
    def restore(cls, fields: Fields) -> "CodesTokenizer":
        """Build the tokenizer that a file describes."""
        version = fields.choice("version", VERSIONS)
        merges = fields.pairs("merges")
        if any(" " in left or " " in right[:-1] for left, right in merges):
            fields.refuse("`merges` holds a symbol with a space before its end")
        pieces = fields.texts("pieces")
        if any(" " in piece[:-1] or piece == " " for piece in pieces):
            fields.refuse("`pieces` holds a piece with a space before its end")
        fields.finish()
        return cls(codes=Codes(version, merges), pieces=pieces)

    @property
    def size(self) -> int:
        return self._vocabulary.size

    def encode(self, text: str, draw: Draw | None = None) -> Encoding:
        to_bytes(text)
        drawn = draw is not None and draw.rate > 0
        random = random_for(draw, text) if draw is not None and drawn else None
        ids, spans = [], []
        for word, start in space_words(text):
            for id_, length in self._drawn(word, draw.rate, random) if draw and drawn else self._best(word):
                ids.append(id_)
                spans.append((start, start + length))
                start += length
        return Encoding(ids=tuple(ids), spans=tuple(spans))

    def _best(self, word: str) -> tuple[tuple[int, int], ...]:
        found = self._cache.get(word)
        if found is None:
            found = self._drawn(word, 0.0, None)
            if len(self._cache) >= _CACHED_WORDS:
                self._cache.clear()
            self._cache[word] = found
        return found

    def _drawn(self, word: str, rate: float, random: Random | None) -> tuple[tuple[int, int], ...]:
        pieces = [part for piece in self.merged(word, rate, random) for part in self._known_parts(piece)]
        return tuple((self._vocabulary.id(piece), len(piece.removesuffix(" "))) for piece in pieces)

    def merged(self, word: str, rate: float = 0.0, random: Random | None = None) -> list[str]:
        """The pieces of a word by the merges alone; the last one ends with a space."""
        pieces = merge(self._codes.symbols(word), self._rank, everywhere=True, rate=rate, random=random)
        if pieces[-1] == " ":
            pieces[-2:] = [pieces[-2] + " "]
        return pieces

    def _rank(self, left: str, right: str) -> int | None:
        return self._ranks.get((left, right))

    def _known_parts(self, piece: str) -> Iterator[str]:
        """A piece of the vocabulary as it is, any other undone merge by merge."""
        waiting = [piece]
        while waiting:
            part = waiting.pop()
            halves = None if part in self._vocabulary else self._halves(part)
            if halves is None:
                yield part
            else:
                waiting += halves[::-1]

    def _halves(self, piece: str) -> tuple[str, str] | None:
        halves = self._parts.get(piece)
        if halves is None or halves[1] == " ":
            # Version 0.1 joins the end of the word late or never: undo the merge before that.
            left, right = self._parts.get(piece.removesuffix(" "), ("", ""))
            return (left, right + " ") if left else None
        return halves

    def decode(self, ids: Sequence[int]) -> str:
        return join_surfaces(self._surfaces, ids, self.margin)

    def piece(self, id_: int) -> str:
        name = reserved_name(id_)
        piece = self.surface(id_).decode()
        return name or show(piece.removesuffix(" ")) + ("" if piece.endswith(" ") else "@@")

    def surface(self, id_: int) -> bytes:
        return self._surfaces[id_]

    def stored(self) -> Stored:
        return Stored(
            {
                "unit": self.unit,
                "version": self._codes.version,
                "merges": self._codes.merges,
                "pieces": self._vocabulary.entries,
            }
        )

    def save(self, folder: Path, name: str) -> None:
        write_tokenizer(folder, name, self.stored())
