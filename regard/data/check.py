"""Look over files of pairs before a model is trained on them: what `regard data check FILE...` reports.

A file argument is one file of pairs (`train.tsv`), or two parallel files with a comma between them
(`train.en,train.de`), which `format`, `source` and `target` do not concern. Files are read as streams; what is kept of
a pair is about 60 bytes of hashes and lengths.
"""

import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from itertools import combinations, islice
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from regard.data.checkreport import KINDS, CheckReport, FileReport, Issue, LengthStatistics, Overlap, SideReport
from regard.data.example import Example, Place
from regard.data.excerpt import excerpt
from regard.data.formats import DEFAULT_COLUMNS, PARALLEL_REASON, Column, Format, detect_format
from regard.data.ledger import Finding, Ledger
from regard.data.lines import STDIN, file_name, read_raw_lines
from regard.data.readers import read_examples, settle_format
from regard.data.split import LEAST_SOURCES
from regard.data.suspicion import Scripts, SideWords, odd_in
from regard.errors import DataError, UsageError

FIRST: Final = 5
SAMPLE: Final = 2000
RATIO: Final = 9.0
SHORT: Final = 30
"""A pair is out of proportion if its longer side has this many characters and its ratio of lengths is `RATIO` times
the median of the file, or a `RATIO`-th of it."""
LONG: Final = 500
FAR: Final = 10
"""A side is far too long if it has more than `LONG` characters and more than `FAR` times those of the longest but for
a twentieth of the file; in a file of fewer pairs than 20, than the median."""
DOMINANT: Final = 0.9
SIDES: Final = ("source", "target")

Numbers = npt.NDArray[Any]


def split_argument(argument: str) -> tuple[str, ...]:
    """One file, or two with a comma between them; a file whose own name has a comma is one file."""
    if "," not in argument or Path(argument).exists():
        return (argument,)
    parts = tuple(argument.split(","))
    if len(parts) != 2 or not all(parts):
        raise UsageError(f"{excerpt(argument, 200)}: two parallel files are written as train.en,train.de")
    return parts


def check_files(
    arguments: Sequence[str],
    *,
    format: Format | Literal["auto"] = "auto",
    source: Column = 0,
    target: Column = 1,
) -> CheckReport:
    """Check each file by itself, then every two of them for pairs and sources that they share."""
    if not arguments:
        raise UsageError("no file was given: name files of pairs, such as train.tsv or train.en,train.de")
    checks = [_FileCheck(split_argument(argument), format, source, target) for argument in arguments]
    files = tuple(check.report() for check in checks)
    overlaps = tuple(_overlap(first, second) for first, second in combinations(checks, 2))
    return CheckReport(files=files, overlaps=overlaps)


class _FileCheck:
    """Everything that is gathered of one file (or two parallel ones) while it streams by."""

    def __init__(
        self, paths: tuple[str, ...], format: Format | Literal["auto"], source: Column, target: Column
    ) -> None:
        if len(paths) == 2:
            format, source, target = "parallel", 0, 1
        if STDIN in paths:
            raise UsageError("standard input cannot be checked, for it is read more than once: save it in a file first")
        self.names = tuple(file_name(path) for path in paths)
        self.ledger = Ledger(keep=FIRST)
        self.lines = array("q")
        self.sources = array("Q")
        self.pairs = array("Q")
        self._characters = (array("q"), array("q"))
        self._words = (array("q"), array("q"))
        self._codes = (array("B"), array("B"))
        self._scripts = Scripts()
        self._format = self._reason = ""
        self._line_count = 0
        self._fault: str | None = None
        try:
            self._read(paths, format, source, target)
        except DataError as error:
            self._fault = str(error)

    def _read(self, paths: tuple[str, ...], format: Format | Literal["auto"], source: Column, target: Column) -> None:
        for index, path in enumerate(paths):
            for raw in read_raw_lines(path):
                self._line_count += index == 0
                if raw.crlf:
                    self.ledger.add("crlf", Place(file_name(path), raw.number), "")
        if format == "auto" and (source, target) == DEFAULT_COLUMNS:
            self._reason = detect_format(paths).reason
        else:
            self._reason = PARALLEL_REASON if format == "parallel" else "as asked for"
        self._format, source, target = settled = settle_format(paths, format, source, target)
        examples = read_examples(
            paths, format=settled[0], source=source, target=target, bad_lines="skip", ledger=self.ledger
        )
        sample: list[Example] = []
        try:
            for example in islice(examples, SAMPLE):
                sample.append(example)
        finally:  # what was read before a fault is looked at as well
            telling = SideWords([(example.source, example.target) for example in sample])
            self._look_at(sample, telling)
        self._look_at(examples, telling)

    def _look_at(self, examples: Iterable[Example], telling: SideWords) -> None:
        for example in examples:
            texts = example.source, example.target
            first = _hash(texts[0])
            self.lines.append(example.place.line)
            self.sources.append(first)
            self.pairs.append(_hash(f"{first} {texts[1]}"))
            for side, text in enumerate(texts):
                self._characters[side].append(len(text))
                self._words[side].append(len(text.split()))
                self._codes[side].append(self._scripts.code(text))
                for kind in odd_in(text):
                    self.ledger.add(kind, example.place, f"{SIDES[side]}: {excerpt(text, 40)}")
            empty = [name for name, text in zip(SIDES, texts, strict=True) if not text.strip()]
            if empty:
                self.ledger.add("empty", example.place, " and ".join(empty))
            elif texts[0] == texts[1]:
                self.ledger.add("same", example.place, excerpt(texts[0], 40))
            elif telling.exchanged(*texts):
                self.ledger.add("exchanged", example.place, excerpt(texts[0], 40))

    def report(self) -> FileReport:
        self._add_whole_file_findings()
        counts = self.ledger.counts
        issues = tuple(
            Issue(kind, level, text, counts[kind], self.ledger.findings(kind))
            for kind, (level, text) in KINDS.items()
            if kind in counts
        )
        return FileReport(
            paths=self.names,
            format=self._format,
            reason=self._reason,
            lines=self._line_count,
            examples=len(self.lines),
            sides=tuple(self._side(side) for side in (0, 1)) if self.lines else (),
            issues=issues,
            fault=self._fault,
        )

    def _add_whole_file_findings(self) -> None:
        """What can be seen only when all pairs are known."""
        if not self.lines:
            return
        pairs, sources = np.asarray(self.pairs), np.asarray(self.sources)
        _, first, inverse = np.unique(pairs, return_index=True, return_inverse=True)
        earlier = first[inverse]
        again = np.flatnonzero(earlier != np.arange(len(pairs)))
        self._add("duplicate", again, lambda index: f"as line {self.lines[earlier[index]]}")
        distinct = np.sort(first)
        _, source_first, targets = np.unique(sources[distinct], return_index=True, return_counts=True)
        self._add("several", np.sort(distinct[source_first[targets > 1]]), lambda _: "")
        self._add_ratios()
        if len(different := np.unique(sources)) < LEAST_SOURCES:
            told = f"{len(different)} of at least {LEAST_SOURCES}"
            self.ledger.add("few", self.place(0), told)
        for side in (0, 1):
            self._add_long(side)
            self._add_scripts(side)

    def _add_ratios(self) -> None:
        left, right = (np.asarray(lengths, dtype=float) for lengths in self._characters)
        full = (left > 0) & (right > 0)
        ratio = np.log(np.maximum(left, 1) / np.maximum(right, 1))
        usual = float(np.median(ratio[full])) if full.any() else 0.0
        far = full & (np.abs(ratio - usual) > math.log(RATIO)) & (np.maximum(left, right) >= SHORT)
        self._add("ratio", np.flatnonzero(far), lambda i: f"{int(left[i])} and {int(right[i])} characters")

    def _add_long(self, side: int) -> None:
        lengths = np.asarray(self._characters[side])
        usual = np.percentile(lengths, 95 if len(lengths) >= 20 else 50)
        far = np.flatnonzero(lengths > max(LONG, FAR * usual))
        self._add("long", far, lambda index: f"{SIDES[side]}: {lengths[index]:,} characters, usual are {usual:,.0f}")

    def _add_scripts(self, side: int) -> None:
        codes = np.asarray(self._codes[side])
        usual = _most_common(codes)
        if not usual or (codes == usual).sum() < DOMINANT * (codes > 0).sum():
            return
        name = self._scripts.name
        other = np.flatnonzero((codes != usual) & (codes > 0))
        self._add("script", other, lambda index: f"{SIDES[side]} is {name(codes[index])}, not {name(usual)}")

    def _add(self, kind: str, indices: Numbers, detail: Callable[[int], str]) -> None:
        for index in indices[:FIRST].tolist():
            self.ledger.add(kind, self.place(index), detail(index))
        if len(indices) > FIRST:
            self.ledger.add_unlisted(kind, len(indices) - FIRST)

    def _side(self, side: int) -> SideReport:
        script = self._scripts.name(_most_common(np.asarray(self._codes[side])))
        return SideReport(SIDES[side], _statistics(self._characters[side]), _statistics(self._words[side]), script)

    def place(self, index: int) -> Place:
        return Place(self.names[0], self.lines[index])


def _overlap(first: _FileCheck, second: _FileCheck) -> Overlap:
    pairs = np.isin(np.asarray(second.pairs), np.asarray(first.pairs))
    sources = np.isin(np.asarray(second.sources), np.asarray(first.sources))
    places = tuple(
        Finding("overlap", second.place(index), "pair" if pairs[index] else "source")
        for index in np.flatnonzero(sources)[:FIRST].tolist()
    )
    return Overlap(",".join(first.names), ",".join(second.names), int(pairs.sum()), int(sources.sum()), places)


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8"), digest_size=8).digest(), "little")


def _most_common(codes: Numbers) -> int:
    """The most common code that is not 0; 0 if there is none."""
    counts = Counter(dict(enumerate(np.bincount(codes)[1:].tolist(), start=1)))
    return counts.most_common(1)[0][0] if counts.total() else 0


def _statistics(lengths: "array[int]") -> LengthStatistics:
    numbers = np.asarray(lengths)
    median, high = np.percentile(numbers, (50, 95))
    return LengthStatistics(int(numbers.min()), float(median), float(high), int(numbers.max()))
