"""What `regard data check` found, as data, and as text for a terminal."""

import json
import textwrap
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Final, Literal

from regard.data.ledger import Finding

Level = Literal["error", "warning", "note"]

KINDS: Final[dict[str, tuple[Level, str]]] = {
    "utf8": ("error", "lines that are not UTF-8"),
    "overlong": ("error", "lines that are far too long"),
    "columns": ("error", "lines with a wrong number of columns"),
    "json": ("error", "lines that are not usable JSON records"),
    "lemma": ("error", "lines without lemma or features"),
    "empty": ("error", "pairs with an empty side"),
    "replacement": ("warning", "sides with U+FFFD, the mark of a failed conversion"),
    "mojibake": ("warning", "sides that look like UTF-8 read in another encoding"),
    "nul": ("warning", "sides with NUL characters"),
    "control": ("warning", "sides with control characters"),
    "direction": ("warning", "sides with characters that turn the direction of text"),
    "entity": ("warning", "sides with HTML entities"),
    "same": ("warning", "pairs with the same text on both sides"),
    "few": ("warning", "files with too few different sources to split off validation and test data"),
    "long": ("warning", "sides far longer than the others"),
    "ratio": ("warning", "pairs whose lengths differ far more than usual"),
    "script": ("warning", "sides in another script than most"),
    "exchanged": ("warning", "pairs that look exchanged, source for target"),
    "duplicate": ("warning", "pairs that stand there already"),
    "crlf": ("note", "lines that end with CR LF (the CR is taken off)"),
    "bom": ("note", "files with a byte order mark (taken off)"),
    "blank": ("note", "blank lines between records (passed over)"),
    "several": ("note", "sources with more than one target"),
    "separator": ("note", "sides with line separators other than LF (kept as text)"),
    "invisible": ("note", "sides with invisible characters"),
    "markup": ("note", "sides with tags in angle brackets"),
    "spaces": ("note", "sides with spaces at the ends or double spaces"),
    "not_nfc": ("note", "sides not in Unicode normal form C"),
}
"""How serious each kind is, and how it is told. Errors are what training refuses unless the recipe says otherwise."""


@dataclass(frozen=True, slots=True)
class LengthStatistics:
    """Smallest, median, 95th percentile and largest."""

    minimum: int
    median: float
    high: float
    maximum: int


@dataclass(frozen=True, slots=True)
class SideReport:
    """Lengths of one side, and the script that most of it is in."""

    name: str
    characters: LengthStatistics
    words: LengthStatistics
    script: str


@dataclass(frozen=True, slots=True)
class Issue:
    """One kind of finding: how often, and where first."""

    kind: str
    level: Level
    text: str
    count: int
    first: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class FileReport:
    """One file of pairs, or two parallel files. `fault` is what kept it from being read to the end."""

    paths: tuple[str, ...]
    format: str
    reason: str
    lines: int
    examples: int
    sides: tuple[SideReport, ...]
    issues: tuple[Issue, ...]
    fault: str | None

    @property
    def name(self) -> str:
        return ",".join(self.paths)

    @property
    def ok(self) -> bool:
        return self.fault is None and all(issue.level != "error" for issue in self.issues)


@dataclass(frozen=True, slots=True)
class Overlap:
    """How many examples of `second` have a pair, or a source, that also stands in `first`; where in `second` first."""

    first: str
    second: str
    pairs: int
    sources: int
    places: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class CheckReport:
    """Everything that was found in a set of files."""

    files: tuple[FileReport, ...]
    overlaps: tuple[Overlap, ...]
    format: int = 1

    @property
    def ok(self) -> bool:
        """Whether training would read these files without refusing a line."""
        return all(file.ok for file in self.files)

    def to_json(self) -> str:
        return json.dumps(asdict(self) | {"ok": self.ok}, ensure_ascii=False, indent=1)


def render(report: CheckReport, width: int = 60) -> str:
    """The report as plain text, no wider than `width` columns."""
    lines: list[str] = []
    for file in report.files:
        lines += [*_render_file(file, width), ""]
    for overlap in report.overlaps:
        lines += [*_render_overlap(overlap, width), ""]
    lines += _advice(report, width)
    return "\n".join(lines)


ADVICE: Final[tuple[tuple[tuple[str, ...], str], ...]] = (
    (
        ("utf8", "overlong", "columns", "json", "lemma"),
        "Training stops at lines that cannot be read: mend them, or set data.bad_lines: skip.",
    ),
    (("empty",), "Training stops at empty sides: fill them, or set data.empty_lines: skip."),
    (
        ("few",),
        "Give data.valid and data.test, or more data: at least 5 different sources are needed to split off both.",
    ),
    (("long",), "A side of more than data.max_length tokens is left out, unless data.long_lines says otherwise."),
    (("mojibake", "replacement"), "Convert the file again from its first encoding: letters are lost in it."),
    (("same", "ratio", "script", "exchanged"), "Look at the pairs named above: they may not be translations."),
    (("duplicate",), "Take out pairs that stand there twice: they count double, in training and in tests."),
)
"""What to do about which kinds, the most pressing first."""


def _advice(report: CheckReport, width: int) -> Iterator[str]:
    """What there is to do about what was found, and no more."""
    kinds = {issue.kind for file in report.files for issue in file.issues}
    if report.ok:
        yield "Nothing here keeps a model from being trained."
    if any(file.fault for file in report.files):
        yield from _wrap("A file cannot be used as it is: see above what is wrong with it.", "", width)
    for about, advice in ADVICE:
        if kinds & set(about):
            yield from _wrap(advice, "", width)
    if any(overlap.pairs for overlap in report.overlaps):
        yield from _wrap("Take pairs that are in two files out of one of them.", "", width)


def _render_file(file: FileReport, width: int) -> Iterator[str]:
    yield from _wrap(file.name, "", width)
    yield f"  {file.lines:,} lines, {file.examples:,} examples"
    if file.format:
        yield from _wrap(f"{file.format}: {file.reason}", "  ", width)
    if file.sides:
        yield ""
        yield f"  {'':18}{'min':>8}{'median':>8}{'95 %':>8}{'max':>8}"
        for side in file.sides:
            for unit, statistics in (("characters", side.characters), ("words", side.words)):
                yield f"  {side.name + ' ' + unit:18}{_numbers(statistics)}"
        yield from _wrap(
            "; ".join(f"{side.name} is {side.script or 'without letters'}" for side in file.sides), "  ", width
        )
    if file.fault:
        yield ""
        yield "  cannot be used as it is"
        yield from _wrap(file.fault, "    ", width)
    for level, title in (("error", "errors"), ("warning", "warnings"), ("note", "notes")):
        issues = [issue for issue in file.issues if issue.level == level]
        if issues:
            yield ""
            yield f"  {title}"
        for issue in issues:
            yield from _wrap(f"{issue.text}: {issue.count:,}", "    ", width)
            yield from _wrap(_first_places(issue, file.paths[0]), "      ", width)
    if not file.fault and not file.issues:
        yield "  nothing odd"


def _numbers(statistics: LengthStatistics) -> str:
    shown = (statistics.minimum, statistics.median, statistics.high, statistics.maximum)
    return "".join(f"{round(number):>8,}" for number in shown)


def _first_places(issue: Issue, name: str) -> str:
    shown = []
    for finding in issue.first:
        place = f"line {finding.place.line}" if finding.place.file == name else str(finding.place)
        shown.append(f"{place} ({finding.detail})" if finding.detail else place)
    return "; ".join(shown) + ("; …" if issue.count > len(shown) else "")


def _render_overlap(overlap: Overlap, width: int) -> Iterator[str]:
    yield from _wrap(f"{overlap.second} and {overlap.first}", "", width)
    if not overlap.sources:
        yield "  no source in common"
        return
    yield from _wrap(f"in both: pairs {overlap.pairs:,}, sources {overlap.sources:,}", "  ", width)
    if overlap.places:
        more = "; …" if overlap.sources > len(overlap.places) else ""
        yield from _wrap("; ".join(f"line {finding.place.line}" for finding in overlap.places) + more, "    ", width)
    if overlap.pairs:
        yield from _wrap("Tested on what it was trained on, a model looks better than it is.", "  ", width)


def _wrap(text: str, indent: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
