"""N1: numbers that are not finite, and batches that cannot be learned from, at every place they can come from.

Whatever is injected, all that is on the disk is finite, the best weights are those of the last good validation, and a
training that stopped goes on without the injection.
"""

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.data.batch import Batch
from regard.data.batches import Cursor
from regard.data.corpus import StoreCorpus
from regard.errors import DataError, DivergedError, RegardError
from regard.models import System
from regard.run.folder import RunFolder
from regard.run.log import LogWriter
from regard.special import MASK
from regard.training import (
    Event,
    Likelihood,
    Settings,
    Skipped,
    Stepped,
    Trainer,
    Validated,
    Verdict,
    weights,
)
from tests.reliability.conftest import Tally
from tests.toys import VOCABULARY, toy_collation, toy_store, toy_system

SETTINGS = Settings(seed=3, steps=12, learning_rate=0.01, warmup=4, validate_every=3, save_every=2, log_every=2)
BAD = 8
"""The update that something is wrong with; step 6 is the last one before it that is judged and saved."""


class Corpus:
    """A corpus some of whose batches are exchanged, by how many were made before."""

    def __init__(self, real: StoreCorpus, change: Callable[[Batch], Sequence[Batch]], numbers: Sequence[int]) -> None:
        self.real, self.change, self.numbers = real, change, numbers

    def batches_in_epoch(self) -> int:
        return self.real.batches_in_epoch()

    def where(self, cursor: Cursor) -> str:
        return self.real.where(cursor)

    def from_(self, cursor: Cursor, parts: int) -> Iterator[tuple[Cursor, Sequence[Batch]]]:
        per_epoch = self.real.batches_in_epoch()
        for after, made in self.real.from_(cursor, parts):
            number = after.epoch * per_epoch + after.position
            yield after, self.change(made[0]) if number in self.numbers else made


@dataclass
class Injected:
    """What an injection may change before a training runs."""

    trainer: Trainer
    updates: int = 0

    def at_update(self, numbers: Sequence[int], action: Callable[[Trainer], None]) -> None:
        """Do something after the weights changed in some updates, those that are left out being counted, too."""
        real = self.trainer.apply

        def apply() -> None:
            real()
            if self.trainer.progress.step + 1 in numbers:
                action(self.trainer)

        self.trainer.apply = apply  # type: ignore[method-assign]

    def loss(self, factor: float, numbers: Sequence[int]) -> None:
        """Multiply the loss of some updates."""
        real, backward = self.trainer.objective, self.trainer.backward

        def counted(*arguments: Any) -> tuple[int, float, float]:
            self.updates += 1
            return backward(*arguments)

        def spoiled(system: System, batch: Batch, *, step: int) -> Any:
            loss = real(system, batch, step=step)
            return replace(loss, sum=loss.sum * factor) if self.updates in numbers else loss

        self.trainer.backward, self.trainer.objective = counted, spoiled  # type: ignore[method-assign, assignment]

    def gradient(self, change: Callable[[torch.Tensor], object], numbers: Sequence[int]) -> None:
        """Change the gradient of one weight in some updates."""
        real = self.trainer.backward

        def backward(*arguments: Any) -> tuple[int, float, float]:
            found = real(*arguments)
            self.updates += 1
            if self.updates in numbers:
                gradient = next(self.trainer.system.parameters()).grad
                assert gradient is not None
                change(gradient)
            return found

        self.trainer.backward = backward  # type: ignore[method-assign]

    def batch(self, change: Callable[[Batch], Sequence[Batch]], numbers: Sequence[int]) -> None:
        """Exchange some batches."""
        assert isinstance(self.trainer.corpus, StoreCorpus)
        self.trainer.corpus = Corpus(self.trainer.corpus, change, numbers)

    def verdict(self, step: int, **changes: Any) -> None:
        """Find something else in the validations from a step on."""
        real = self.trainer.validate

        def validate(system: System) -> Verdict:
            found = real(system)
            return replace(found, **changes) if self.trainer.progress.step >= step else found

        self.trainer.validate = validate


def spoil_row(trainer: Trainer, value: float) -> None:
    """Put a number into a row of the encoder's embedding that no batch reads, so that no loss tells."""
    table = trainer.system.encoder.get_parameter("embedding.weight")
    with torch.no_grad():
        table[MASK, 3] = value


def spoil_all(trainer: Trainer, value: float) -> None:
    with torch.no_grad():
        for parameter in trainer.system.parameters():
            parameter.fill_(value)


def spoil_average(trainer: Trainer) -> None:
    assert trainer.moving is not None
    next(iter(trainer.moving.values.values()))[0, 0] = math.nan


def spoil_moment(trainer: Trainer) -> None:
    next(iter(trainer.optimizer.state.values()))["exp_avg_sq"][0, 0] = math.inf


def padding_only(batch: Batch) -> Sequence[Batch]:
    return [replace(batch, mask=torch.zeros_like(batch.mask))]


def no_rows(batch: Batch) -> Sequence[Batch]:
    return []


def foreign_label(batch: Batch) -> Sequence[Batch]:
    return [replace(batch, outputs=batch.outputs.masked_fill(batch.mask, VOCABULARY))]


def foreign_input(batch: Batch) -> Sequence[Batch]:
    return [replace(batch, inputs=batch.inputs + VOCABULARY)]


ONCE, THRICE, EVER = (BAD,), (BAD, BAD + 1, BAD + 2), range(BAD, 99)
PLACE = r"; epoch \d, batch \d: toy:\d+, toy:\d+.*"
NAN = rf"diverged: 4 updates in a row had to be left out \(step 8: loss nan, gradient norm nan{PLACE}\)\. Checkpoints"
NORM = rf"diverged: 4 updates in a row had to be left out \(step 8: loss [\d.]+, gradient norm (nan|inf){PLACE}\)"
FOUND = r"diverged: after step {} there are numbers that are not finite in .*, so these weights are neither judged nor"


@dataclass(frozen=True, slots=True)
class Case:
    """An injection, and how training ends: after so many updates that are left out, or with an error.

    `gain` is the step of the best weights on the disk in the end, `saved` that of the last checkpoint, where they are
    not what they mostly are.
    """

    inject: Callable[[Injected], None]
    skips: int = 0
    error: type[RegardError] | None = None
    text: str = ""
    settings: Settings = SETTINGS
    gain: int | None = None
    saved: int | None = None

    @property
    def best(self) -> int:
        return self.gain if self.gain is not None else 12 if self.error is None else 6

    @property
    def last(self) -> int:
        """The last step that is saved when training stops with an error."""
        return self.saved if self.saved is not None else 7 if self.error is DataError else self.best


CASES: dict[str, Case] = {
    "NaN in a loss": Case(lambda injected: injected.loss(math.nan, ONCE), skips=1),
    "infinity in three losses": Case(lambda injected: injected.loss(math.inf, THRICE), skips=3),
    "NaN in all losses": Case(lambda injected: injected.loss(math.nan, EVER), 4, DivergedError, NAN),
    "NaN in a gradient": Case(lambda injected: injected.gradient(lambda g: g[0].fill_(math.nan), ONCE), skips=1),
    "infinite norm, clipped": Case(
        lambda injected: injected.gradient(lambda g: g[0].fill_(math.inf), EVER), 4, DivergedError, NORM
    ),
    "infinite norm, not clipped": Case(
        lambda injected: injected.gradient(lambda g: g[0].fill_(-math.inf), EVER),
        4,
        DivergedError,
        NORM,
        replace(SETTINGS, clip=0.0),
    ),
    "finite gradients of infinite norm": Case(
        lambda injected: injected.gradient(lambda g: g.fill_(3e38), THRICE), skips=3
    ),
    "NaN in a weight that no loss reads": Case(
        lambda injected: injected.at_update(ONCE, lambda trainer: spoil_row(trainer, math.nan)),
        error=DivergedError,
        text=FOUND.format(8),
    ),
    "infinity in a weight before a validation": Case(
        lambda injected: injected.at_update((9,), lambda trainer: spoil_row(trainer, math.inf)),
        error=DivergedError,
        text=FOUND.format(9),
        saved=8,
    ),
    "NaN in all weights between two saves": Case(
        lambda injected: injected.at_update((7,), lambda trainer: spoil_all(trainer, math.nan)), 4, DivergedError, NAN
    ),
    "NaN in the moving average": Case(
        lambda injected: injected.at_update(ONCE, spoil_average),
        error=DivergedError,
        text=FOUND.format(8),
        settings=replace(SETTINGS, moving_average=0.9),
    ),
    "infinity in a moment of the optimiser": Case(
        lambda injected: injected.at_update(ONCE, spoil_moment), error=DivergedError, text=FOUND.format(8)
    ),
    "learning rate 1e6": Case(
        lambda injected: None,
        4,
        DivergedError,
        rf"diverged: 4 updates in a row had to be left out \(step 2: loss .*, gradient norm nan{PLACE}\)",
        settings=replace(SETTINGS, learning_rate=1e6, clip=0.0),
        gain=0,
    ),
    "learning rate 1e38": Case(
        lambda injected: None,
        4,
        DivergedError,
        r"diverged: 4 updates in a row had to be left out \(step 2: loss nan",
        settings=replace(SETTINGS, learning_rate=1e38, optimizer="sgd", warmup=0, clip=0.0),
        gain=0,
    ),
    "an empty batch": Case(lambda injected: injected.batch(no_rows, ONCE), skips=1),
    "padding and nothing else": Case(lambda injected: injected.batch(padding_only, THRICE), skips=3),
    "nothing but empty batches": Case(
        lambda injected: injected.batch(no_rows, EVER),
        4,
        DivergedError,
        rf"4 updates in a row had to be left out \(step 8: nothing to predict{PLACE}\)",
    ),
    "a label out of range": Case(
        lambda injected: injected.batch(foreign_label, ONCE),
        error=DataError,
        text=rf"step 8: there is an id in the data that the model has no place for \(.*\){PLACE}\. The prepared data",
    ),
    "an input out of range": Case(
        lambda injected: injected.batch(foreign_input, ONCE),
        error=DataError,
        text=rf"step 8: there is an id in the data that the model has no place for \(.*\){PLACE}\. The prepared data",
    ),
    "NaN in validations": Case(lambda injected: injected.verdict(BAD, loss=math.nan, value=math.nan), gain=6),
    "infinity in validations": Case(lambda injected: injected.verdict(BAD, loss=-math.inf, value=math.inf), gain=6),
    "a metric that is NaN": Case(
        lambda injected: injected.verdict(BAD, value=math.nan, metrics={"BLEU": math.nan}), gain=6
    ),
}


class Watcher:
    """Keeps the best weights as a run does, and remembers what was told."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.skipped: list[str] = []
        self.best: dict[int, str] = {}
        self.trainer: Trainer | None = None

    def __call__(self, event: Event) -> None:
        assert self.trainer is not None
        match event:
            case Skipped(reason=reason):
                self.skipped.append(reason)
            case Stepped(loss=loss, gradient_norm=norm):
                assert math.isfinite(loss)
                assert math.isfinite(norm)
            case Validated(gained=True, progress=progress):
                self.folder.write_weights(weights(self.trainer.system))
                self.best[progress.step] = hashlib.sha256(self.folder.weights.read_bytes()).hexdigest()


def trained(
    folder: Path, case: Case, inject: Callable[[Injected], None]
) -> tuple[Trainer, Watcher, RegardError | None]:
    """A training in which every validation is a gain, with an injection, until it ends or is stopped."""
    torch.manual_seed(1)
    run = RunFolder(folder / "run")
    run.path.mkdir(exist_ok=True)
    watcher = Watcher(run)
    made = Trainer(
        toy_system(dropout=0.1),
        StoreCorpus(toy_store(folder / "store"), toy_collation(), tokens=50, seed=5),
        settings=case.settings,
        validate=lambda _: Verdict(loss=1.0, value=made.progress.step, metrics={"BLEU": 1.0}),
        checkpoints=run.checkpoints,
        objective=Likelihood(),
        observers=[LogWriter(run.log), watcher],
    )
    made.estimate = lambda total: None  # type: ignore[method-assign]
    watcher.trainer = made
    inject(Injected(made))
    try:
        made.run()
    except RegardError as error:
        return made, watcher, error
    return made, watcher, None


def not_finite(folder: RunFolder) -> list[str]:
    """Where on the disk there is a number that is not finite."""
    all_tensors = {"weights": folder.read_weights()} if folder.weights.exists() else {}
    for step in folder.checkpoints.steps():
        checkpoint = folder.checkpoints.load(step)
        all_tensors[f"step {step}"] = {**checkpoint.model, **checkpoint.optimizer}
    return [
        f"{where}: {name}"
        for where, tensors in all_tensors.items()
        for name, tensor in tensors.items()
        if not tensor.isfinite().all()
    ]


def strict(line: str) -> Any:
    """JSON as other programs read it, without NaN."""
    return json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


@pytest.mark.parametrize("name", CASES)
def test_injection(name: str, tmp_path: Path, tally: Tally) -> None:
    case = CASES[name]
    made, watcher, error = trained(tmp_path, case, case.inject)
    run = watcher.folder
    assert not_finite(run) == []
    assert len(watcher.skipped) == case.skips
    assert all(re.match(rf"step [28]: .*{PLACE}$", reason) for reason in watcher.skipped)
    best = max(watcher.best, default=0)
    assert best == case.best
    assert not best or hashlib.sha256(run.weights.read_bytes()).hexdigest() == watcher.best[best]
    assert all(strict(line) for line in run.log.read_text(encoding="utf-8").splitlines())
    if case.error is None:
        assert error is None
        assert made.progress.step == 12
    else:
        assert isinstance(error, case.error)
        assert error.exit_code == (6 if case.error is DivergedError else 4)
        assert re.search(case.text, str(error))
        latest, damages = run.checkpoints.latest()
        assert damages == []
        assert (latest.step if latest else 0) == case.last
        mended = replace(case, settings=replace(case.settings, learning_rate=0.01))
        again, _, error = trained(tmp_path, mended, lambda injected: None)
        assert (error, again.progress.step) == (None, 12)
        assert not_finite(run) == []
    tally("N1", injections=1)


def test_there_are_as_many_as_planned() -> None:
    assert len(CASES) >= 16
