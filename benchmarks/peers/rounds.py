"""Which cells are run in which round, how long that takes, and when it ends.

In the first round everything runs. In the others only what decides: ours, what a measure names, and of the peers of a
row the best two (a row is what stands side by side: one model, one precision, one setting of the allocator). What is
far behind, or does not run at all, has its figures of the first round. Where regard is far slower in bfloat16 than in
float32 (a processor without it), trainings in it have one round, and if A was so, the larger models are not trained in
it at all. Memory has one round, too: it hardly differs from one to the next, and its trainings are long.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from peers.cells import OURS, SLOW, Cell
from peers.record import is_done

Record = Mapping[str, Any]
LEADERS = 2
HOPELESS = 0.75
"""Of the rate in float32."""

GUESSES = {"start": 4.0, "limit": 30.0, "train": 35.0, "memory": 110.0, "decode": 40.0}
"""Seconds of a cell that was never run."""

NAMED = Cell(kind="decode", system="transformers", model="A")
"""What a measure names, and so must have all rounds."""

DECIDES = "forced batch 64 beam 5"
"""The setting by which peers that decode are ranked."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A cell in a round."""

    number: int
    cell: Cell


def rate_of(record: Record, cell: Cell) -> float:
    """Of the first round; 0 where there is none."""
    first: Mapping[str, Any] = next(iter(record["cells"].get(cell.key, [])), {})
    if cell.kind == "train":
        return float(first.get("rate", 0.0))
    return float(first.get("figures", {}).get(DECIDES, {}).get("rate", 0.0))


def row(cell: Cell) -> tuple[str, ...]:
    """What stands side by side."""
    if cell.kind == "decode":
        engine = "engine" if cell.system == "ctranslate2" else ""
        return (cell.kind, cell.model, cell.precision, str(cell.tuned), engine)
    return (cell.kind, cell.model, cell.precision, str(cell.tuned))


def is_hopeless(record: Record, model: str) -> bool:
    """Whether bfloat16 is no choice on this machine."""
    own = [Cell(kind="train", system=OURS, model=model, precision=name) for name in ("float32", "bfloat16")]
    full, half = (rate_of(record, cell) for cell in own)
    return 0 < half < HOPELESS * full


def is_left_out(record: Record, cell: Cell) -> bool:
    """Whether a training in bfloat16 would only take long: that of A has told."""
    tells = cell.kind == "train" and cell.model == "A"
    return cell.kind in ("train", "memory") and cell.precision == "bfloat16" and not tells and is_hopeless(record, "A")


def decides(record: Record, cell: Cell, cells: Iterable[Cell]) -> bool:
    """Whether a cell runs after the first round; before that is over, whether it will by what is known of it."""
    rounds = record["cells"].get(cell.key, [])
    if cell.kind == "memory":
        return False
    if not rounds:
        return cell.system not in SLOW and not is_left_out(record, cell)
    if cell.kind == "train" and cell.precision == "bfloat16" and is_hopeless(record, cell.model):
        return False
    if cell.system == OURS or "fault" in rounds[0]:
        return cell.system == OURS
    if cell.kind in ("start", "limit") or cell == NAMED:
        return True
    mine = rate_of(record, cell)
    rivals = [one for one in cells if one.system != OURS and one.kind == cell.kind and row(one) == row(cell)]
    return sum(rate_of(record, one) > mine for one in rivals) < LEADERS


def turns(record: Record, cells: Sequence[Cell], rounds: int, *, retry: bool) -> list[Turn]:
    """All that is left to do, in order."""
    return [
        Turn(number, cell)
        for number in range(1, rounds + 1)
        for cell in cells
        if not is_done(record, cell.key, number, retry=retry)
        and (decides(record, cell, cells) if number > 1 else not is_left_out(record, cell))
    ]


def expected(record: Record, cell: Cell) -> float:
    """Seconds that a cell takes: as many as last time, or as others of its kind."""
    known = [one["took"] for one in record["cells"].get(cell.key, []) if "took" in one]
    if known:
        return float(known[-1])
    return float(record.get("took", {}).get(cell.key, GUESSES[cell.kind]))


def minutes_left(record: Record, cells: Sequence[Cell], rounds: int, *, retry: bool) -> float:
    return sum(expected(record, turn.cell) for turn in turns(record, cells, rounds, retry=retry)) / 60


@dataclass(frozen=True, slots=True)
class Budget:
    """Until when cells may run; what does not fit any more is not begun."""

    minutes: float | None
    began: float
    clock: Callable[[], float] = time.monotonic

    def allows(self, seconds: float) -> bool:
        return self.minutes is None or self.clock() - self.began + seconds <= 60 * self.minutes
