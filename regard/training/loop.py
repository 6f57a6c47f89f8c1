"""The training loop, readable from top to bottom.

A step is one optimiser update on one global batch, which may be split into micro-batches. The loss of a step is the sum
over its tokens divided by their count, however it is split. Whatever happens between two steps (validation, saving, an
interruption) leaves the next step as it would have been: all state is in weights, optimiser, torch's random state,
`Progress` and, for the next line of the log, `Meter`.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from regard.data.batch import Batch
from regard.data.batches import Cursor
from regard.errors import DivergedError
from regard.models import System
from regard.training.checkpoints import Checkpoint, Checkpoints
from regard.training.events import Ended, Event, Observer, Saved, Skipped, Started, Validated
from regard.training.groups import groups
from regard.training.interrupt import Interrupted, heeding_signals
from regard.training.meter import Meter
from regard.training.progress import Progress
from regard.training.settings import Settings, learning_rate

SKIPS_IN_A_ROW = 3
MOMENTS = ("step", "exp_avg", "exp_avg_sq")
"""What Adam keeps of each parameter."""


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
        observers: Sequence[Observer] = (),
    ) -> None:
        self.system = system
        self.corpus = corpus
        self.settings = settings
        self.validate = validate
        self.checkpoints = checkpoints
        self.observers = observers
        learning = groups(system.named_parameters(), settings)
        system.requires_grad_(False)
        for parameter in (one for group in learning for one in group.parameters):
            parameter.requires_grad_(True)
        self.optimizer = torch.optim.AdamW(
            [{"params": group.parameters, "factor": group.factor} for group in learning],
            lr=settings.learning_rate,
            betas=settings.betas,
            weight_decay=settings.weight_decay,
        )
        self.progress = Progress()
        self.meter = Meter()

    def run(self) -> Outcome:
        """Go on from the latest checkpoint, or start, and train until a limit is reached."""
        settings = self.settings
        torch.manual_seed(settings.seed)
        damages = self.resume()
        total = self.expected_steps()
        self.tell(Started(self.progress, total, self.estimate(total), tuple(damages)))
        with heeding_signals() as interrupt:
            for cursor, parts in self.corpus.from_(self.progress.cursor, settings.accumulate):
                if reason := self.reason_to_end():
                    break
                began = time.perf_counter()
                self.system.train()
                self.update(parts, cursor)
                self.meter.seconds += (elapsed := time.perf_counter() - began)
                self.progress = replace(self.progress, seconds=self.progress.seconds + elapsed)
                if self.progress.step:
                    self.between_steps()
                if interrupt.number is not None:
                    self.save()
                    raise Interrupted(interrupt.number, self.progress.step)
        if self.meter.steps:
            self.tell_means()
        if not self.progress.validated or self.progress.validated[-1] != self.progress.step:
            self.judge()
            self.save()
        self.tell(Ended(self.progress, reason))
        return Outcome(self.progress, reason)

    def update(self, parts: Sequence[Batch], cursor: Cursor) -> None:
        """One optimiser update; left out, and counted, if its loss or gradient is not finite."""
        step = self.progress.step + 1
        rate = learning_rate(step, self.settings)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["factor"]
        self.optimizer.zero_grad(set_to_none=True)
        count = sum(part.tokens for part in parts)
        total = likelihood = 0.0
        for part in parts:
            loss = self.system.loss(part, smoothing=self.settings.label_smoothing)
            (loss.sum / count).backward()
            total += float(loss.sum.detach())
            likelihood += float(loss.parts["likelihood"])
        norm = float(torch.nn.utils.clip_grad_norm_(self.system.parameters(), self.settings.clip or math.inf))
        self.progress = self.progress.moved(cursor)
        if not (math.isfinite(total) and math.isfinite(norm)):
            self.skip(f"step {step}: loss {total / count:.4g}, gradient norm {norm:.4g}")
            return
        self.optimizer.step()
        self.progress = replace(self.progress, step=step, tokens=self.progress.tokens + count, skipped=0)
        self.meter.add(total=total, likelihood=likelihood, norm=norm, tokens=count)

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
        if due and (not progress.validated or progress.validated[-1] != progress.step):
            self.judge()
        save = settings.save_every is not None and progress.step % settings.save_every == 0
        if due or save:
            self.save()

    def judge(self) -> None:
        began = time.perf_counter()
        self.system.eval()
        with keeping_random_state():
            verdict = self.validate(self.system)
        seconds = self.progress.seconds + time.perf_counter() - began
        before = self.progress.best_step
        self.progress = replace(self.progress, seconds=seconds).judged(verdict.value, average=self.settings.average)
        gained = self.progress.best_step != before
        self.tell(Validated(self.progress, verdict.loss, verdict.metrics, gained))

    def reason_to_end(self) -> str:
        """Why training is over, or nothing."""
        settings, progress = self.settings, self.progress
        if settings.steps is not None and progress.step >= settings.steps:
            return f"{_counted(progress.step, 'step')} done"
        if settings.epochs is not None and progress.epoch >= settings.epochs:
            return f"{_counted(progress.epoch, 'epoch')} done"
        if settings.minutes is not None and progress.seconds >= 60 * settings.minutes:
            return f"{settings.minutes:g} minutes are over"
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
        with keeping_random_state():
            for _, parts in self.corpus.from_(Cursor(epoch=self.progress.epoch, position=0), self.settings.accumulate):
                began = time.perf_counter()
                for part in parts:
                    loss = self.system.loss(part, smoothing=self.settings.label_smoothing)
                    (loss.sum / loss.count).backward()
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
        self.checkpoints.save(
            Checkpoint(
                step=self.progress.step,
                model=weights(self.system),
                optimizer={**self._moments(), "random": torch.get_rng_state()},
                state={"progress": self.progress.to_json(), "meter": self.meter.to_json()},
            )
        )
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
        load_weights(self.system, checkpoint.model)
        for name, parameter in self.system.named_parameters():
            if f"{name}/step" in checkpoint.optimizer:
                self.optimizer.state[parameter] = {key: checkpoint.optimizer[f"{name}/{key}"] for key in MOMENTS}
        torch.set_rng_state(checkpoint.optimizer["random"])
        self.meter = Meter.from_json(checkpoint.state["meter"])
        progress = Progress.from_json(checkpoint.state["progress"])
        lost = {
            step: damage
            for step in sorted({progress.best_step, *progress.validated} - {0, progress.step})
            if (damage := self.checkpoints.damage(step))
        }
        self.progress = progress.without(lost)
        later = (step for step in self.checkpoints.steps() if step > progress.step)
        self.checkpoints.set_aside((*lost, *later))
        return [*damages, *lost.values()]

    def _moments(self) -> dict[str, Tensor]:
        """The state of the optimiser by name; empty before the first update."""
        return {
            f"{name}/{key}": self.optimizer.state[parameter][key]
            for name, parameter in self.system.named_parameters()
            if parameter in self.optimizer.state
            for key in MOMENTS
        }

    def tell_means(self) -> None:
        self.tell(self.meter.stepped(self.progress, learning_rate(self.progress.step, self.settings)))

    def tell(self, event: Event) -> None:
        for observer in self.observers:
            observer(event)


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


class keeping_random_state:  # noqa: N801
    """What is drawn inside leaves the random state outside as it was."""

    def __enter__(self) -> None:
        self.state = torch.get_rng_state()

    def __exit__(self, *_: object) -> None:
        torch.set_rng_state(self.state)


def weights(system: System) -> dict[str, Tensor]:
    """Every parameter once, under its first name: tied weights are not repeated."""
    return {name: parameter.detach().clone() for name, parameter in system.named_parameters()}


def load_weights(system: System, tensors: Mapping[str, Tensor]) -> None:
    """Copy weights into a system that has the same names and shapes."""
    with torch.no_grad():
        for name, parameter in system.named_parameters():
            parameter.copy_(tensors[name])


def average(all_weights: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of several sets of weights, summed in double precision."""
    return {
        name: torch.stack([one[name].double() for one in all_weights]).mean(0).to(tensor.dtype)
        for name, tensor in all_weights[0].items()
    }
