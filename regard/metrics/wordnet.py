"""Synonyms from the database files of WordNet (Fellbaum 1998; the layout is in its manual page wndb(5)).

Two words are synonyms if a base form of one and a base form of the other stand in a common synset. Which synsets a
lemma stands in is told by `index.noun`, `index.verb`, `index.adj` and `index.adv`, a sorted line for each lemma; they
are mapped into memory and searched by halves, so that nothing is loaded that is not asked for. Base forms come from the
lists of exceptions (`noun.exc`: mice → mouse) and from the endings that WordNet's own search takes off.
"""

import mmap
import re
from functools import lru_cache
from pathlib import Path
from typing import Final

from regard.errors import DataError

Synset = tuple[str, int]
"""A part of speech and the place of a synset in its data file."""

PARTS: Final = ("noun", "verb", "adj", "adv")
ENDINGS: Final = {
    "noun": (("s", ""), ("ses", "s"), ("ves", "f"), ("xes", "x"), ("zes", "z"), ("ches", "ch"), ("shes", "sh"),
             ("men", "man"), ("ies", "y")),
    "verb": (("s", ""), ("ies", "y"), ("es", "e"), ("es", ""), ("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", "")),
    "adj": (("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
    "adv": (),
}  # fmt: skip
_VERSION: Final = re.compile(rb"WordNet ([0-9]+\.[0-9]+)")
HEAD: Final = 4096


class WordNet:
    """Synsets of English words, looked up in a folder of database files."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._indexes = {part: self._mapped(f"index.{part}") for part in PARTS}
        self._exceptions = {part: self._read_exceptions(f"{part}.exc") for part in PARTS}
        self.synsets = lru_cache(maxsize=50_000)(self._synsets)
        """`synsets(word)`: those of all base forms of the word, as any part of speech."""

    @property
    def version(self) -> str:
        """`3.0`, as the licence at the head of the files says; `unknown` where they have none."""
        found = _VERSION.search(self._indexes["noun"][:HEAD])
        return found[1].decode() if found else "unknown"

    def synonymous(self, left: str, right: str) -> bool:
        """Whether two words have a synset in common."""
        return not self.synsets(left).isdisjoint(self.synsets(right))

    def base_forms(self, word: str, part: str) -> frozenset[str]:
        """Lemmas that a word may be a form of: the word itself, an exception, or the word without an ending."""
        forms = {word, *self._exceptions[part].get(word, ())}
        for ending, instead in ENDINGS[part]:
            if word.endswith(ending) and len(word) > len(ending):
                forms.add(word[: len(word) - len(ending)] + instead)
        return frozenset(form for form in forms if self._offsets(form, part))

    def _synsets(self, word: str) -> frozenset[Synset]:
        lemma = word.lower().replace(" ", "_")
        return frozenset(
            (part, offset)
            for part in PARTS
            for form in self.base_forms(lemma, part)
            for offset in self._offsets(form, part)
        )

    def _offsets(self, lemma: str, part: str) -> tuple[int, ...]:
        line = _line_of(self._indexes[part], lemma.encode()) if lemma else None
        if line is None:
            return ()
        fields = line.split()
        # lemma, part of speech, synsets, kinds of pointers, the pointers, senses, tagged senses, offsets
        try:
            count = int(fields[2])
            offsets = tuple(int(field) for field in fields[len(fields) - count :])
        except (ValueError, IndexError):
            offsets, count = (), -1
        if len(offsets) != count or len(fields) < 6 + count:
            raise DataError(
                f"{self.folder / f'index.{part}'}: the line of {lemma!r} is not one of a WordNet index: "
                f"{line[:60].decode(errors='replace')!r}. Give a folder of WordNet's own database files"
            )
        return offsets

    def _mapped(self, name: str) -> mmap.mmap | bytes:
        path = self.folder / name
        try:
            with path.open("rb") as file:
                return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:  # an empty file cannot be mapped
            return b""
        except OSError as error:
            raise DataError(
                f"{path}: cannot be read ({error.strerror or error}). A WordNet folder has index.noun, index.verb, "
                "index.adj and index.adv (Debian: the package wordnet-base, the folder /usr/share/wordnet)"
            ) from error

    def _read_exceptions(self, name: str) -> dict[str, tuple[str, ...]]:
        path = self.folder / name
        if not path.is_file():
            return {}
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        return {fields[0]: tuple(fields[1:]) for line in lines if len(fields := line.split()) > 1}


def _line_of(index: mmap.mmap | bytes, lemma: bytes) -> bytes | None:
    """The line that begins with a lemma, found by halves; the licence above the lemmas begins with blanks."""
    low, high = 0, len(index)
    while low < high:
        middle = (low + high) // 2
        start = index.rfind(b"\n", low, middle) + 1 or low
        end = index.find(b"\n", start)
        end = len(index) if end < 0 else end
        line = bytes(index[start:end])
        key = b"" if line.startswith(b" ") else line.split(b" ", 1)[0]
        if key == lemma:
            return line
        if key < lemma:
            low = end + 1
        else:
            high = start
    return None
