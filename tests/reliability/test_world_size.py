"""R8: a training that goes on with another number of processes loses no example, repeats none, and learns the same.

So does, of R7, one that goes on with the same number after one of them was killed.
"""

import os
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.data.batch import Batch
from regard.data.batches import Cursor, Indices
from regard.data.corpus import StoreCorpus
from regard.errors import LostError
from regard.models import System
from regard.training import Checkpoints, Event, Observer, Settings, Stepped, Trainer, Verdict
from regard.training.processes import Alone, Processes
from regard.training.settings import Precision
from tests.reliability.conftest import Tally
from tests.together import Work, together
from tests.toys import toy_collation, toy_store, toy_system

ROWS, STEPS = 60, 50
PLANS = {"alone": [(50, 1)], "changing": [(9, 1), (21, 2), (30, 1), (41, 2), (50, 1)]}


class Remembering(StoreCorpus):
    """Knows which rows a batch was made of."""

    def batch(self, rows: Indices, epoch: int | None) -> Batch:
        made = super().batch(rows, epoch)
        self.made = {**getattr(self, "made", {}), id(made.outputs): (epoch, rows.tolist(), made.outputs)}
        return made

    def rows(self, batch: Batch) -> tuple[int, list[int]]:
        epoch, rows, _ = self.made[id(batch.outputs)]
        return epoch, rows


def never(system: System) -> Verdict:
    return Verdict(loss=0.0, value=0.0, metrics={})


def training(folder: Path, steps: int, *observers: Observer, precision: Precision = "float32") -> Work:
    def work(processes: Processes) -> Mapping[str, Any]:
        torch.manual_seed(1)
        losses: dict[str, float] = {}
        seen: list[tuple[int, int]] = []

        def log(event: Event) -> None:
            if isinstance(event, Stepped):
                losses[str(event.progress.step)] = event.loss

        corpus = Remembering(toy_store(folder.parent / "store", ROWS), toy_collation(), tokens=60, seed=5)
        made = Trainer(
            toy_system(dropout=0.0),
            corpus,
            settings=Settings(
                seed=7,
                steps=steps,
                learning_rate=0.003,
                warmup=10,
                validate_every=1000,
                save_every=5,
                log_every=1,
                precision=precision,
            ),
            validate=never,
            checkpoints=Checkpoints(folder),
            observers=[log, *observers],
            processes=processes,
        )
        real = made.update

        def update(parts: Sequence[Batch], cursor: Cursor) -> None:
            real(parts, cursor)
            for part in parts:
                epoch, rows = corpus.rows(part)
                seen.extend((epoch, row) for row in rows if part.tokens)

        made.update = update  # type: ignore[method-assign]
        made.run()
        return {"losses": losses, "seen": seen}

    return work


def learn(
    folder: Path, plan: Sequence[tuple[int, int]], precision: Precision
) -> tuple[dict[str, float], list[tuple[int, int]]]:
    """The losses of all steps, and (epoch, row) of every example that was learned from."""
    losses: dict[str, float] = {}
    seen: list[tuple[int, int]] = []
    for number, (steps, world) in enumerate(plan):
        work = training(folder / "run", steps, precision=precision)
        found = [work(Alone())] if world == 1 else together(folder / f"meet{number}", world, work)
        losses |= found[0]["losses"]
        seen.extend((epoch, row) for one in found for epoch, row in one["seen"])
    return losses, seen


@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-5), ("float64", 1e-9)])
def test_another_number_of_processes(precision: Precision, tolerance: float, tmp_path: Path, tally: Tally) -> None:
    losses, seen = learn(tmp_path / "alone", PLANS["alone"], precision)
    changed, also_seen = learn(tmp_path / "changing", PLANS["changing"], precision)
    assert len(losses) == STEPS
    assert changed == pytest.approx(losses, rel=tolerance)
    assert sorted(also_seen) == sorted(seen)
    last = max(epoch for epoch, _ in seen)
    assert last > 2
    for epoch in range(last):
        assert sorted(row for when, row in also_seen if when == epoch) == list(range(ROWS))
    tally("R8", changes=4, samples=len(also_seen), steps=STEPS)


def test_a_process_that_is_killed_changes_nothing(tmp_path: Path, tally: Tally) -> None:
    """The short sibling of the test of killed workers: no supervisor, the test starts all again."""
    straight = together(tmp_path / "meet", 2, training(tmp_path / "straight", 12))[0]

    def broken(processes: Processes) -> Mapping[str, Any]:
        def kill(event: Event) -> None:
            if isinstance(event, Stepped) and event.progress.step == 8 and processes.rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            training(tmp_path / "broken", 12, kill)(processes)
        except LostError as error:
            return {"lost": str(error)}
        return {}

    began = time.monotonic()
    (survivor,) = together(tmp_path / "meet1", 2, broken, leave=True, killed=1)
    assert time.monotonic() - began < 30
    assert survivor["lost"].startswith("process 0 of 2 cannot reach the others any more (")
    assert Checkpoints(tmp_path / "broken").steps() == [5]
    resumed = together(tmp_path / "meet2", 2, training(tmp_path / "broken", 12))[0]
    assert resumed["losses"].items() <= straight["losses"].items()
    (one, _), (other, _) = (Checkpoints(tmp_path / name).latest() for name in ("straight", "broken"))
    assert one is not None
    assert other is not None
    assert all(torch.equal(tensor, other.model[name]) for name, tensor in one.model.items())
    tally("R7", kills=1)
