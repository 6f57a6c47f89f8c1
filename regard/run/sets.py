"""Sets of pairs that a user names beside a run: read as the run's training data was, or in their own format."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from regard.data import Ledger, read_examples
from regard.data.example import Example
from regard.data.formats import INFLECTION, Column, Format, detect_format, detect_kind
from regard.data.jsonl import look_up, parse_record
from regard.data.lines import STDIN, read_lines
from regard.data.pictures import beside_files
from regard.errors import DataError, UsageError
from regard.recipe.schema import DataSection, Recipe

Layout = tuple[Format | Literal["auto"], Column | None, Column | None]

AS_FOUND: Layout = ("auto", 0, 1)


@dataclass(frozen=True, slots=True)
class SetLayout:
    """How a set is read. `assumed` says how it differs from what the run was trained on; empty where it does not."""

    format: Format | Literal["auto"]
    source: Column | None
    target: Column | None
    further: tuple[Column, ...] = ()
    assumed: str = ""
    split_off: bool = False


def read_set(recipe: Recipe, files: Sequence[str], ledger: Ledger | None = None) -> list[Example]:
    """Examples of one file of pairs, or of two parallel files, read as `set_layout` says."""
    layout = set_layout(recipe, files)
    examples = _examples(recipe, files, layout, ledger)
    return list(beside_files(examples) if recipe.reads_pictures and not layout.split_off else examples)


def stream_set(recipe: Recipe, files: Sequence[str], ledger: Ledger | None = None) -> Iterator[Example]:
    """The same, one after the other, in bounded memory.

    Files are read to their end once before, so that what is wrong with them is told before anything is made of them;
    what can be read only once, such as standard input, is not.
    """
    layout = set_layout(recipe, files)
    if recipe.reads_pictures:
        yield from read_set(recipe, files, ledger)
        return
    if all(Path(file).is_file() for file in files):
        for _ in _examples(recipe, files, layout, None):
            pass
    yield from _examples(recipe, files, layout, ledger)


def _examples(recipe: Recipe, files: Sequence[str], layout: SetLayout, ledger: Ledger | None) -> Iterator[Example]:
    return read_examples(
        files[0] if len(files) == 1 else tuple(files),
        format=layout.format,
        source=layout.source,
        target=layout.target,
        further=layout.further,
        bad_lines=recipe.data.bad_lines,
        ledger=ledger,
    )


def set_layout(recipe: Recipe, files: Sequence[str]) -> SetLayout:
    """Columns and keys that the recipe names hold, where the file is of that kind; else a look at it decides.

    A set that a run has split off is read as it was written.
    """
    if not 1 <= len(files) <= 2:
        raise UsageError(f"one file of pairs or two parallel files are needed, and {len(files)} were given")
    section = recipe.data
    further = (*section.factors, *section.attributes)
    if _split_off(files):
        return SetLayout("jsonl", "source", "target", split_off=True)
    if further or section.source is None or section.target is None:
        return _like_own(section, files, further)
    layout = _layout(section, files)
    if layout != AS_FOUND or STDIN in files:
        return SetLayout(*layout)
    found = detect_format(files)
    told = section.format not in ("auto", found.format) and found.format != "parallel"
    assumed = f"read as {found.format}, the run was trained on {section.format}: {found.reason}" if told else ""
    return SetLayout(found.format, found.source, found.target, assumed=assumed)


def _like_own(section: DataSection, files: Sequence[str], further: tuple[Column, ...]) -> SetLayout:
    """The layout of a set with other columns than a source and a target; of one text alone in whatever it comes."""
    own = SetLayout(section.format, section.source, section.target, further)
    if STDIN in files or len(files) != 1:
        return own
    kind, first = detect_kind(files), _first_line(files[0])
    found: Format = "lines" if kind == "tsv" and "\t" not in first else kind
    columns = [column for column in (section.source, *further, section.target) if column is not None]
    fits = section.format in ("auto", found) or (section.format, found, columns) == ("tsv", "lines", [0])
    if fits or (section.format == "lines" and found == "tsv" and not files[0].endswith((".tsv", ".tsv.gz"))):
        return own
    if len(columns) == 1:
        column: Column = {"jsonl": _text_key(files[0], first, columns[0]), "conllu": "FORM"}.get(found, 0)
        source, target = (None if side is None else column for side in (section.source, section.target))
        named = "" if found == "lines" else f", the text being {column!r}"
        return SetLayout(
            found, source, target, assumed=f"read as {found}{named}; the run was trained on {section.format}"
        )
    there = first.split("\t") if found == "tsv" else _keys(first)
    if found in ("tsv", "jsonl") and all(column in there for column in columns):
        assumed = f"read as {found} by the names of its columns; the run was trained on {section.format}"
        return SetLayout(found, section.source, section.target, further, assumed=assumed)
    raise DataError(
        f"{files[0]}:1: the run reads {', '.join(map(repr, columns))} of {section.format}, and this file is {found}. "
        f"Give a file of the same kind, or one whose columns or keys have these names"
    )


def _first_line(file: str) -> str:
    return next((line for line in read_lines(file, bad_lines="blank") if line.strip()), "")


def _keys(line: str) -> list[str]:
    try:
        return list(parse_record(line))
    except ValueError:
        return []


def _text_key(file: str, first: str, own: Column) -> Column:
    """The key of the only text in a record."""
    keys = _keys(first)
    for key in (own, "text", *(keys if len(keys) == 1 else ())):
        if key in keys:
            return key
    if not keys:
        return own
    raise DataError(f"{file}:1: which key holds the text is not told; there are {', '.join(keys[:8])}. Call it `text`")


def _split_off(files: Sequence[str]) -> bool:
    """Whether a file is one that a run has written: its records know where they came from."""
    if len(files) != 1 or files[0] == STDIN or not files[0].endswith(".jsonl"):
        return False
    first = _first_line(files[0])
    try:
        record = parse_record(first)
    except ValueError:
        return False
    return {"source", "target"} <= record.keys() and isinstance(record.get("place"), dict)


def _layout(section: DataSection, files: Sequence[str]) -> Layout:
    own: Layout = (section.format, section.source, section.target)
    if STDIN in files:
        return own if len(files) == 1 else ("parallel", 0, 1)
    kind = detect_kind(files)
    if kind == "tsv" and (section.format == "tsv" or section.format in INFLECTION):
        return own
    if kind == "conllu" and section.format in ("conllu", "auto") and (section.source, section.target) != AS_FOUND[1:]:
        return "conllu", section.source, section.target
    if kind == "tsv" and section.format == "auto" and (section.source, section.target) != AS_FOUND[1:]:
        return "tsv", section.source, section.target
    if kind == "jsonl" and section.format in ("jsonl", "auto") and _has_keys(files[0], section):
        return "jsonl", section.source, section.target
    return AS_FOUND


def _has_keys(file: str, section: DataSection) -> bool:
    """Whether the first record has the keys of the recipe."""
    first = _first_line(file)
    keys = [key for key in (section.source, section.target) if isinstance(key, str)]
    try:
        record = parse_record(first)
        for key in keys:
            look_up(record, key)
    except ValueError:
        return False
    return len(keys) == 2
