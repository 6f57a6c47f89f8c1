"""Sets of pairs that a user names beside a run: read as the run's training data was, or in their own format."""

from collections.abc import Sequence
from typing import Literal

from regard.data import Ledger, read_examples
from regard.data.example import Example
from regard.data.formats import INFLECTION, Column, Format, detect_kind
from regard.data.jsonl import look_up, parse_record
from regard.data.lines import STDIN, read_lines
from regard.data.pictures import beside_files
from regard.errors import UsageError
from regard.recipe.schema import DataSection, Recipe

Layout = tuple[Format | Literal["auto"], Column | None, Column | None]

AS_FOUND: Layout = ("auto", 0, 1)


def read_set(recipe: Recipe, files: Sequence[str], ledger: Ledger | None = None) -> list[Example]:
    """Examples of one file of pairs, or of two parallel files.

    Columns and keys that the recipe names hold here too, where the file is of that kind; else a look at it decides.
    Where they are more or fewer than a source and a target, there is nothing to look for. A set that a run has split
    off is read as it was written.
    """
    if not 1 <= len(files) <= 2:
        raise UsageError(f"one file of pairs or two parallel files are needed, and {len(files)} were given")
    section = recipe.data
    paths = files[0] if len(files) == 1 else tuple(files)
    further = (*section.factors, *section.attributes)
    split_off = _split_off(files)
    if split_off:
        layout: Layout = ("jsonl", "source", "target")
        further = ()
    elif further or section.source is None or section.target is None:
        layout = (section.format, section.source, section.target)
    else:
        layout = _layout(section, files)
    format, source, target = layout
    examples = read_examples(
        paths,
        format=format,
        source=source,
        target=target,
        further=further,
        bad_lines=section.bad_lines,
        ledger=ledger,
    )
    return beside_files(examples) if recipe.reads_pictures and not split_off else list(examples)


def _split_off(files: Sequence[str]) -> bool:
    """Whether a file is one that a run has written: its records know where they came from."""
    if len(files) != 1 or files[0] == STDIN or not files[0].endswith(".jsonl"):
        return False
    first = next((line for line in read_lines(files[0], bad_lines="blank") if line.strip()), "")
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
    if kind == "tsv" and section.format == "auto" and (section.source, section.target) != AS_FOUND[1:]:
        return "tsv", section.source, section.target
    if kind == "jsonl" and section.format in ("jsonl", "auto") and _has_keys(files[0], section):
        return "jsonl", section.source, section.target
    return AS_FOUND


def _has_keys(file: str, section: DataSection) -> bool:
    """Whether the first record has the keys of the recipe."""
    first = next((line for line in read_lines(file, bad_lines="blank") if line.strip()), "")
    keys = [key for key in (section.source, section.target) if isinstance(key, str)]
    try:
        record = parse_record(first)
        for key in keys:
            look_up(record, key)
    except ValueError:
        return False
    return len(keys) == 2
