"""The part of `regard predict` that reads what is demanded of outputs."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import DataError

if TYPE_CHECKING:
    from regard.search import Constraint


def read_constraint(given: Mapping[str, str | None]) -> "Constraint | None":
    """The constraint of the command line, by the names of its options; None where nothing is demanded."""
    from regard.search import Constraint

    fields: dict[str, Any] = {}
    for name, value in given.items():
        if value is None:
            continue
        match name:
            case "glossary":
                fields[name] = _pairs(value)
            case "only":
                fields[name] = _lines(value)
            case "forbid" | "force" | "brackets" | "bio":
                fields[name] = _words(value)
            case _:
                fields[name] = value
    return Constraint(**fields) if fields else None


def _words(value: str) -> tuple[str, ...]:
    """The lines of a file, or what stands between commas."""
    return _lines(value) if Path(value).is_file() else tuple(word.strip() for word in value.split(","))


def _lines(path: str) -> tuple[str, ...]:
    from regard.data import read_lines

    return tuple(line for line in read_lines(path) if line.strip())


def _pairs(path: str) -> tuple[tuple[str, str], ...]:
    from regard.data import read_lines

    pairs = []
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        source, tab, target = line.partition("\t")
        if not tab or "\t" in target or not source.strip() or not target.strip():
            raise DataError(f"{path}:{number}: a line of a glossary is SOURCE, a tab and TARGET; this one is {line!r}")
        pairs.append((source.strip(), target.strip()))
    return tuple(pairs)
