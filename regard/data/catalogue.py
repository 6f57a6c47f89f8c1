"""The corpora of a folder, as its `MANIFEST.tsv` lists them (task, name, path, bytes, examples, licence)."""

from dataclasses import dataclass
from pathlib import Path

from regard.data.excerpt import excerpt
from regard.data.lines import read_lines
from regard.errors import DataError

COLUMNS = ("task", "name", "path", "bytes", "examples", "licence")


@dataclass(frozen=True, slots=True)
class Corpus:
    """A corpus on this machine."""

    name: str
    task: str
    path: Path
    examples: int
    licence: str


def corpora(folder: Path) -> list[Corpus]:
    """Everything that the manifest of a folder lists and that is there."""
    manifest = folder / "MANIFEST.tsv"
    if not manifest.is_file():
        raise DataError(f"{folder}: there is no MANIFEST.tsv; REGARD_DATA must name a folder of corpora that has one")
    found: list[Corpus] = []
    for number, line in enumerate(read_lines(manifest), start=1):
        cells = line.split("\t")
        if number == 1 and tuple(cells) == COLUMNS:
            continue
        if len(cells) != len(COLUMNS):
            expected = f"{len(COLUMNS)} columns separated by tabs ({', '.join(COLUMNS)})"
            raise DataError(f"{manifest}:{number}: expected {expected}, and found {len(cells)}: {excerpt(line)}")
        if not (cells[4].isascii() and cells[4].isdigit()):
            raise DataError(f"{manifest}:{number}: the number of examples is {excerpt(cells[4])}, not a whole number")
        task, name, path, _, examples, licence = cells
        if (folder / path).exists():
            found.append(Corpus(name=name, task=task, path=folder / path, examples=int(examples), licence=licence))
    return found
