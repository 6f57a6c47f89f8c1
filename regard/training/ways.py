"""How training is computed fastest here: the precision of products and the number of threads, tried on real batches.

A `Way` is tried by whole updates at a learning rate of 0. The trainer that tries is thrown away afterwards, the weights
are put back bit for bit, and so is the random state: a run whose way was measured learns what it would have learned had
the same way been written into its recipe. Ways take turns on the same batches: a slow second falls on all alike.

The trial may take `SHARE` of the time that the run will take, as its first updates tell; where that is not enough for
a fair comparison, the rule decides: single precision, and all threads. A way that fails is left out, and told.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from statistics import mean, median
from textwrap import shorten
from typing import Final

import torch

from regard.data.batch import Batch
from regard.data.batches import Cursor
from regard.errors import out_of_memory
from regard.training.interrupt import Interrupted
from regard.training.loop import Trainer
from regard.training.settings import Precision
from regard.training.weights import load_weights, weights

SHARE: Final = 0.01
GAIN: Final = 1.1
"""Another way must be so many times as fast as the rule's: less is noise."""

FEWEST, MOST = 2, 5
"""Rounds of a comparison; each way has one update before them that does not count."""

LONGEST: Final = 100
"""So many letters of an error are told."""

SHORT: Final = {"float32": "fp32", "bfloat16": "bf16", "float64": "fp64"}


@dataclass(frozen=True, slots=True)
class Way:
    """How products are computed, and on how many threads."""

    precision: Precision
    threads: int

    def __str__(self) -> str:
        return f"{SHORT[self.precision]} on {self.threads} thread{'' if self.threads == 1 else 's'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A way, and what it was chosen by: tokens per second of each way that was tried, or why none was.

    `failed` are ways that were tried and raised something, with what they raised.
    """

    way: Way
    speeds: tuple[tuple[Way, float], ...] = ()
    seconds: float = 0.0
    step_seconds: float | None = None
    reason: str = ""
    failed: tuple[tuple[Way, str], ...] = ()

    @property
    def compared_threads(self) -> bool:
        """Whether its number of threads was compared with others."""
        return len({way.threads for way, _ in self.speeds if way.precision == self.way.precision}) > 1

    def line(self) -> str:
        """The choice for people."""
        tried = dict(self.speeds)
        if self.way not in tried or len(tried) < 2:
            return f"{self.way}, unmeasured: {self.reason}{self._failures()}"
        others = " and ".join(f"{speed:,.0f} {_unlike(way, self.way)}" for way, speed in self.speeds if way != self.way)
        measured = f"{tried[self.way]:,.0f} tokens/s against {others}; measured in {self.seconds:.2g} s"
        return f"{self.way}: {measured}{self._failures()}"

    def _failures(self) -> str:
        return "".join(f"; {way} failed ({error})" for way, error in self.failed)


def _unlike(way: Way, other: Way) -> str:
    """What sets a way apart from another."""
    threads = f"on {way.threads} thread{'' if way.threads == 1 else 's'}"
    if way.precision == other.precision:
        return threads
    return f"in {SHORT[way.precision]}" if way.threads == other.threads else f"in {SHORT[way.precision]} {threads}"


def fewer_threads(most: int) -> list[int]:
    """Numbers of threads that are worth a trial: half, a quarter, one."""
    return sorted({max(1, most // 2), max(1, most // 4), 1} - {most}, reverse=True)


def choose(
    trainer: Trainer,
    rule: Way,
    *,
    precisions: Sequence[Precision] = (),
    threads: Sequence[int] = (),
    steps: float,
    most_seconds: float | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Choice:
    """The fastest way to train for about `steps` updates: first among `precisions`, then among numbers of `threads`.

    `trainer` must not have begun, and is of no use afterwards. `rule` is taken where there is no time to try.
    """
    if not precisions and not threads:
        return Choice(way=rule, reason="there is nothing to choose from")
    least = (2 + FEWEST + 1 + FEWEST) / SHARE
    if steps < least:
        return Choice(way=rule, reason=f"about {steps:,.0f} steps are too few to try others ({least:,.0f})")
    with _untouched(trainer):
        return _Trials(trainer, rule, clock).chosen(precisions, threads, steps, most_seconds)


@contextmanager
def _untouched(trainer: Trainer) -> Iterator[None]:
    """Put weights, random state and threads back after a block."""
    system = trainer.system
    before, random, threads, training = (
        weights(system),
        torch.get_rng_state(),
        torch.get_num_threads(),
        system.training,
    )
    try:
        yield
    finally:
        trainer.optimizer.zero_grad(set_to_none=True)
        trainer.optimizer.state.clear()
        load_weights(system, before)
        torch.set_rng_state(random)
        torch.set_num_threads(threads)
        system.train(training)


class _Trials:
    """Updates of several ways, in turns."""

    def __init__(self, trainer: Trainer, rule: Way, clock: Callable[[], float]) -> None:
        self.trainer = trainer
        self.rule = rule
        self.clock = clock
        self.began = clock()
        self.batches = trainer.dealt(Cursor(), trainer.parts)
        self.paces: dict[Way, list[float]] = {}
        self.tokens: list[int] = []
        self.failed: dict[Way, str] = {}

    def chosen(
        self, precisions: Sequence[Precision], threads: Sequence[int], steps: float, most_seconds: float | None
    ) -> Choice:
        rule, found = self.rule, self.rule
        trainer = self.trainer
        trainer.learner.module.train()
        try:
            self.update(rule, self.next_batch())
            _, pace = self.update(rule, parts := self.next_batch())
            total = steps * pace * sum(part.tokens for part in parts)
            total = min(total, math.inf if most_seconds is None else most_seconds)
            until = SHARE * total
            found = self.compared(found, [Way(one, rule.threads) for one in precisions], pace, until)
            found = self.compared(found, [Way(found.precision, one) for one in threads], pace, until)
        except (MemoryError, RuntimeError) as error:
            if not out_of_memory(error):
                raise
            return Choice(way=rule, reason="there is not enough memory to try others", failed=self.failures)
        speeds = tuple((way, 1 / median(paces)) for way, paces in self.paces.items())
        if len(speeds) < 2:
            reason = f"1 % of about {total:,.0f} s is too little to try others"
            reason = "there is nothing to compare it with" if self.failed else reason
            return Choice(way=rule, reason=reason, seconds=self.spent, failed=self.failures)
        return Choice(
            way=found,
            speeds=speeds,
            seconds=self.spent,
            step_seconds=mean(self.tokens) * median(self.paces[found]),
            failed=self.failures,
        )

    @property
    def spent(self) -> float:
        return self.clock() - self.began

    @property
    def failures(self) -> tuple[tuple[Way, str], ...]:
        return tuple(self.failed.items())

    def compared(self, first: Way, others: Sequence[Way], pace: float, until: float) -> Way:
        """The fastest of some ways, as many as there is time for; `first` where no other is clearly faster.

        Where `first` fails, the rule's.
        """
        parts = self.next_batch()
        tokens = sum(part.tokens for part in parts)
        ways = [first]
        cost = pace * tokens * FEWEST
        for way in others:
            slower = max(1.0, self.rule.threads / way.threads)
            cost += slower * pace * tokens * (FEWEST + 1)
            if self.spent + cost <= until:
                ways.append(way)
        if len(ways) == 1:
            return first
        ways = [first, *(way for way in ways[1:] if self.tried(way, parts) is not None)]
        for number in range(MOST):
            began = self.spent
            parts = parts if number == 0 else self.next_batch()
            for way in tuple(ways):
                if (measured := self.tried(way, parts)) is None:
                    ways.remove(way)
                    continue
                self.tokens.append(measured[0])
                self.paces.setdefault(way, []).append(measured[1])
            if len(ways) < 2:
                break
            if number + 1 >= FEWEST and self.spent + (self.spent - began) > until:
                break
        if first not in ways:
            return self.rule
        best = min(ways, key=lambda way: median(self.paces[way]))
        return best if median(self.paces[first]) > GAIN * median(self.paces[best]) else first

    def tried(self, way: Way, parts: Sequence[Batch]) -> tuple[int, float] | None:
        """One update; None where it fails, unless the way is the rule's, by which the run would fail as well."""
        try:
            return self.update(way, parts)
        except Exception as error:
            if way == self.rule or isinstance(error, Interrupted) or out_of_memory(error):
                raise
            words = " ".join(str(error).split())
            self.failed[way] = f"{type(error).__name__}: {shorten(words, LONGEST)}" if words else type(error).__name__
            self.paces.pop(way, None)
            return None

    def next_batch(self) -> Sequence[Batch]:
        return next(self.batches)[1]

    def update(self, way: Way, parts: Sequence[Batch]) -> tuple[int, float]:
        """One update that changes no weight: its tokens, and seconds for each of them."""
        trainer = self.trainer
        torch.set_num_threads(way.threads)
        trainer.settings = replace(trainer.settings, precision=way.precision)
        for group in trainer.optimizer.param_groups:
            group["lr"] = 0.0
        began = self.clock()
        count, _, _ = trainer.backward(parts, 1)
        trainer.learner.clip(trainer.settings.clip)
        trainer.optimizer.step()
        return count, (self.clock() - began) / max(1, count)
