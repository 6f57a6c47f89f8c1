"""What is kept of each training in benchmarks/translation.json: a row that the run appends, enough to write all pages.

Runs may be spread over days and machines, and two may end at the same time: a lock is held while a row is added.
"""

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from published.entries import Bucket, Value
from pydantic import TypeAdapter

from multi30k.plan import Published
from regard.files import replace_file


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where and with what a training ran. `clean`: package and recipes were as committed, each time it was started."""

    commits: tuple[str, ...]
    clean: bool
    machine: str
    threads: int
    versions: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a training took; `minutes` are of the wall from start to judged test set, however often it was stopped.

    `training_minutes` are those that the recipe's limit counts: updates and validations.
    """

    minutes: float
    training_minutes: float
    cpu_minutes: float
    steps: int
    epochs: int

    @property
    def alone(self) -> float:
        """Minutes that it takes at most where nothing else runs: never more than its processors were busy."""
        return min(self.minutes, self.cpu_minutes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A training. `experiment` says what was changed by `settings`; such a row has no `test`.

    `recipe_hash` is of the settings in the recipe, `asked_minutes` the limit where another was asked for. `curve` has
    greedy BLEU on validation data against minutes; `validation` and `test` are scores with the search of the recipe.
    """

    recipe: str
    recipe_hash: str
    seed: int
    asked_minutes: float | None = None
    experiment: str = ""
    settings: tuple[str, ...] = ()
    finished: str
    place: Place
    cost: Cost
    parameters: int
    curve: tuple[tuple[float, float], ...]
    validation: dict[str, Value]
    test: dict[str, Value] = field(default_factory=dict)
    by_length: tuple[Bucket, ...] = ()
    published: Published | None = None

    @property
    def identity(self) -> tuple[object, ...]:
        """Rows of the same are the same training."""
        return self.recipe, self.recipe_hash, self.seed, self.asked_minutes, self.settings, bool(self.experiment)

    @property
    def bleu(self) -> float | None:
        """On the test set."""
        return self.test["BLEU"].value if "BLEU" in self.test else None


Rows = tuple[Row, ...]
_JSON: Final = TypeAdapter(Rows)
_ROW: Final = TypeAdapter(Row)


def read_rows(path: Path) -> Rows:
    """All rows in the order in which they were added; none where there is no file yet."""
    return _JSON.validate_json(path.read_bytes()) if path.exists() else ()


def current(rows: Iterable[Row]) -> Rows:
    """Finished trainings of each recipe as it was when it was trained last; experiments are left out."""
    finished = tuple(row for row in rows if not row.experiment)
    latest = {row.recipe: row.recipe_hash for row in finished}
    return tuple(row for row in finished if row.recipe_hash == latest[row.recipe])


def add_row(path: Path, row: Row) -> Rows:
    """Append a row, a line each; one of the same training, made again, takes the place of the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with _held(path.parent):
        rows = tuple(old for old in read_rows(path) if old.identity != row.identity)
        rows = (*rows, row)
        lines = b",\n".join(_ROW.dump_json(one) for one in rows)
        replace_file(path, b"[\n" + lines + b"\n]\n")
    return rows


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """One process at a time: the others wait."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
