"""N2: no memory in the forward pass, the backward pass, the optimiser and the reader, told in each of three ways.

What helps is tried: more and smaller micro-batches, or the same again. The result is that of an update that fitted.
Where nothing helps, training stops with code 7, its state saved, and goes on when there is memory.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.data.batch import Batch
from regard.data.batches import Cursor
from regard.data.corpus import StoreCorpus
from regard.errors import ResourceError
from regard.models import Loss, System
from regard.training import Checkpoints, Settings, Trainer, Verdict, weights
from tests.reliability.conftest import Tally
from tests.toys import toy_collation, toy_store, toy_system

SETTINGS = Settings(
    seed=3, steps=6, learning_rate=0.01, warmup=2, validate_every=3, log_every=2, precision="float64", accumulate=1
)
BAD = 5
"""The step whose update does not fit; 3 is the last one before it that is saved in the ordinary way."""

ERRORS: dict[str, Callable[[], BaseException]] = {
    "MemoryError": lambda: MemoryError(),
    "OutOfMemoryError": lambda: torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    "RuntimeError": lambda: RuntimeError(
        "[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to "
        "allocate 1099511627776 bytes. Error code 12 (Cannot allocate memory)"
    ),
}


class Memory:
    """Fails at a place of update `BAD` while there are more than `room` target tokens in it at once, `times` times."""

    def __init__(self, error: Callable[[], BaseException], *, room: int = 0, times: int = 1_000_000) -> None:
        self.error, self.room, self.left = error, room, times
        self.failures = 0

    def ask(self, tokens: int) -> None:
        if tokens > self.room and self.left:
            self.left -= 1
            self.failures += 1
            raise self.error()


def fail_in_forward(made: Trainer, memory: Memory) -> None:
    real = made.learner.lesson.objective

    def objective(system: System, batch: Batch, *, step: int) -> Loss:
        if step == BAD:
            memory.ask(batch.tokens)
        return real(system, batch, step=step)

    made.learner.lesson.objective = objective


def fail_in_backward(made: Trainer, memory: Memory) -> None:
    real = made.learner.lesson.objective

    def objective(system: System, batch: Batch, *, step: int) -> Loss:
        loss = real(system, batch, step=step)

        def hook(gradient: Tensor) -> None:
            memory.ask(batch.tokens)

        if step == BAD:
            loss.sum.register_hook(hook)
        return loss

    made.learner.lesson.objective = objective


def fail_in_optimizer(made: Trainer, memory: Memory) -> None:
    real = made.optimizer.step

    def step(*arguments: Any) -> Any:
        if made.progress.step + 1 == BAD:
            memory.ask(1)
        return real(*arguments)

    made.optimizer.step = step  # type: ignore[method-assign]


class Reader:
    """A corpus whose batch of the bad update cannot be made; it is made ahead, after the first update."""

    def __init__(self, real: StoreCorpus, made: Trainer, memory: Memory) -> None:
        self.real, self.made, self.memory = real, made, memory

    def batches_in_epoch(self) -> int:
        return self.real.batches_in_epoch()

    def where(self, cursor: Cursor) -> str:
        return self.real.where(cursor)

    def from_(
        self, cursor: Cursor, parts: int, *, rank: int = 0, world: int = 1
    ) -> Iterator[tuple[Cursor, Sequence[Batch]]]:
        per_epoch = self.real.batches_in_epoch()
        for after, batches in self.real.from_(cursor, parts, rank=rank, world=world):
            if self.made.progress.step and after.epoch * per_epoch + after.position == BAD:
                self.memory.ask(max(batch.tokens for batch in batches))
            yield after, batches


def fail_in_reader(made: Trainer, memory: Memory) -> None:
    assert isinstance(made.corpus, StoreCorpus)
    made.corpus = Reader(made.corpus, made, memory)


PLACES: dict[str, Callable[[Trainer, Memory], None]] = {
    "forward": fail_in_forward,
    "backward": fail_in_backward,
    "optimiser": fail_in_optimizer,
    "reader": fail_in_reader,
}
STOPS = {
    "forward": (
        4,
        r"not enough memory: a batch of \d+ tokens does not fit, however it is split\. The state after step 4",
    ),
    "backward": (
        4,
        r"not enough memory: a batch of \d+ tokens does not fit, however it is split\. The state after step 4",
    ),
    "optimiser": (3, r"not enough memory for the optimiser at step 5\. Checkpoints, if there are any, are intact"),
    "reader": (4, r"not enough memory: the next batch could not be made\. The state after step 4 is saved; go on with"),
}
"""The step that is saved, and what is told. A weight may have changed when the optimiser fails, so nothing is saved."""


def trainer(folder: Path, store: Path) -> Trainer:
    torch.manual_seed(11)
    return Trainer(
        toy_system(dropout=0.0),
        StoreCorpus(toy_store(store), toy_collation(), tokens=60, seed=5),
        settings=SETTINGS,
        validate=lambda system: Verdict(loss=1.0, value=1.0, metrics={}),
        checkpoints=Checkpoints(folder),
    )


def difference(one: Trainer, other: Trainer) -> float:
    there = weights(other.system)
    return max(float((tensor - there[name]).abs().max()) for name, tensor in weights(one.system).items())


@pytest.mark.parametrize("told", ERRORS)
@pytest.mark.parametrize("place", PLACES)
def test_no_memory(place: str, told: str, tmp_path: Path, tally: Tally) -> None:
    straight = trainer(tmp_path / "straight", tmp_path / "store")
    straight.run()
    if place != "optimiser":
        memory = Memory(ERRORS[told], **({"times": 1} if place == "reader" else {"room": 15}))
        split = trainer(tmp_path / "split", tmp_path / "store")
        PLACES[place](split, memory)
        split.run()
        assert memory.failures == (1 if place == "reader" else 2)
        assert difference(straight, split) < 1e-9
    stopped = trainer(tmp_path / "stopped", tmp_path / "store")
    PLACES[place](stopped, Memory(ERRORS[told]))
    step, text = STOPS[place]
    with pytest.raises(ResourceError, match=text) as caught:
        stopped.run()
    assert caught.value.exit_code == 7
    assert stopped.checkpoints.steps()[-1] == step
    resumed = trainer(tmp_path / "stopped", tmp_path / "store")
    resumed.run()
    assert difference(straight, resumed) == 0.0
    tally("N2", injections=1)


@pytest.mark.parametrize("told", ERRORS)
def test_a_validation_that_does_not_fit_comes_again(told: str, tmp_path: Path) -> None:
    straight = trainer(tmp_path / "straight", tmp_path / "store")
    straight.run()
    stopped = trainer(tmp_path / "stopped", tmp_path / "store")

    def validate(system: System) -> Verdict:
        raise ERRORS[told]()

    stopped.validate = validate
    with pytest.raises(ResourceError, match=r"memory: a validation does not fit\. The state after step 3 is saved"):
        stopped.run()
    resumed = trainer(tmp_path / "stopped", tmp_path / "store")
    resumed.run()
    assert (resumed.progress.judged_step, difference(straight, resumed)) == (6, 0.0)


def test_memory_that_is_too_small_for_a_finer_split_is_no_memory(tmp_path: Path) -> None:
    """Also where the finer parts cannot even be made."""
    made = trainer(tmp_path / "run", tmp_path / "store")
    fail_in_forward(made, Memory(ERRORS["MemoryError"]))
    real = made.corpus.from_

    def from_(cursor: Cursor, parts: int, **named: int) -> Iterator[tuple[Cursor, Sequence[Batch]]]:
        if parts > 1:
            raise MemoryError
        yield from real(cursor, parts, **named)

    made.corpus.from_ = from_  # type: ignore[method-assign]
    with pytest.raises(ResourceError, match=r"does not fit, however it is split\. The state after step 4 is saved"):
        made.run()


def test_other_errors_are_not_taken_for_it(tmp_path: Path) -> None:
    for place, install in PLACES.items():
        made = trainer(tmp_path / place, tmp_path / "store")
        install(made, Memory(lambda: RuntimeError("mat1 and mat2 shapes cannot be multiplied")))
        with pytest.raises(RuntimeError, match="mat1 and mat2"):
            made.run()
    made = trainer(tmp_path / "validation", tmp_path / "store")
    made.settings = replace(SETTINGS, validate_every=1)
    made.validate = lambda system: Memory(lambda: RuntimeError("mat1 and mat2")).ask(1) or Verdict(0.0, 0.0, {})
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        made.run()
