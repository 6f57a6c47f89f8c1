"""What was skipped, cut, empty or odd: nothing disappears in silence.

A ledger counts everything and lists the first findings of each kind, so that its size is bounded whatever the corpus.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from regard.data.example import Place
from regard.data.excerpt import excerpt
from regard.errors import DataError

WORDING: Final = {
    "utf8": "lines that are not UTF-8, skipped",
    "overlong": "lines beyond the largest size in bytes, skipped",
    "columns": "lines with a wrong number of columns, skipped",
    "json": "lines that are not usable JSON records, skipped",
    "lemma": "inflection lines without lemma or features, skipped",
    "blank": "blank lines between records, passed over",
    "bom": "byte order marks at the start of a file, removed",
    "misfit": "examples whose parts do not fit together, skipped",
    "nothing": "examples whose text or answer is unknown, left out",
    "empty": "pairs with an empty side, skipped",
    "long": "pairs with a side longer than the limit, skipped",
    "cut": "sides longer than the limit, cut",
}
"""How kinds are told to people; a kind that is not here is told by its name."""

SKIPPED: Final = ", skipped"
HEADER: Final = "kind\tfile\tline\tdetail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that happened to one line."""

    kind: str
    place: Place
    detail: str


class Ledger:
    """Counts all findings and keeps the first `keep` of each kind."""

    def __init__(self, *, keep: int = 10_000) -> None:
        self._keep = keep
        self._counts: dict[str, int] = {}
        self._kept: dict[str, list[Finding]] = {}

    def add(self, kind: str, place: Place, detail: str) -> None:
        self._counts[kind] = self._counts.get(kind, 0) + 1
        kept = self._kept.setdefault(kind, [])
        if len(kept) < self._keep:
            kept.append(Finding(kind, place, detail))

    def add_unlisted(self, kind: str, count: int) -> None:
        """Count findings whose places are not kept."""
        self._counts[kind] = self._counts.get(kind, 0) + count
        self._kept.setdefault(kind, [])

    @property
    def counts(self) -> dict[str, int]:
        """How many findings there are of each kind, listed or not."""
        return dict(self._counts)

    @property
    def total(self) -> int:
        return sum(self._counts.values())

    def findings(self, kind: str) -> tuple[Finding, ...]:
        """The kept findings of a kind, in the order they were added."""
        return tuple(self._kept.get(kind, ()))

    def since(self, counts: Mapping[str, int]) -> "Ledger":
        """What was added after `counts` was read off this ledger."""
        later = Ledger(keep=self._keep)
        for kind, count in self._counts.items():
            before = counts.get(kind, 0)
            if count > before:
                later._counts[kind] = count - before
                later._kept[kind] = self._kept[kind][before:]
        return later

    def include(self, other: "Ledger") -> None:
        """Add everything that another ledger holds."""
        for kind, count in other._counts.items():
            self._counts[kind] = self._counts.get(kind, 0) + count
            kept = self._kept.setdefault(kind, [])
            kept.extend(other._kept[kind][: max(self._keep - len(kept), 0)])

    def summary(self, places: int = 3, *, answered: bool = False) -> str:
        """A line for each kind: what it is, how often, and the first places; empty if nothing was found.

        `answered`: what is skipped in training had a blank line for an answer here.
        """
        lines = []
        for kind, count in self._counts.items():
            first = [str(finding.place) for finding in self._kept[kind][:places]]
            more = ", …" if count > len(first) else ""
            where = f" ({', '.join(first)}{more})" if first else ""
            told = WORDING.get(kind, kind.replace("_", " "))
            if answered and told.endswith(SKIPPED):
                told = told.removesuffix(SKIPPED) + ", answered with a blank line"
            lines.append(f"{told}: {count:,}{where}")
        return "\n".join(lines)

    def write(self, path: Path) -> None:
        """Write a TSV of kind, file, line, detail; what was counted but not kept is one row per kind without a file."""
        with path.open("w", encoding="utf-8", errors="surrogateescape", newline="\n") as file:
            file.writelines(f"{row}\n" for row in self._rows())
            file.flush()
            os.fsync(file.fileno())

    def _rows(self) -> Iterator[str]:
        yield HEADER
        for kind, kept in self._kept.items():
            for finding in kept:
                cells = (kind, finding.place.file, str(finding.place.line), finding.detail)
                yield "\t".join(_escape(cell) for cell in cells)
            if unlisted := self._counts[kind] - len(kept):
                yield f"{_escape(kind)}\t\t0\t{unlisted} more"

    @staticmethod
    def read(path: Path) -> "Ledger":
        """Read what `write` wrote."""
        try:
            content = path.read_text(encoding="utf-8", errors="surrogateescape")
        except OSError as error:
            raise DataError(f"{path}: the list of findings cannot be read: {error.strerror}") from error
        rows = content.split("\n")
        if rows[0] != HEADER or rows[-1] != "":
            raise DataError(f"{path}:1: not a list of findings; its first line must be {excerpt(HEADER)}")
        ledger = Ledger()
        for number, row in enumerate(rows[1:-1], start=2):
            cells = [_unescape(cell) for cell in row.split("\t")]
            if len(cells) != 4 or not cells[2].isdecimal() or not (cells[1] or cells[3].split(" ")[0].isdecimal()):
                raise DataError(f"{path}:{number}: not a finding (kind, file, line, detail): {excerpt(row)}")
            kind, file, line, detail = cells
            if file:
                ledger.add(kind, Place(file, int(line)), detail)
            else:
                ledger.add_unlisted(kind, int(detail.removesuffix(" more")))
        return ledger


def _escape(cell: str) -> str:
    return cell.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


def _unescape(cell: str) -> str:
    parts = cell.split("\\\\")
    return "\\".join(part.replace("\\t", "\t").replace("\\n", "\n").replace("\\r", "\r") for part in parts)
