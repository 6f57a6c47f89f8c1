"""How training is computed fastest here: the precision of products and the number of threads, tried on real batches.

A `Way` is tried by whole updates at a learning rate of 0. The trainer that tries is thrown away afterwards, the weights
are put back bit for bit, and so is the random state: a run whose way was measured learns what it would have learned had
the same way been written into its recipe. Ways take turns on the same batches: a slow second falls on all alike.

The trial may take `SHARE` of the time that the run will take, as its first updates tell. Half precision may be thirty
times as slow where a processor has no units for it, so that each way is approached by pieces of a batch that grow: a
piece that might not fit is not begun, and a way that is far behind is given up. Where there is no time for a fair
comparison, the rule decides: single precision, and all threads. A way that fails is left out, and told.

The first piece cannot be avoided: of a run that has time for a few updates only, it may be more than the share.
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
from regard.training.memory import first_rows
from regard.training.settings import Precision
from regard.training.weights import load_weights, weights

SHARE: Final = 0.01
GAIN: Final = 1.1
"""Another way must be so many times as fast as the rule's: less is noise."""

FEWEST, MOST = 2, 5
"""Rounds of a comparison."""

PIECES: Final = (64, 64, 8, 1)
"""A way comes to its first round by these parts of a batch. What is made only once falls on the first, which does not
count. A piece takes at most as much longer than the one before as it has more tokens."""

SLOWEST: Final = 32
"""A way that nothing is known of is thought to take at most so many times as long as the rule's."""

FAR: Final = 3.0
"""A way that takes more than so many times as long for a piece as the best is given up: less may be an accident."""

LEAST: Final = 1000
"""Steps of a run that is worth a trial: a way of twice the speed is then found within the share of the shorter run."""

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
    """A way, and what it was chosen by: tokens per second of each way that was compared, or why none was.

    `slow` are ways that were given up, with how many times as long a piece of a batch took; `failed` are those that
    raised something, with what they raised.
    """

    way: Way
    speeds: tuple[tuple[Way, float], ...] = ()
    seconds: float = 0.0
    step_seconds: float | None = None
    reason: str = ""
    slow: tuple[tuple[Way, float], ...] = ()
    failed: tuple[tuple[Way, str], ...] = ()

    @property
    def compared_threads(self) -> bool:
        """Whether its number of threads was compared with others."""
        tried = (*self.speeds, *self.slow)
        return any(way.threads != self.way.threads for way, _ in tried if way.precision == self.way.precision)

    def line(self) -> str:
        """The choice for people."""
        tried, measured = dict(self.speeds), f"measured in {self.seconds:.2g} s"
        slow = [f"{times:.2g} times as long {_unlike(way, self.way)}" for way, times in self.slow]
        behind = f"part of a batch took {' and '.join(slow)}"
        if self.way in tried and len(tried) > 1:
            others = (f"{speed:,.0f} {_unlike(way, self.way)}" for way, speed in self.speeds if way != self.way)
            compared = f"{tried[self.way]:,.0f} tokens/s against {' and '.join(others)}"
            found = f": {compared}; {f'{behind}; ' if slow else ''}{measured}"
        else:
            found = f": {behind}; {measured}" if slow else f", unmeasured: {self.reason}"
        return f"{self.way}{found}" + "".join(f"; {way} failed ({error})" for way, error in self.failed)


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
    if steps < LEAST:
        return Choice(way=rule, reason=f"about {steps:,.0f} steps are too few to try others ({LEAST:,})")
    most = math.inf if most_seconds is None else most_seconds
    with _untouched(trainer):
        return _Trials(trainer, rule, clock, steps=steps, most_seconds=most).chosen(precisions, threads)


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
        trainer.learner.forget()
        trainer.optimizer.state.clear()
        load_weights(system, before)
        torch.set_rng_state(random)
        torch.set_num_threads(threads)
        system.train(training)


class _Trials:
    """Updates of several ways, in turns, as long as there is time."""

    def __init__(
        self, trainer: Trainer, rule: Way, clock: Callable[[], float], *, steps: float, most_seconds: float
    ) -> None:
        self.trainer = trainer
        self.rule = rule
        self.clock = clock
        self.steps, self.most_seconds = steps, most_seconds
        self.began = clock()
        self.batches = trainer.dealt(Cursor(), trainer.parts)
        self.tokens: list[int] = []  # of the batches that were dealt
        self.pieces: list[Sequence[Batch]] = []
        self.pieced: dict[Way, list[float]] = {}  # seconds per token in pieces
        self.paces: dict[Way, list[float]] = {}  # in rounds
        self.pace = math.inf  # by which the run is thought to go on
        self.slow: list[Way] = []
        self.failed: dict[Way, str] = {}

    def chosen(self, precisions: Sequence[Precision], threads: Sequence[int]) -> Choice:
        rule, found = self.rule, self.rule
        self.trainer.learner.module.train()
        try:
            whole = self.next_batch()
            self.pieces = [self.piece(whole, count) for count in PIECES]
            if self.approached(rule, []):
                found = self.compared(found, [Way(one, rule.threads) for one in precisions])
                found = self.compared(found, [Way(found.precision, one) for one in threads])
        except (MemoryError, RuntimeError) as error:
            if not out_of_memory(error):
                raise
            return Choice(
                way=rule, reason="there is not enough memory to try others", failed=tuple(self.failed.items())
            )
        speeds = tuple((way, 1 / median(paces)) for way, paces in self.paces.items())
        compared = len(speeds) > 1
        reason = f"1 % of about {self.total:,.0f} s is too little to try others"
        reason = "there is nothing to compare it with" if self.failed else reason
        return Choice(
            way=found if compared else rule,
            speeds=speeds if compared else (),
            seconds=self.spent,
            step_seconds=mean(self.tokens) * median(self.paces[found]) if compared else None,
            reason="" if compared else reason,
            slow=tuple((way, self.times(way, found)) for way in self.slow),
            failed=tuple(self.failed.items()),
        )

    @property
    def spent(self) -> float:
        return self.clock() - self.began

    @property
    def total(self) -> float:
        """Seconds of the whole run."""
        return min(self.steps * mean(self.tokens) * self.pace, self.most_seconds)

    def fits(self, seconds: float) -> bool:
        """Whether there is time for something."""
        return self.spent + seconds <= SHARE * self.total

    def rounds(self, ways: Sequence[Way]) -> float:
        """Seconds of the fewest rounds of some ways."""
        return FEWEST * mean(self.tokens) * sum(self.pieced[way][-1] for way in ways)

    def compared(self, first: Way, others: Sequence[Way]) -> Way:
        """The fastest of some ways, as many as there is time for; `first` where no other is clearly faster.

        Where `first` fails, the rule's.
        """
        ways = [first]
        for way in others:
            if self.approached(way, ways) and self.fits(self.rounds([*ways, way])):
                ways.append(way)
        paces: dict[Way, list[float]] = {way: [] for way in ways}
        for number in range(MOST):
            if len(paces) < 2:
                break
            parts = self.next_batch()
            if not self.fits(_tokens(parts) * sum(self.pieced[way][-1] for way in paces)):
                break
            for way in tuple(paces):
                if (measured := self.tried(way, parts)) is None:
                    del paces[way]
                else:
                    paces[way].append(measured[1])
            if number + 1 >= FEWEST:
                self.pace = min([self.pace, *map(median, paces.values())])
        for way, found in paces.items():
            if len(found) >= FEWEST:
                self.paces.setdefault(way, []).extend(found)
        if first not in paces:
            return self.rule
        if first not in self.paces:
            return first
        best = min((way for way in paces if way in self.paces), key=lambda way: median(self.paces[way]))
        return best if median(self.paces[first]) > GAIN * median(self.paces[best]) else first

    def approached(self, way: Way, ways: Sequence[Way]) -> bool:
        """Whether a way can take part in the rounds of others, by pieces of which none is begun that might not fit."""
        sizes = [_tokens(piece) for piece in self.pieces]
        expected = 0.0
        if way != self.rule:  # what a piece takes however small it is, is not slower
            small, whole = self.pieced[self.rule][1], self.pieced[self.rule][-1]
            expected = sizes[0] * (small + max(SLOWEST, self.rule.threads / way.threads) * whole)
        found = self.pieced[way] = []
        for number, piece in enumerate(self.pieces):
            if not self.fits(expected + self.rounds(ways)) or (measured := self.tried(way, piece)) is None:
                return False
            found.append(measured[1])
            if way == self.rule:
                self.pace = measured[1]
            if number and ways and self.times(way, ways[0]) > FAR:
                self.slow.append(way)
                return False
            expected = measured[1] * sizes[min(number + 1, len(sizes) - 1)]
        return True

    def times(self, way: Way, other: Way) -> float:
        """How many times as long as another a way took for the last piece that it was tried on."""
        tried = self.pieced[way]
        return tried[-1] / self.pieced[other][len(tried) - 1]

    def piece(self, parts: Sequence[Batch], count: int) -> Sequence[Batch]:
        """About the count-th part of a batch, for as many lanes as there are; all of it for 1."""
        if count == 1:
            return parts
        return [first_rows(part, max(1, part.rows // count)) for part in parts[: self.trainer.lanes.count]]

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
        _, parts = next(self.batches)
        self.tokens.append(_tokens(parts))
        return parts

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


def _tokens(parts: Sequence[Batch]) -> int:
    return sum(part.tokens for part in parts)
