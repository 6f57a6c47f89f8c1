"""The training loop, readable from top to bottom.

A step is one optimiser update on one global batch, which may be split into micro-batches. The loss of a step is the sum
over its tokens divided by their count, however it is split. Whatever happens between two steps (validation, saving, an
interruption) leaves the next step as it would have been: all state is in weights, optimiser, torch's random state and
`Progress`.
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
from regard.training.events import Ended, Event, Observer, Saved, Skipped, Started, Stepped, Validated
from regard.training.interrupt import Interrupted, heeding_signals
from regard.training.progress import Progress
from regard.training.settings import Settings, learning_rate

SKIPS_IN_A_ROW = 3


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
        self.optimizer = torch.optim.AdamW(
            system.parameters(), lr=settings.learning_rate, betas=settings.betas, weight_decay=settings.weight_decay
        )
        self.progress = Progress()

    def run(self) -> Outcome:
        """Go on from the latest checkpoint, or start, and train until a limit is reached."""
        settings = self.settings
        torch.manual_seed(settings.seed)
        damages = self.resume()
        total = self.expected_steps()
        self.tell(Started(self.progress, total, self.estimate(total), tuple(damages)))
        meter = _Meter()
        with heeding_signals() as interrupt:
            for cursor, parts in self.corpus.from_(self.progress.cursor, settings.accumulate):
                if reason := self.reason_to_end():
                    break
                began = time.perf_counter()
                self.system.train()
                self.update(parts, cursor, meter)
                meter.seconds += (elapsed := time.perf_counter() - began)
                self.progress = replace(self.progress, seconds=self.progress.seconds + elapsed)
                if self.progress.step % settings.log_every == 0:
                    self.tell(meter.stepped(self.progress, learning_rate(self.progress.step, settings)))
                    meter = _Meter()
                self.between_steps()
                if interrupt.number is not None:
                    self.save()
                    raise Interrupted(interrupt.number, self.progress.step)
        if not self.progress.validated or self.progress.validated[-1] != self.progress.step:
            self.judge()
        if self.progress.step not in self.checkpoints.steps():
            self.save()
        self.tell(Ended(self.progress, reason))
        return Outcome(self.progress, reason)

    def update(self, parts: Sequence[Batch], cursor: Cursor, meter: "_Meter") -> None:
        """One optimiser update; left out, and counted, if its loss or gradient is not finite."""
        step = self.progress.step + 1
        rate = learning_rate(step, self.settings)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
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
        meter.add(total, likelihood, count, norm)

    def skip(self, reason: str) -> None:
        self.progress = replace(self.progress, skipped=self.progress.skipped + 1)
        self.tell(Skipped(self.progress, reason))
        if self.progress.skipped > SKIPS_IN_A_ROW:
            raise DivergedError(
                f"training diverged: {self.progress.skipped} updates in a row were not finite ({reason}). The last "
                "checkpoint is intact; lower training.learning_rate, raise training.warmup or lower training.clip"
            )

    def between_steps(self) -> None:
        """Validate and save where they are due."""
        settings, progress = self.settings, self.progress
        every = settings.validate_every
        due = progress.step % every == 0 if every else progress.position == 0
        if due:
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
            return f"{progress.step} steps done"
        if settings.epochs is not None and progress.epoch >= settings.epochs:
            return f"{progress.epoch} epochs done"
        if settings.minutes is not None and progress.seconds >= 60 * settings.minutes:
            return f"{settings.minutes:g} minutes are over"
        if settings.patience is not None and progress.without_gain >= settings.patience:
            return f"{progress.without_gain} validations without a gain"
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
                state={"progress": self.progress.to_json()},
            )
        )
        self.checkpoints.keep({self.progress.step, self.progress.best_step, *self.progress.validated})
        self.tell(Saved(self.progress))

    def resume(self) -> list[str]:
        """Take up the latest valid checkpoint, if there is one; returns what was found damaged."""
        self.checkpoints.clean()
        checkpoint, damages = self.checkpoints.latest()
        if checkpoint is not None:
            load_weights(self.system, checkpoint.model)
            for name, parameter in self.system.named_parameters():
                self.optimizer.state[parameter] = {
                    key: checkpoint.optimizer[f"{name}/{key}"] for key in ("step", "exp_avg", "exp_avg_sq")
                }
            torch.set_rng_state(checkpoint.optimizer["random"])
            self.progress = Progress.from_json(checkpoint.state["progress"])
        return damages

    def _moments(self) -> dict[str, Tensor]:
        return {
            f"{name}/{key}": self.optimizer.state[parameter][key]
            for name, parameter in self.system.named_parameters()
            for key in ("step", "exp_avg", "exp_avg_sq")
        }

    def tell(self, event: Event) -> None:
        for observer in self.observers:
            observer(event)


class _Meter:
    """Sums since the last report."""

    def __init__(self) -> None:
        self.total = self.likelihood = self.norm = self.seconds = 0.0
        self.tokens = self.steps = 0

    def add(self, total: float, likelihood: float, tokens: int, norm: float) -> None:
        self.total += total
        self.likelihood += likelihood
        self.tokens += tokens
        self.norm += norm
        self.steps += 1

    def stepped(self, progress: Progress, rate: float) -> Stepped:
        tokens = max(1, self.tokens)
        return Stepped(
            progress=progress,
            loss=self.total / tokens,
            likelihood=self.likelihood / tokens,
            learning_rate=rate,
            gradient_norm=self.norm / max(1, self.steps),
            tokens_per_second=self.tokens / max(self.seconds, 1e-9),
        )


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
    """Copy weights into a system that has the same names and shapes; `check_weights` says so in words before."""
    with torch.no_grad():
        for name, parameter in system.named_parameters():
            parameter.copy_(tensors[name])


def average(all_weights: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of several sets of weights, summed in double precision."""
    return {
        name: torch.stack([one[name].double() for one in all_weights]).mean(0).to(tensor.dtype)
        for name, tensor in all_weights[0].items()
    }
