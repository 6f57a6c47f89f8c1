"""N1: numbers that are not finite, and batches that cannot be learned from, at every place they can come from.

Whatever is injected, all that is on the disk is finite, the best weights are those of the last good validation, and a
training that stopped goes on without the injection.
"""

import hashlib
import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.data.corpus import StoreCorpus
from regard.errors import DataError, DivergedError, RegardError
from regard.run.folder import RunFolder
from regard.run.log import LogWriter
from regard.run.training import train
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
from tests.reliability.injections import (
    Injected,
    foreign_input,
    foreign_label,
    no_rows,
    padding_only,
    spoil_all,
    spoil_average,
    spoil_moment,
    spoil_row,
)
from tests.toys import toy_collation, toy_pairs, toy_recipe, toy_store, toy_system, write_tsv

SETTINGS = Settings(seed=3, steps=12, learning_rate=0.01, warmup=4, validate_every=3, save_every=2, log_every=2)
BAD = 8
"""The update that something is wrong with; step 6 is the last one before it that is judged and saved."""

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
    "learning rate 1e12": Case(
        lambda injected: None,
        4,
        DivergedError,
        rf"diverged: 4 updates in a row had to be left out \(step 2: loss .*, gradient norm nan{PLACE}\)",
        settings=replace(SETTINGS, learning_rate=1e12, clip=0.0),
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


@pytest.mark.parametrize("select", ["loss", "exact"])
def test_finite_weights_that_give_no_finite_loss(
    select: str, tmp_path: Path, tally: Tally, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The validation finds NaN before any update does, and nothing is searched with such weights."""
    real = Trainer.apply

    def apply(self: Trainer) -> None:
        real(self)
        if self.progress.step == 5:
            spoil_all(self, 1e30)

    monkeypatch.setattr(Trainer, "apply", apply)
    pairs = write_tsv(tmp_path / "pairs.tsv", toy_pairs(40))
    settings = ("training.validate_every=3", f"training.select={select}", "training.average=2")
    recipe = toy_recipe(tmp_path / "run", pairs, *settings)
    validated: list[Validated] = []
    with pytest.raises(DivergedError, match=r"4 updates in a row had to be left out \(step 7: loss (nan|inf)"):
        train(recipe, observers=[lambda event: validated.append(event) if isinstance(event, Validated) else None])
    assert [(math.isfinite(event.loss), event.gained) for event in validated] == [(True, True), (False, False)]
    folder = RunFolder(tmp_path / "run")
    assert not_finite(folder) == []
    best = folder.checkpoints.model(3)
    assert all(torch.equal(tensor, best[name]) for name, tensor in folder.read_weights().items())
    tally("N1", injections=1)


def test_there_are_as_many_as_planned() -> None:
    assert len(CASES) >= 16
