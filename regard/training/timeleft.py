"""How much time is left: the steps to come at the pace of those done, and the validations to come at theirs."""

import math
import time
from statistics import median
from typing import TYPE_CHECKING

from regard.data.batches import Cursor
from regard.training.events import Event, Started, Stepped, Validated
from regard.training.progress import Progress

if TYPE_CHECKING:
    from regard.training.loop import Trainer

TRIED = 5
"""Passes that are tried before a training, the first of which does not count."""


class TimeLeft:
    """Reads events; `seconds` is the time left, where an end is known.

    Steps and validations are measured apart, so that the time does not jump up after each validation. Patience may
    end a training sooner.
    """

    def __init__(self) -> None:
        self.start: Started | None = None
        self.now = Progress()
        self.validating = 0.0
        self.validations = 0

    def __call__(self, event: Event) -> None:
        match event:
            case Started():
                self.start, self.now = event, event.progress
                self.validating, self.validations = 0.0, 0
            case Stepped(progress=progress):
                self.now = progress
            case Validated(progress=progress, seconds=seconds):
                self.now = progress
                self.validating += seconds
                self.validations += 1
            case _:
                pass

    @property
    def seconds(self) -> float | None:
        start = self.start
        if start is None:
            return None
        limits = [] if start.most_seconds is None else [max(0.0, start.most_seconds - self.now.seconds)]
        done = self.now.step - start.progress.step
        if start.total_steps is not None and done > 0:
            ahead = max(0, start.total_steps - self.now.step)
            pace = max(0.0, self.now.seconds - start.progress.seconds - self.validating) / done
            limits.append(ahead * pace + self._validations(ahead))
        elif start.estimated_seconds is not None:
            limits.append(start.estimated_seconds)
        return min(limits, default=None)

    def _validations(self, steps: int) -> float:
        """Seconds of the validations in so many steps; the last step is validated, too."""
        assert self.start is not None
        each = self.validating / self.validations if self.validations else self.start.validation_seconds
        every = self.start.validate_every
        return 0.0 if not each or not every else math.ceil(steps / every) * each


def trial_seconds(trainer: "Trainer") -> float:
    """How long an update takes, from a few passes over the first batches of an epoch; no weight is changed."""
    trainer.learner.module.train()
    times: list[float] = []
    at = Cursor(epoch=trainer.progress.epoch, position=0)
    for after, parts in trainer.dealt(at, trainer.parts):
        began = time.perf_counter()
        trainer.gradient(parts, trainer.progress.step + 1, at)
        at = after
        times.append(time.perf_counter() - began)
        if len(times) == TRIED:
            break
    trainer.learner.forget()
    return median(times[1:])
