"""CoNLL-U: a word a line with its annotation in columns, sentences with a blank line between them.

An example is a sentence: the words of a column, one space between them, so that forms and tags stand word for word. A
blank inside a word becomes a no-break space. Ranges of words that are written as one (`3-4`) and words that are not
written (`8.1`) are passed over, as universaldependencies.org/format.html has it. Files with the first columns only are
read as far as they go.
"""

import re
from collections.abc import Sequence
from typing import Final

from regard.data.example import Place
from regard.data.excerpt import excerpt
from regard.data.formats import CONLLU, Column
from regard.data.lines import BadLine, RawLine, decode
from regard.errors import UsageError

_BESIDE: Final = re.compile(r"[0-9]+(-[0-9]+|\.[0-9]+)")
_BLANK: Final = re.compile(r"\s")
_LEAST: Final = 2
MEND: Final = "Mend the line, or set `data.bad_lines: skip` to leave such sentences out and have them listed"


def conllu_column(column: Column) -> int:
    """Where a column stands: by its name; 0 and 1, the usual source and target, are forms and parts of speech."""
    name = {0: "FORM", 1: "UPOS"}.get(column) if isinstance(column, int) else column.upper()
    if name not in CONLLU:
        raise UsageError(f"CoNLL-U has no column {column!r}; its columns are {', '.join(CONLLU)}")
    return CONLLU.index(name)


class Sentences:
    """Makes examples of the lines of a file, as they come; `add` and `end` raise BadLine once for a bad sentence."""

    def __init__(self, name: str, columns: Sequence[Column]) -> None:
        self._name = name
        self._indices = [conllu_column(column) for column in columns]
        self._width: tuple[int, int] | None = None  # columns, and the line that said so
        self._words: list[list[str]] = []
        self._first = 0
        self._spoiled = False

    def add(self, raw: RawLine) -> tuple[list[str], Place] | None:
        """The columns of a sentence as texts, where a line ends one."""
        try:
            return self._add(raw)
        except BadLine:
            self._spoiled = True
            raise

    def _add(self, raw: RawLine) -> tuple[list[str], Place] | None:
        if not raw.content.strip():
            return self.end()
        if self._spoiled or raw.content.startswith(b"#"):
            return None
        place = Place(self._name, raw.number)
        line = decode(raw, self._name)
        cells = line.split("\t")
        self._check_width(cells, line, place)
        if _BESIDE.fullmatch(cells[0]):
            return None
        if cells[0] != str(len(self._words) + 1):
            detail = f"the word should have the number {len(self._words) + 1}. Found: {excerpt(line)}"
            raise BadLine("columns", place, detail, f"Sentences stand apart by a blank line. {MEND}")
        cells = [_BLANK.sub("\u00a0", cells[index].strip()) for index in self._indices]
        if not all(cells):
            raise BadLine(
                "columns", place, f"a column is empty, where _ stands for nothing. Found: {excerpt(line)}", MEND
            )
        self._first = self._first or raw.number
        self._words.append(cells)
        return None

    def _check_width(self, cells: Sequence[str], line: str, place: Place) -> None:
        found, least = len(cells), max(_LEAST, *(index + 1 for index in self._indices))
        if self._width is None and least <= found <= len(CONLLU):
            self._width = found, place.line
        if self._width is None or found != self._width[0]:
            wanted = f"{self._width[0]}, as in line {self._width[1]}" if self._width else f"{len(CONLLU)}"
            several = "column" if found == 1 else "columns"
            detail = f"{found} {several} separated by tabs, expected {wanted}. Found: {excerpt(line)}"
            raise BadLine("columns", place, detail, MEND)

    def end(self) -> tuple[list[str], Place] | None:
        """What is left of a sentence at the end of its lines."""
        words, first, spoiled = self._words, self._first, self._spoiled
        self._words, self._first, self._spoiled = [], 0, False
        if not words or spoiled:
            return None
        return [" ".join(column) for column in zip(*words, strict=True)], Place(self._name, first)
