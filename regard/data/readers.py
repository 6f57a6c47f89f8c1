"""Files to examples: parallel files, TSV, JSONL, plain lines, CoNLL-U, and the three column orders of SIGMORPHON.

Source and target are columns (numbers from 0, or names of a header line) or keys (`translation.en` reaches into an
inner object). A side that is None is empty: a language model has no source. Further columns (the part of speech of each
word, a topic) stand in the source after its text, each behind a tab, so that a source is one line wherever it comes
from. Plain lines are a source or a target, whichever is not None. Inflection gives `lemma<TAB>features` as source,
features joined with `;`, and the form as target.
A line of a TSV or JSONL file with nothing on it stands for no example: it is passed over and listed as blank.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Final, Literal, NamedTuple

from regard.data.conllu import Sentences
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

WORDS: Final = "Where a file has a word a line, as CoNLL-U has, set `data.format: conllu`"


def read_examples(
    paths: Paths,
    *,
    format: Format | Literal["auto"] = "auto",
    source: Column | None = 0,
    target: Column | None = 1,
    further: Sequence[Column] = (),
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
    if source is None or target is None or further:
        wanted = _Columns(source, tuple(further), target)
        format = _settle_columns(files, format, wanted)
    else:
        format, source, target = settle_format(files, format, source, target)
        wanted = _Columns(source, (), target)
    examples = 0
    for example in _all_examples(files, format, wanted, bad_lines, ledger):
        examples += 1
        yield example
    if not examples:
        names = ", ".join(file_name(path) for path in files)
        told = ledger.since(before).summary()
        raise DataError(f"{names}: not one example could be read. " + (told or "There are no lines in it"))


class _Columns(NamedTuple):
    """Which columns or keys make an example."""

    source: Column | None
    further: tuple[Column, ...]
    target: Column | None

    @property
    def all(self) -> list[Column]:
        """Those that are read, in the order of the fields."""
        return [column for column in (self.source, *self.further, self.target) if column is not None]

    def fields(self, values: Sequence[str], place: Place) -> dict[str, str]:
        """Source and target of the values of `all`."""
        target = "" if self.target is None else values[-1]
        parts = values if self.target is None else values[:-1]
        for name, value in zip(self.further, parts[len(parts) - len(self.further) :], strict=True):
            if "\t" in value:
                detail = f"the value of {name!r} has a tab in it, which stands between columns of a source"
                raise BadLine("columns", place, detail, MORE)
        return {"source": "\t".join(parts), "target": target}


def _settle_columns(files: Sequence[str | Path], format: Format | Literal["auto"], wanted: _Columns) -> Format:
    """The format of files of which other columns are read than one source and one target."""
    if not wanted.all:
        raise UsageError("neither a source nor a target is read: name at least one of them")
    if len(set(wanted.all)) < len(wanted.all):
        raise UsageError(f"one column or key is asked for twice: {', '.join(map(repr, wanted.all))}")
    if any(isinstance(column, int) and column < 0 for column in wanted.all):
        raise UsageError(f"columns are counted from 0: {', '.join(map(repr, wanted.all))} cannot be")
    if format == "auto":
        format = detect_kind(files)
    if format == "lines" and (len(wanted.all) > 1 or wanted.further):
        raise UsageError(
            "format lines has one text a line: one of source and target must be null, without further columns"
        )
    if format == "jsonl" and not all(isinstance(column, str) for column in wanted.all):
        raise UsageError(f"JSONL has keys, not columns: {', '.join(map(repr, wanted.all))} must be names")
    if format not in ("tsv", "jsonl", "lines", "conllu"):
        raise UsageError(
            f"format {format} has a source and a target, and no further columns; take tsv, jsonl, conllu or lines"
        )
    return format


def settle_format(
    paths: Paths, format: Format | Literal["auto"], source: Column, target: Column
) -> tuple[Format, Column, Column]:
    """The format and columns that are meant, after a look at the files where `auto` or a default asks for it."""
    if format == "lines":
        raise UsageError("format lines has one text a line, no pairs: set source or target to null")
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
    files: Sequence[str | Path], format: Format, wanted: _Columns, bad_lines: BadLines, ledger: Ledger
) -> Iterator[Example]:
    if format == "parallel":
        if len(files) != 2:
            raise UsageError(f"parallel text is two files, and {len(files)} were given")
        swapped = (wanted.source, wanted.target) == (1, 0)
        yield from _read_parallel(files[swapped], files[not swapped], bad_lines, ledger)
        return
    for path in files:
        parser: Parser
        if format == "conllu":
            yield from _read_sentences(path, wanted, bad_lines, ledger)
            continue
        if format == "jsonl":
            parser = _JsonParser(wanted)
        elif format == "tsv":
            _refuse_words(path)
            parser = _ColumnParser(wanted)
        elif format == "lines":
            parser = _LineParser(wanted)
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


def _refuse_words(path: str | Path) -> None:
    """Columns of a word would pass for columns of an example."""
    if str(path).removesuffix(".gz").endswith(".conllu"):
        raise DataError(f"{file_name(path)}:1: is CoNLL-U by its name, not a TSV of examples. {WORDS}")


def _read_sentences(path: str | Path, wanted: _Columns, bad_lines: BadLines, ledger: Ledger) -> Iterator[Example]:
    sentences = Sentences(file_name(path), wanted.all)
    for raw in read_raw_lines(path, ledger=ledger):
        try:
            ended = sentences.add(raw)
        except BadLine as bad:
            _refuse_or_list(bad, bad_lines, ledger)
            continue
        if ended is not None:
            yield Example(wanted.fields(*ended), ended[1])
    last = sentences.end()
    if last is not None:
        yield Example(wanted.fields(*last), last[1])


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
    """Columns of a TSV. Every line must have as many columns as the first; quotes are text."""

    def __init__(self, wanted: _Columns) -> None:
        self._wanted = wanted
        numbers = [column for column in wanted.all if isinstance(column, int)]
        self._indices = numbers if len(numbers) == len(wanted.all) else None
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
        least = max(self._indices) + 1
        if len(cells) < least:
            raise _wrong_columns(len(cells), f"at least {least}, for {self._told(self._indices)} (from 0)", line, place)
        if self._columns is None:
            self._columns = (len(cells), place.line)
        if len(cells) != self._columns[0]:
            raise _wrong_columns(len(cells), f"{self._columns[0]}, as in line {self._columns[1]}", line, place)
        return self._wanted.fields([cells[index] for index in self._indices], place)

    def _told(self, indices: Sequence[int]) -> str:
        names = (
            *(("source",) if self._wanted.source is not None else ()),
            *(f"further {number}" for number in range(1, len(self._wanted.further) + 1)),
            *(("target",) if self._wanted.target is not None else ()),
        )
        told = [f"{name} in column {index}" for name, index in zip(names, indices, strict=True)]
        return " and ".join(told)

    def _header(self, cells: Sequence[str], place: Place) -> list[int]:
        indices = []
        for wanted in self._wanted.all:
            if isinstance(wanted, str) and cells.count(wanted) != 1:
                there = ", ".join(repr(excerpt(cell, 20)) for cell in cells[:20])
                times = "no column" if wanted not in cells else "more than one column"
                raise DataError(f"{place}: the header has {times} {wanted!r}; it has: {there}")
            indices.append(cells.index(wanted) if isinstance(wanted, str) else wanted)
        return indices


class _JsonParser:
    """Keys of a JSON object, and the gold annotations beside them."""

    def __init__(self, wanted: _Columns) -> None:
        self._wanted = wanted

    def __call__(self, line: str, place: Place) -> Mapping[str, str]:
        try:
            record = parse_record(line)
            gold = {key: look_up(record, key) for key in ANNOTATIONS if key in record}
            values = [look_up(record, str(key)) for key in self._wanted.all]
        except ValueError as error:
            raise BadLine("json", place, f"{error}. Found: {excerpt(line)}", MORE) from None
        return {**gold, **self._wanted.fields(values, place)}


class _LineParser:
    """A line is a text."""

    def __init__(self, wanted: _Columns) -> None:
        self._wanted = wanted

    def __call__(self, line: str, place: Place) -> Mapping[str, str]:
        return self._wanted.fields([line], place)


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
    return BadLine("columns", place, detail, WORDS if line.startswith("# ") and place.line == 1 else MORE)
