"""The training loop, readable from top to bottom.

A step is one optimiser update on one global batch, which may be split into micro-batches. The loss of a step is the sum
over its tokens divided by their count, however it is split. Whatever happens between two steps (validation, saving, an
interruption) leaves the next step as it would have been: random numbers of an update follow from (seed, step, rank),
and all state is in weights, optimiser, moving average, `Progress` and, for the next line of the log, `Meter`.

Of several processes each runs this loop, on its part of each batch. All are at the same step with the same `Progress`,
for what decides how to go on is agreed on: sums, the time, a signal, a verdict. Only the main one judges and writes.
"""

import math
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import torch

from regard.data.batch import Batch
from regard.data.batches import Cursor
from regard.errors import DataError, DivergedError, ResourceError, out_of_bounds, out_of_memory
from regard.kernels.draws import seed_all, step_chances, step_seed
from regard.models import System
from regard.training.ahead import ahead
from regard.training.checkpoints import Checkpoints
from regard.training.contracts import Corpus, Outcome, Verdict
from regard.training.events import Ended, Event, Observer, Saved, Skipped, Started, Validated
from regard.training.finite import ADVICE, check_finite
from regard.training.garbage import set_aside
from regard.training.groups import groups
from regard.training.interrupt import Interrupted, heeding_signals
from regard.training.lanes import Lanes
from regard.training.limits import expected_steps, reason_to_end
from regard.training.meter import Meter
from regard.training.objective import Likelihood, Objective
from regard.training.optimizers import build_optimizer
from regard.training.parallel import Learned, build_learner
from regard.training.processes import Alone, Processes
from regard.training.progress import Progress
from regard.training.saving import restore, snapshot
from regard.training.settings import Settings, learning_rate
from regard.training.timeleft import trial_seconds
from regard.training.weights import MovingAverage

SKIPS_IN_A_ROW = 3
FINEST = 8
"""A batch that memory is too small for is split into at most so many times the micro-batches of the settings."""


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
        processes: Processes | None = None,
    ) -> None:
        self.processes = processes or Alone()
        self.system = system.double() if settings.precision == "float64" else system
        self.corpus = corpus
        self.settings = settings
        self.validate = validate
        self.checkpoints = checkpoints
        self.observers = observers
        learning = groups(system.named_parameters(), settings)
        system.requires_grad_(False)
        for parameter in (one for group in learning for one in group.parameters):
            parameter.requires_grad_(True)
        self.learner = build_learner(system, objective or Likelihood(), self.processes, settings.parallel)
        learns = self.learner.system
        self.optimizer = build_optimizer(groups(learns.named_parameters(), settings), settings)
        self.moving = None if settings.moving_average is None else MovingAverage(learns, settings.moving_average)
        self.lanes = Lanes(settings.lanes if self.processes.world == 1 else 1)
        self.progress = Progress()
        self.meter = Meter()
        self.saved_step: int | None = None
        self.step_seconds: float | None = None  # where it was measured before

    @property
    def parts(self) -> int:
        """Micro-batches of an update, unless memory is short."""
        return self.settings.accumulate * self.lanes.count

    def run(self) -> Outcome:
        """Go on from the latest checkpoint, or start, and train until a limit is reached."""
        with heeding_signals() as self.interrupt, self.processes.guarded():
            damages = self.resume()
            total = self.expected_steps()
            self.tell(Started(self.progress, total, self.estimate(total), tuple(damages)))
            with self.interrupt.held(), set_aside():
                reason = self.learn()
                self.tell(Ended(self.progress, reason))
                return Outcome(self.progress, reason)

    def learn(self) -> str:
        """Step after step, until there is a reason to end."""
        if self.progress.step:
            self.between_steps()
        with closing(self.batches()) as batches:
            reason = self.update_all(batches)
        if not self.progress.step:
            self.judge()
            self.save()
        return reason

    def update_all(self, batches: Iterator[tuple[Cursor, Sequence[Batch]]]) -> str:
        """Updates and what is due between them, until there is a reason to end."""
        while not (reason := self.reason_to_end()):
            began = time.perf_counter()
            cursor, parts = next(batches)
            if not self.system.training:  # each validation ends it; to tell all modules anew takes a while
                self.learner.module.train()
            self.update(parts, cursor)
            (elapsed,) = self.processes.largest(time.perf_counter() - began)
            self.meter.seconds += elapsed
            self.progress = replace(self.progress, seconds=self.progress.seconds + elapsed)
            if self.progress.step:
                self.between_steps()
            (signalled,) = self.processes.largest(self.interrupt.number or 0)
            if signalled:
                self.save()
                raise Interrupted(int(signalled), self.progress.step)
        return reason

    def batches(self) -> Generator[tuple[Cursor, Sequence[Batch]]]:
        """Batches from where training stands; one that memory was too small to make is tried a second time."""
        failed = False
        while True:
            try:
                with closing(ahead(self.dealt(self.progress.cursor, self.parts))) as made:
                    for one in made:
                        failed = False
                        yield one
            except (MemoryError, RuntimeError) as error:
                if not out_of_memory(error):
                    raise
                if failed:
                    raise self.no_memory("the next batch could not be made") from error
                failed = True

    def dealt(self, cursor: Cursor, parts: int) -> Iterator[tuple[Cursor, Sequence[Batch]]]:
        """Batches from a cursor on, as micro-batches of this process."""
        return self.corpus.from_(cursor, parts, rank=self.processes.rank, world=self.processes.world)

    def update(self, parts: Sequence[Batch], cursor: Cursor) -> None:
        """One optimiser update; left out, and counted, if its loss or gradient is not finite."""
        step = self.progress.step + 1
        rate = learning_rate(step, self.settings, self.progress)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["factor"]
        count, total, likelihood = self.gradient(parts, step, before := self.progress.cursor)
        norm = self.learner.clip(self.settings.clip)
        self.progress = self.progress.moved(cursor)
        if not (count and math.isfinite(total) and math.isfinite(norm)):
            found = f"loss {total / count:.4g}, gradient norm {norm:.4g}" if count else "nothing to predict"
            self.skip(f"step {step}: {found}; {self.corpus.where(before)}")
            return
        self.apply()
        if self.moving is not None:
            self.moving.update(step)
        self.progress = replace(self.progress, step=step, tokens=self.progress.tokens + count, skipped=0)
        clipped = bool(self.settings.clip) and norm > self.settings.clip
        self.meter.add(total=total, likelihood=likelihood, norm=norm, tokens=count, clipped=clipped)

    def gradient(self, parts: Sequence[Batch], step: int, at: Cursor) -> tuple[int, float, float]:
        """The gradient of the batch at a cursor: its tokens, loss and likelihood.

        Where memory is too small for it, the same batch is tried again in more micro-batches.
        """
        finer = 1
        while True:
            try:
                if finer > 1:
                    _, parts = next(self.dealt(at, self.parts * finer))
                return self.backward(parts, step)
            except (MemoryError, RuntimeError, IndexError) as error:
                if out_of_bounds(error):
                    raise self.unknown_id(step, at, error) from error
                if not out_of_memory(error):
                    raise
                self.learner.forget()
                if finer >= FINEST or self.processes.world > 1:
                    tokens, split = sum(part.tokens for part in parts), ", however it is split" if finer > 1 else ""
                    raise self.no_memory(f"a batch of {tokens:,} tokens does not fit{split}") from error
                finer *= 2

    def backward(self, parts: Sequence[Batch], step: int) -> tuple[int, float, float]:
        """One pass over all micro-batches, with the random numbers of this step."""
        world, lanes = self.processes.world, self.lanes.count
        seed_all(step_seed(self.settings.seed, step, self.processes.rank))
        chances = step_chances(self.settings.seed, step, lanes)
        self.learner.forget()
        (count,) = self.processes.sums(sum(part.tokens for part in parts))
        if not count:
            return 0, 0.0, 0.0
        total = likelihood = 0.0
        for start in range(0, len(parts), lanes):
            with self.learner.collecting(last=start + lanes >= len(parts)):
                lessons = [partial(self.learned, part, step) for part in parts[start : start + lanes]]
                for lost in self.lanes.learn(self.learner.learning, lessons, chances, world / count):
                    total += lost.sum
                    likelihood += lost.likelihood
        total, likelihood = self.processes.sums(total, likelihood)
        return int(count), total, likelihood

    def learned(self, part: Batch, step: int) -> Learned:
        """The loss of a micro-batch. Nothing is asked of some, where there are fewer rows than processes."""
        with self.casting():
            learned = self.learner(part, step)
        return learned if part.tokens else Learned(*(one * 0.0 for one in learned))

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
        device, alone = next(self.system.parameters()).device.type, self.lanes.count == 1
        return torch.autocast(device, dtype=torch.bfloat16, cache_enabled=alone)  # what is cast belongs to one graph

    def no_memory(self, reason: str) -> ResourceError:
        """What ends a training whose memory is too small. No update was half done, so that its state can be saved.

        Not so by one process of several: the others are in the midst of an update.
        """
        if self.processes.world > 1:
            return ResourceError(
                f"there is not enough memory in process {self.processes.rank}: {reason}. Checkpoints, if there are "
                "any, are intact: go on with a higher training.accumulate, or with `training.parallel: fsdp`"
            )
        self.save()
        return ResourceError(
            f"there is not enough memory: {reason}. The state after step {self.progress.step:,} is saved; go on with a "
            "higher training.accumulate, or start anew with a smaller training.batch_tokens or data.max_length"
        )

    def unknown_id(self, step: int, at: Cursor, error: BaseException) -> DataError:
        """What ends a training whose data is not what it was prepared as. No update was half done.

        Of several processes one alone cannot save.
        """
        if self.processes.world == 1:
            self.save()
        return DataError(
            f"step {step:,}: there is an id in the data that the model has no place for ({error}); "
            f"{self.corpus.where(at)}. The prepared data is damaged: delete the folder of the cache "
            "(REGARD_CACHE, or regard in ~/.cache), then run the same command again"
        )

    def skip(self, reason: str) -> None:
        self.progress = replace(self.progress, skipped=self.progress.skipped + 1)
        self.tell(Skipped(self.progress, reason))
        if self.progress.skipped > SKIPS_IN_A_ROW:
            raise DivergedError(
                f"training diverged: {self.progress.skipped} updates in a row had to be left out ({reason}). {ADVICE}"
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
            with self.learner.shown(self.system, None if self.moving is None else self.moving.values):
                verdict, signalled = self.verdict()
                if verdict is not None:
                    (seconds,) = self.processes.largest(time.perf_counter() - began)
                    self.judged(verdict, seconds)
        except (MemoryError, RuntimeError) as error:
            if not out_of_memory(error):
                raise
            raise self.no_memory("a validation does not fit") from error
        if verdict is None:
            self.save()
            raise Interrupted(signalled, self.progress.step)

    def verdict(self) -> tuple[Verdict | None, int]:
        """What the main process finds while the others wait; none, and a signal, where one came in between."""
        found: dict[str, Any] = {}
        if self.processes.main:
            check_finite(self.system.named_parameters(), self.progress.step)
            try:
                with self.interrupt.let_through(), self.processes.working_alone():
                    found = {"verdict": asdict(self.validate(self.system))}
            except Interrupted as interrupted:
                found = {"signal": interrupted.number}
        found = self.processes.told_by_main(found)
        return Verdict(**found["verdict"]) if "verdict" in found else None, found.get("signal", 0)

    def judged(self, verdict: Verdict, seconds: float) -> None:
        """Remember a verdict, and tell it while the system has the weights that were judged."""
        before = self.progress.best_step
        self.progress = replace(self.progress, seconds=self.progress.seconds + seconds).judged(
            verdict.value, average=self.settings.average, fall_after=self.settings.validations_to_fall
        )
        gained = self.progress.best_step != before
        self.tell(Validated(self.progress, verdict.loss, verdict.metrics, gained))

    def reason_to_end(self) -> str:
        """Why training is over, or nothing."""
        return reason_to_end(self.settings, self.progress)

    def expected_steps(self) -> int | None:
        """About how many steps there will be at most, if that is known."""
        return expected_steps(self.settings, self.corpus.batches_in_epoch())

    def estimate(self, total: int | None) -> float | None:
        """Seconds to the end, from a few trial passes that leave no trace."""
        left = None if self.settings.minutes is None else 60 * self.settings.minutes - self.progress.seconds
        if self.reason_to_end():
            return 0.0
        if total is None:
            return left
        each = self.step_seconds or trial_seconds(self)
        by_steps = (total - self.progress.step) * each
        return by_steps if left is None else min(left, by_steps)

    def save(self) -> None:
        """Save, and delete what is needed neither to go on, nor as the best, nor for the average."""
        if self.progress.step == self.saved_step:
            return
        checkpoint = snapshot(self)
        if self.processes.main:
            self.checkpoints.save(checkpoint)
            self.checkpoints.keep({self.progress.step, self.progress.best_step, *self.progress.validated})
        self.processes.told_by_main({})  # nobody leaves before all is written
        self.saved_step = self.progress.step
        self.tell(Saved(self.progress))

    def resume(self) -> list[str]:
        """Take up the latest valid checkpoint, if there is one; returns what was found damaged.

        The main process looks and tidies up; the others take up the same step.
        """
        damages: list[str] = []
        if self.processes.main:
            damages = self.take_up_latest()
        told = self.processes.told_by_main({"saved": self.saved_step, "progress": self.progress.to_json()})
        if not self.processes.main and told["saved"] is not None:
            restore(self, self.checkpoints.load(told["saved"]))
            self.saved_step, self.progress = told["saved"], Progress.from_json(told["progress"])
        return damages

    def take_up_latest(self) -> list[str]:
        """Go on from the latest valid checkpoint.

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
        self.progress, self.saved_step = progress.without(lost), progress.step
        later = (step for step in self.checkpoints.steps() if step > progress.step)
        self.checkpoints.set_aside((*lost, *later))
        return [*damages, *lost.values()]

    def tell_means(self) -> None:
        self.tell(self.meter.stepped(self.progress, learning_rate(self.progress.step, self.settings, self.progress)))

    def tell(self, event: Event) -> None:
        for observer in self.observers:
            observer(event)
