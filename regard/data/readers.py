"""Files to examples: parallel files, TSV, JSONL and the three column orders of SIGMORPHON.

Source and target are columns (numbers from 0, or names of a header line) or keys (`translation.en` reaches into an
inner object). Inflection gives `lemma<TAB>features` as source, features joined with `;`, and the form as target.
A line of a TSV or JSONL file with nothing on it stands for no example: it is passed over and listed as blank.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Final, Literal

from regard.data.example import Example, Place
from regard.data.excerpt import excerpt
from regard.data.formats import (
    DEFAULT_COLUMNS,
    INFLECTION,
    Column,
    Format,
    InflectionColumns,
    Paths,
    as_paths,
    detect_format,
    detect_kind,
)
from regard.data.jsonl import look_up, parse_record
from regard.data.ledger import Ledger
from regard.data.lines import STDIN, BadLine, RawLine, decode, file_name, read_raw_lines
from regard.errors import DataError, UsageError

BadLines = Literal["refuse", "skip"]
Parser = Callable[[str, Place], Mapping[str, str] | None]
"""Fields of a line; None for a line that is no example (a header); raises BadLine."""

ANNOTATIONS: Final = ("alignment",)
"""Keys of a JSONL record that become fields of its example besides source and target."""

MORE: Final = "Mend the line, or set `data.bad_lines: skip` to leave such lines out and have them listed"


def read_examples(
    paths: Paths,
    *,
    format: Format | Literal["auto"] = "auto",
    source: Column = 0,
    target: Column = 1,
    bad_lines: BadLines = "refuse",
    ledger: Ledger | None = None,
) -> Iterator[Example]:
    """Examples of the files in order. A bad line is an error, or with `skip` a finding in the ledger.

    Files of one format are read one after the other; `parallel` takes two files, `source` and `target` say which is
    which. Files without any example are an error.
    """
    files = as_paths(paths)
    ledger = Ledger() if ledger is None else ledger
    before = ledger.counts
    format, source, target = settle_format(files, format, source, target)
    examples = 0
    for example in _all_examples(files, format, source, target, bad_lines, ledger):
        examples += 1
        yield example
    if not examples:
        names = ", ".join(file_name(path) for path in files)
        told = ledger.since(before).summary()
        raise DataError(f"{names}: not one example could be read. " + (told or "There are no lines in it"))


def settle_format(
    paths: Paths, format: Format | Literal["auto"], source: Column, target: Column
) -> tuple[Format, Column, Column]:
    """The format and columns that are meant, after a look at the files where `auto` or a default asks for it."""
    if any(isinstance(column, int) and column < 0 for column in (source, target)):
        raise UsageError(f"columns are counted from 0: source {source}, target {target} cannot be")
    if source == target:
        raise UsageError(f"source and target are the same column or key: {source!r}. Name two different ones")
    default = (source, target) == DEFAULT_COLUMNS
    if format == "auto" and default:
        found = detect_format(paths)
        return found.format, found.source, found.target
    if format == "auto":
        format = detect_kind(paths)
    if format in INFLECTION and not default:
        raise UsageError(f"format {format} has its own columns: leave out source and target, or say format tsv")
    if format == "jsonl" and not (isinstance(source, str) and isinstance(target, str)):
        if not default:
            raise UsageError(f"JSONL has keys, not columns: source {source!r} and target {target!r} must be names")
        found = detect_format(paths)
        if found.format != "jsonl":
            raise DataError(f"{file_name(as_paths(paths)[0])}:1: not JSON objects a line each, but {found.reason}")
        return found.format, found.source, found.target
    if format == "parallel" and {source, target} != {0, 1}:
        raise UsageError(f"parallel files are numbered 0 and 1: source {source!r}, target {target!r} cannot be")
    return format, source, target


def _all_examples(
    files: Sequence[str | Path], format: Format, source: Column, target: Column, bad_lines: BadLines, ledger: Ledger
) -> Iterator[Example]:
    if format == "parallel":
        if len(files) != 2:
            raise UsageError(f"parallel text is two files, and {len(files)} were given")
        swapped = (source, target) == (1, 0)
        yield from _read_parallel(files[swapped], files[not swapped], bad_lines, ledger)
        return
    for path in files:
        parser: Parser
        if format == "jsonl":
            parser = _JsonParser(str(source), str(target))
        elif format == "tsv":
            parser = _ColumnParser(source, target)
        else:
            parser = _InflectionParser(INFLECTION[format])
        yield from _read_records(path, parser, bad_lines, ledger)


def _read_parallel(source: str | Path, target: str | Path, bad_lines: BadLines, ledger: Ledger) -> Iterator[Example]:
    names = file_name(source), file_name(target)
    if str(source) == str(target) == STDIN:
        raise UsageError("only one of two parallel files can be standard input")
    left = right = 0
    for first, second in zip_longest(
        read_raw_lines(source, ledger=ledger), read_raw_lines(target, ledger=ledger), fillvalue=None
    ):
        left, right = left + (first is not None), right + (second is not None)
        if first is None or second is None or left != right:
            continue
        try:
            fields = {"source": decode(first, names[0]), "target": decode(second, names[1])}
        except BadLine as bad:
            _refuse_or_list(bad, bad_lines, ledger)
            continue
        yield Example(fields, Place(names[0], first.number))
    if left != right:
        short = names[left > right]
        raise DataError(
            f"{short}:{min(left, right) + 1}: the line is missing. Parallel files need the same number of lines, and "
            f"{names[0]} has {left:,}, {names[1]} has {right:,}. Look for a line that was lost or split"
        )


def _read_records(path: str | Path, parser: Parser, bad_lines: BadLines, ledger: Ledger) -> Iterator[Example]:
    name = file_name(path)
    for raw in read_raw_lines(path, ledger=ledger):
        place = Place(name, raw.number)
        if not raw.content:
            ledger.add("blank", place, "")
            continue
        try:
            fields = parser(_decode_record(raw, name, parser), place)
        except BadLine as bad:
            _refuse_or_list(bad, bad_lines, ledger)
            continue
        if fields is not None:
            yield Example(fields, place)


def _decode_record(raw: RawLine, name: str, parser: Parser) -> str:
    """The text of a line; a header that cannot be decoded is refused, for the next line must not be taken for it."""
    try:
        return decode(raw, name)
    except BadLine as bad:
        if isinstance(parser, _ColumnParser) and parser.waits_for_header:
            raise DataError(f"{bad}. This line is the header, so it cannot be skipped") from bad
        raise


def _refuse_or_list(bad: BadLine, bad_lines: BadLines, ledger: Ledger) -> None:
    if bad_lines == "refuse":
        raise bad
    ledger.add(bad.kind, bad.place, bad.detail)


class _ColumnParser:
    """Two columns of a TSV. Every line must have as many columns as the first; quotes are text."""

    def __init__(self, source: Column, target: Column) -> None:
        self._wanted = (source, target)
        self._indices = (source, target) if isinstance(source, int) and isinstance(target, int) else None
        self._columns: tuple[int, int] | None = None  # how many, and the line that said so

    @property
    def waits_for_header(self) -> bool:
        return self._indices is None

    def __call__(self, line: str, place: Place) -> Mapping[str, str] | None:
        cells = line.split("\t")
        if self._indices is None:
            self._indices = self._header(cells, place)
            self._columns = (len(cells), place.line)
            return None
        source, target = self._indices
        least = max(source, target) + 1
        if len(cells) < least:
            expected = f"at least {least}, for source in column {source} and target in column {target} (from 0)"
            raise _wrong_columns(len(cells), expected, line, place)
        if self._columns is None:
            self._columns = (len(cells), place.line)
        if len(cells) != self._columns[0]:
            raise _wrong_columns(len(cells), f"{self._columns[0]}, as in line {self._columns[1]}", line, place)
        return {"source": cells[source], "target": cells[target]}

    def _header(self, cells: Sequence[str], place: Place) -> tuple[int, int]:
        indices = []
        for wanted in self._wanted:
            if isinstance(wanted, str) and cells.count(wanted) != 1:
                there = ", ".join(repr(excerpt(cell, 20)) for cell in cells[:20])
                times = "no column" if wanted not in cells else "more than one column"
                raise DataError(f"{place}: the header has {times} {wanted!r}; it has: {there}")
            indices.append(cells.index(wanted) if isinstance(wanted, str) else wanted)
        return indices[0], indices[1]


class _JsonParser:
    """Two keys of a JSON object, and the gold annotations beside them."""

    def __init__(self, source: str, target: str) -> None:
        self._source = source
        self._target = target

    def __call__(self, line: str, place: Place) -> Mapping[str, str]:
        try:
            record = parse_record(line)
            gold = {key: look_up(record, key) for key in ANNOTATIONS if key in record}
            return {**gold, "source": look_up(record, self._source), "target": look_up(record, self._target)}
        except ValueError as error:
            raise BadLine("json", place, f"{error}. Found: {excerpt(line)}", MORE) from None


class _InflectionParser:
    """Lemma, features and form of a shared task."""

    def __init__(self, columns: InflectionColumns) -> None:
        self._columns = columns

    def __call__(self, line: str, place: Place) -> Mapping[str, str]:
        columns = self._columns
        cells = line.split("\t")
        if len(cells) != 3:
            raise _wrong_columns(len(cells), "3 (lemma, features and form)", line, place)
        features = ";".join(cells[columns.features].split(columns.separator))
        lemma = cells[columns.lemma]
        if not lemma or not features:
            detail = f"no {'features' if lemma else 'lemma'} in the line. Found: {excerpt(line)}"
            raise BadLine("lemma", place, detail, MORE)
        return {"source": f"{lemma}\t{features}", "target": cells[columns.form]}


def _wrong_columns(found: int, expected: str, line: str, place: Place) -> BadLine:
    detail = f"{found} column{'s' * (found != 1)} separated by tabs, expected {expected}. Found: {excerpt(line)}"
    return BadLine("columns", place, detail, MORE)
