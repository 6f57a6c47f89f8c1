"""The training loop, readable from top to bottom.

A step is one optimiser update on one global batch, which may be split into micro-batches. The loss of a step is the sum
over its tokens divided by their count, however it is split. Whatever happens between two steps (validation, saving, an
interruption) leaves the next step as it would have been: random numbers of an update follow from (seed, step), and all
state is in weights, optimiser, moving average, `Progress` and, for the next line of the log, `Meter`.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch

from regard.data.batch import Batch
from regard.data.batches import Cursor
from regard.errors import DivergedError, ResourceError, out_of_memory
from regard.models import System
from regard.training.checkpoints import Checkpoints
from regard.training.events import Ended, Event, Observer, Saved, Skipped, Started, Validated
from regard.training.groups import groups
from regard.training.interrupt import Interrupted, heeding_signals
from regard.training.meter import Meter
from regard.training.objective import Likelihood, Objective
from regard.training.optimizers import build_optimizer
from regard.training.progress import Progress
from regard.training.saving import restore, snapshot
from regard.training.settings import Settings, learning_rate
from regard.training.weights import MovingAverage

SKIPS_IN_A_ROW = 3
FINEST = 8
"""A batch that memory is too small for is split into at most so many times the micro-batches of the settings."""


class Corpus(Protocol):
    """Training data in an order that is a pure function of (seed, epoch, position)."""

    def batches_in_epoch(self) -> int:
        """About how many batches an epoch has."""
        ...

    def from_(self, cursor: Cursor, parts: int) -> Iterator[tuple[Cursor, Sequence[Batch]]]:
        """Global batches from a cursor on, for ever, each as micro-batches, with the cursor after it."""
        ...


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a validation found. `value` is what checkpoints are compared by, larger is better."""

    loss: float
    value: float
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How training ended."""

    progress: Progress
    reason: str


class Trainer:
    """One system being trained into one folder of checkpoints."""

    def __init__(
        self,
        system: System,
        corpus: Corpus,
        *,
        settings: Settings,
        validate: Callable[[System], Verdict],
        checkpoints: Checkpoints,
        objective: Objective | None = None,
        observers: Sequence[Observer] = (),
    ) -> None:
        self.system = system.double() if settings.precision == "float64" else system
        self.corpus = corpus
        self.settings = settings
        self.validate = validate
        self.checkpoints = checkpoints
        self.objective = objective or Likelihood()
        self.observers = observers
        learning = groups(system.named_parameters(), settings)
        system.requires_grad_(False)
        for parameter in (one for group in learning for one in group.parameters):
            parameter.requires_grad_(True)
        self.optimizer = build_optimizer(learning, settings)
        self.moving = None if settings.moving_average is None else MovingAverage(system, settings.moving_average)
        self.progress = Progress()
        self.meter = Meter()

    def run(self) -> Outcome:
        """Go on from the latest checkpoint, or start, and train until a limit is reached."""
        with heeding_signals() as self.interrupt:
            damages = self.resume()
            total = self.expected_steps()
            self.tell(Started(self.progress, total, self.estimate(total), tuple(damages)))
            with self.interrupt.held():
                reason = self.learn()
                self.tell(Ended(self.progress, reason))
                return Outcome(self.progress, reason)

    def learn(self) -> str:
        """Step after step, until there is a reason to end."""
        if self.progress.step:
            self.between_steps()
        batches = self.batches()
        while not (reason := self.reason_to_end()):
            cursor, parts = next(batches)
            began = time.perf_counter()
            self.system.train()
            self.update(parts, cursor)
            self.meter.seconds += (elapsed := time.perf_counter() - began)
            self.progress = replace(self.progress, seconds=self.progress.seconds + elapsed)
            if self.progress.step:
                self.between_steps()
            if self.interrupt.number is not None:
                self.save()
                raise Interrupted(self.interrupt.number, self.progress.step)
        if not self.progress.step:
            self.judge()
            self.save()
        return reason

    def batches(self) -> Iterator[tuple[Cursor, Sequence[Batch]]]:
        """Batches from where training stands; one that memory was too small to make is tried a second time."""
        failed = False
        while True:
            try:
                for made in self.corpus.from_(self.progress.cursor, self.settings.accumulate):
                    failed = False
                    yield made
            except MemoryError as error:
                if failed:
                    raise self.no_memory("the next batch could not be made") from error
                failed = True

    def update(self, parts: Sequence[Batch], cursor: Cursor) -> None:
        """One optimiser update; left out, and counted, if its loss or gradient is not finite."""
        step = self.progress.step + 1
        rate = learning_rate(step, self.settings, self.progress)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["factor"]
        count, total, likelihood = self.gradient(parts, step)
        norm = float(torch.nn.utils.clip_grad_norm_(self.system.parameters(), self.settings.clip or math.inf))
        self.progress = self.progress.moved(cursor)
        if not (math.isfinite(total) and math.isfinite(norm)):
            self.skip(f"step {step}: loss {total / max(count, 1):.4g}, gradient norm {norm:.4g}")
            return
        self.apply()
        if self.moving is not None:
            self.moving.update(step)
        self.progress = replace(self.progress, step=step, tokens=self.progress.tokens + count, skipped=0)
        clipped = bool(self.settings.clip) and norm > self.settings.clip
        self.meter.add(total=total, likelihood=likelihood, norm=norm, tokens=count, clipped=clipped)

    def gradient(self, parts: Sequence[Batch], step: int) -> tuple[int, float, float]:
        """The gradient of a batch: its tokens, loss and likelihood.

        Where memory is too small for it, the same batch is tried again in more micro-batches.
        """
        finer = 1
        while True:
            try:
                return self.backward(parts, step)
            except (MemoryError, RuntimeError) as error:
                if not out_of_memory(error):
                    raise
                self.optimizer.zero_grad(set_to_none=True)
                if finer >= FINEST:
                    tokens = sum(part.tokens for part in parts)
                    raise self.no_memory(f"a batch of {tokens:,} tokens does not fit, however it is split") from error
                finer *= 2
                _, parts = next(iter(self.corpus.from_(self.progress.cursor, self.settings.accumulate * finer)))

    def backward(self, parts: Sequence[Batch], step: int) -> tuple[int, float, float]:
        """One pass over all micro-batches, with the random numbers of this step."""
        torch.manual_seed(step_seed(self.settings.seed, step))
        self.optimizer.zero_grad(set_to_none=True)
        count = sum(part.tokens for part in parts)
        total = likelihood = 0.0
        for part in parts:
            with self.casting():
                loss = self.objective(self.system, part, step=step)
            (loss.sum / count).backward()
            total += float(loss.sum.detach())
            likelihood += float(loss.parts["likelihood"])
        return count, total, likelihood

    def apply(self) -> None:
        """Let the optimiser change the weights."""
        try:
            self.optimizer.step()
        except (MemoryError, RuntimeError) as error:
            if not out_of_memory(error):
                raise
            raise ResourceError(
                f"there is not enough memory for the optimiser at step {self.progress.step + 1:,}. Checkpoints, if "
                "there are any, are intact: run the same command again to go on from the latest, or take a smaller "
                "model"
            ) from error

    def casting(self) -> AbstractContextManager[object]:
        """Products in half precision, where that is wanted."""
        if self.settings.precision != "bfloat16":
            return nullcontext()
        return torch.autocast(next(self.system.parameters()).device.type, dtype=torch.bfloat16)

    def no_memory(self, reason: str) -> ResourceError:
        """What ends a training whose memory is too small. No update was half done, so that its state can be saved."""
        self.save()
        return ResourceError(
            f"there is not enough memory: {reason}. The state after step {self.progress.step:,} is saved; go on with a "
            "higher training.accumulate, or start anew with a smaller training.batch_tokens or data.max_length"
        )

    def skip(self, reason: str) -> None:
        self.progress = replace(self.progress, skipped=self.progress.skipped + 1)
        self.tell(Skipped(self.progress, reason))
        if self.progress.skipped > SKIPS_IN_A_ROW:
            raise DivergedError(
                f"training diverged: {self.progress.skipped} updates in a row were not finite ({reason}). "
                "Checkpoints, if there are any, are intact: go on with a lower training.learning_rate, a longer "
                "training.warmup or a lower training.clip"
            )

    def between_steps(self) -> None:
        """Report, validate and save where they are due. The last step is judged before it is saved."""
        settings, progress = self.settings, self.progress
        over = bool(self.reason_to_end())
        if self.meter.steps and (over or progress.step % settings.log_every == 0):
            self.tell_means()
            self.meter = Meter()
        every = settings.validate_every
        due = over or (progress.step % every == 0 if every else progress.position == 0)
        if due and progress.judged_step != progress.step:
            self.judge()
        save = settings.save_every is not None and progress.step % settings.save_every == 0
        if due or save:
            self.save()

    def judge(self) -> None:
        """Validate the weights as they would be used. Who interrupts this finds it done when training goes on."""
        began = time.perf_counter()
        self.system.eval()
        try:
            with self.shown():
                with self.interrupt.let_through():
                    verdict = self.validate(self.system)
                self.judged(verdict, time.perf_counter() - began)
        except Interrupted as interrupted:
            self.save()
            raise Interrupted(interrupted.number, self.progress.step) from None

    def judged(self, verdict: Verdict, seconds: float) -> None:
        """Remember a verdict, and tell it while the system has the weights that were judged."""
        before = self.progress.best_step
        self.progress = replace(self.progress, seconds=self.progress.seconds + seconds).judged(
            verdict.value, average=self.settings.average, fall_after=self.settings.validations_to_fall
        )
        gained = self.progress.best_step != before
        self.tell(Validated(self.progress, verdict.loss, verdict.metrics, gained))

    def shown(self) -> AbstractContextManager[None]:
        """The system has the weights that are judged, saved as the model and used in the end."""
        return nullcontext() if self.moving is None else self.moving.shown()

    def reason_to_end(self) -> str:
        """Why training is over, or nothing."""
        settings, progress = self.settings, self.progress
        if settings.steps is not None and progress.step >= settings.steps:
            return f"{_counted(progress.step, 'step')} done"
        if settings.epochs is not None and progress.epoch >= settings.epochs:
            return f"{_counted(progress.epoch, 'epoch')} done"
        if settings.minutes is not None and progress.seconds >= 60 * settings.minutes:
            return f"{settings.minutes:g} minute{' is' if settings.minutes == 1 else 's are'} over"
        if settings.patience is not None and progress.without_gain >= settings.patience:
            return f"{_counted(progress.without_gain, 'validation')} without a gain"
        return ""

    def expected_steps(self) -> int | None:
        """About how many steps there will be at most, if that is known."""
        limits = [] if self.settings.steps is None else [self.settings.steps]
        if self.settings.epochs is not None:
            limits.append(self.settings.epochs * self.corpus.batches_in_epoch())
        return min(limits, default=None)

    def estimate(self, total: int | None) -> float | None:
        """Seconds to the end, from a few trial passes that leave no trace."""
        left = None if self.settings.minutes is None else 60 * self.settings.minutes - self.progress.seconds
        if self.reason_to_end():
            return 0.0
        if total is None:
            return left
        self.system.train()
        times: list[float] = []
        for _, parts in self.corpus.from_(Cursor(epoch=self.progress.epoch, position=0), self.settings.accumulate):
            began = time.perf_counter()
            self.gradient(parts, self.progress.step + 1)
            times.append(time.perf_counter() - began)
            if len(times) == 5:
                break
        self.optimizer.zero_grad(set_to_none=True)
        by_steps = (total - self.progress.step) * sorted(times[1:])[len(times) // 2 - 1]
        return by_steps if left is None else min(left, by_steps)

    def save(self) -> None:
        """Save, and delete what is needed neither to go on, nor as the best, nor for the average."""
        if self.progress.step in self.checkpoints.steps():
            return
        self.checkpoints.save(snapshot(self))
        self.checkpoints.keep({self.progress.step, self.progress.best_step, *self.progress.validated})
        self.tell(Saved(self.progress))

    def resume(self) -> list[str]:
        """Take up the latest valid checkpoint, if there is one; returns what was found damaged.

        Later ones are damaged, and are set aside, for their steps come again. So is the best one, or one that was to be
        averaged, if it is damaged.
        """
        self.checkpoints.clean()
        checkpoint, damages = self.checkpoints.latest()
        if checkpoint is None:
            self.checkpoints.set_aside(self.checkpoints.steps())
            return damages
        with self.checkpoints.fitting(checkpoint, self.system.named_parameters()):
            restore(self, checkpoint)
        progress = self.progress
        lost = {
            step: damage
            for step in sorted({progress.best_step, *progress.validated} - {0, progress.step})
            if (damage := self.checkpoints.damage(step))
        }
        self.progress = progress.without(lost)
        later = (step for step in self.checkpoints.steps() if step > progress.step)
        self.checkpoints.set_aside((*lost, *later))
        return [*damages, *lost.values()]

    def tell_means(self) -> None:
        self.tell(self.meter.stepped(self.progress, learning_rate(self.progress.step, self.settings, self.progress)))

    def tell(self, event: Event) -> None:
        for observer in self.observers:
            observer(event)


def step_seed(seed: int, step: int, rank: int = 0) -> int:
    """What torch's random state follows from in one update: the same whatever came before it."""
    return int(np.random.SeedSequence((seed, step, rank)).generate_state(1, np.uint64)[0])


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
