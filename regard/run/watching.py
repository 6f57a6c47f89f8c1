"""What stands between the training loop and those who listen: it adds what they want to know to what the loop tells."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

import torch

from regard.models import System
from regard.report import read_log
from regard.run.folder import RunFolder
from regard.run.live import LiveReport
from regard.run.log import LogWriter
from regard.run.model import Model
from regard.run.preparation import Prepared
from regard.run.tensorboard import TensorBoardWriter
from regard.run.validation import Judge
from regard.training import (
    Event,
    Health,
    LeftOut,
    Observer,
    Progress,
    Sampled,
    Settled,
    Started,
    StartedFrom,
    Stepped,
    Validated,
    Warned,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often a training validates (`validate_every` steps, about), and the minutes it may take."""

    validate_every: float
    minutes: float | None = None


class Watching:
    """An observer that hands events on: with the time of validations, what the model writes, and warnings.

    Before anything else is told, what was left out of the data is, and then what comes `first`. A run that goes on is
    judged by its whole log.
    """

    def __init__(
        self,
        listeners: Sequence[Observer],
        *,
        page: LiveReport,
        judge: Judge,
        system: System,
        health: Health,
        pace: Pace,
        log: Path,
        left_out: Sequence[str] = (),
    ) -> None:
        self.listeners = listeners
        self.page = page
        self.judge = judge
        self.system = system
        self.health = health
        self.pace = pace
        self.log = log
        self.left_out = tuple(left_out)
        self.first: Sequence[Settled | Warned] = ()

    def __enter__(self) -> "Watching":
        self.page.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.page.__exit__(kind, error, trace)

    def __call__(self, event: Event) -> None:
        match event:
            case Started(progress=progress):
                if self.left_out:
                    self.hand_on(LeftOut(progress, self.left_out))
                if progress.step:
                    self._remember(progress)
                for told in self.first:
                    self.hand_on(replace(told, progress=progress))
                self.hand_on(self._with_validations(event))
            case Validated(progress=progress):
                self.hand_on(replace(event, seconds=self.judge.seconds))
                if self.judge.samples:
                    self.hand_on(Sampled(progress, self.judge.samples, self.judge.sample_seconds))
            case _:
                self.hand_on(event)

    def hand_on(self, event: Event) -> None:
        """Tell everybody, and then what is to be warned of."""
        for listener in self.listeners:
            listener(event)
        for warning in self.health(event):
            for listener in self.listeners:
                listener(warning)

    def _with_validations(self, event: Started) -> Started:
        """With the time that validations will take, measured, where steps are left."""
        total, progress = event.total_steps, event.progress
        most = None if self.pace.minutes is None else 60 * self.pace.minutes
        event = replace(event, validate_every=self.pace.validate_every, most_seconds=most)
        if not event.estimated_seconds or total is None or progress.step >= total or _distributed():
            return event
        seconds = self.judge.expected_seconds(self.system)
        whole = event.estimated_seconds + seconds * -(-(total - progress.step) // self.pace.validate_every)
        if most is not None:
            whole = min(whole, most - progress.seconds)
        return replace(event, estimated_seconds=whole, validation_seconds=seconds)

    def _remember(self, progress: Progress) -> None:
        """Let health read the log up to here; what it would have told was told then."""
        if not self.log.exists():
            return
        for event in events_of(self.log, progress):
            self.health(event)


def watch(
    folder: RunFolder,
    model: Model,
    prepared: Prepared,
    judge: Judge,
    observers: Sequence[Observer],
    *,
    epoch: int,
) -> Watching:
    """Everything that is told about the training of a run: log, page, warnings, and whoever else listens.

    `epoch` is about how many steps an epoch has.
    """
    section = model.recipe.training
    steady = section.objective.sampling is None
    page = LiveReport(folder, model, prepared)
    board = [TensorBoardWriter(folder.path / "tensorboard")] if section.tensorboard else []
    return Watching(
        [LogWriter(folder.log), page, *board, *observers],
        page=page,
        judge=judge,
        system=model.system,
        health=Health(warmup=section.warmup, clip=section.clip, guessing=_guessing(model), steady=steady),
        pace=Pace(validate_every=section.validate_every or max(1, epoch), minutes=section.minutes),
        log=folder.log,
        left_out=prepared.ledger.summary().splitlines(),
    )


def _guessing(model: Model) -> float | None:
    """The loss of guessing any of the tokens; a number cannot be guessed so."""
    return None if model.numbers else math.log(model.texts.target.size)


def _distributed() -> bool:
    """Whether other processes would have to take part in trying the model."""
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def events_of(log: Path, until: Progress) -> list[Event]:
    """Steps and validations of a log, in their order, up to where training goes on."""
    history = read_log(log)
    first: list[Event] = []
    if history.started_from is not None:
        first = [StartedFrom(Progress(), str(history.started_from["run"]), ())]
    steps: list[Stepped | Validated] = [
        Stepped(
            Progress(step=point.step, seconds=point.seconds),
            point.loss,
            point.loss if point.likelihood is None else point.likelihood,
            point.learning_rate,
            point.gradient_norm or 0.0,
            point.tokens_per_second,
            clipped=point.clipped,
        )
        for point in history.training
        if point.step <= until.step
    ]
    steps += [
        Validated(Progress(step=point.step, seconds=point.seconds), point.loss, point.metrics, point.gained)
        for point in history.validation
        if point.step <= until.step
    ]
    return first + sorted(steps, key=lambda event: (event.progress.step, isinstance(event, Validated)))
