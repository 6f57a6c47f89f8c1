"""The part of `regard predict` that reads what is demanded of outputs."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from regard.errors import DataError

if TYPE_CHECKING:
    from regard.search import Constraint

ENDINGS: Final = (".txt", ".tsv", ".csv", ".list", ".lst", ".words", ".gz")


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
                fields[name] = _words(name, value)
            case _:
                fields[name] = value
    return Constraint(**fields) if fields else None


def _words(name: str, value: str) -> tuple[str, ...]:
    """The lines of a file, or what stands between commas."""
    if Path(value).is_file():
        return _lines(value)
    words = tuple(word.strip() for word in value.split(","))
    if len(words) == 1 and _looks_like_a_file(value):
        raise DataError(f"--{name} {value}: there is no such file. If it is a word, put it into a file")
    return words


def _looks_like_a_file(value: str) -> bool:
    """A file ending, or a folder that is there: what was mistyped must not pass for a word."""
    path = Path(value)
    return path.suffix in ENDINGS or ("/" in value and path.parent.is_dir())


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
