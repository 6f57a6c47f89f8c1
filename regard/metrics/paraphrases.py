"""A table of phrases that mean the same, as METEOR reads it: three lines each, a probability and two phrases.

The table may be packed with gzip. It is used in both directions.
"""

import gzip
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from regard.errors import DataError

Phrase = tuple[str, ...]

LONGEST = 10
"""Words of the longest phrase that is kept."""


class Paraphrases:
    """Phrases by the phrases that may stand in their place; words are in small letters."""

    def __init__(self, pairs: Sequence[tuple[Phrase, Phrase]], *, mark: str = "own") -> None:
        """`mark` stands for the table in signatures."""
        self.mark = mark
        self._instead: dict[Phrase, set[Phrase]] = {}
        for left, right in pairs:
            self._instead.setdefault(left, set()).add(right)
            self._instead.setdefault(right, set()).add(left)
        self.longest = max((len(phrase) for phrase in self._instead), default=0)

    @classmethod
    def read(cls, path: str | Path) -> "Paraphrases":
        """Read a table; the first digits of its hash are its mark."""
        path = Path(path)
        try:
            content = path.read_bytes()
            if content.startswith(b"\x1f\x8b"):
                content = gzip.decompress(content)
            lines = content.decode("utf-8").split("\n")
        except (OSError, EOFError, UnicodeDecodeError) as error:
            raise DataError(f"{path}: the table of paraphrases cannot be read ({error})") from error
        if lines and not lines[-1]:
            lines.pop()
        if len(lines) % 3:
            raise DataError(
                f"{path}: {len(lines)} lines are no table of paraphrases: each has three, a probability and two phrases"
            )
        return cls(list(_pairs(path, lines)), mark=hashlib.sha256(content).hexdigest()[:8])

    def of(self, phrase: Phrase) -> frozenset[Phrase]:
        """What may stand in the place of a phrase."""
        return frozenset(self._instead.get(phrase, ()))


def _pairs(path: Path, lines: Sequence[str]) -> Iterator[tuple[Phrase, Phrase]]:
    for number in range(0, len(lines), 3):
        try:
            float(lines[number])
        except ValueError:
            raise DataError(
                f"{path}:{number + 1}: {lines[number][:40]!r} is no probability: a table of paraphrases has three "
                "lines for each entry, a probability and two phrases"
            ) from None
        left, right = (tuple(line.lower().split()) for line in lines[number + 1 : number + 3])
        if left and right and left != right and max(len(left), len(right)) <= LONGEST:
            yield left, right
