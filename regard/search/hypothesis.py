"""What search finds."""

from dataclasses import dataclass
from typing import Protocol

from regard.search.trace import Trace


@dataclass(frozen=True, slots=True)
class Parts:
    """What a score is made of: likelihood + fusion + coverage, or the perturbed one of a stochastic beam.

    `fusion` is what a language model adds, divided by the length as the likelihood is.
    """

    likelihood: float
    coverage: float = 0.0
    fusion: float = 0.0
    perturbed: float | None = None

    def told(self) -> dict[str, float]:
        """The parts by their names, where there are several."""
        further = {"coverage": self.coverage, "fusion": self.fusion, "perturbed": self.perturbed}
        used = {name: value for name, value in further.items() if value}
        return {"likelihood": self.likelihood, **used} if used else {}


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """An output in tokens, without start and end.

    `log_probability` is the model's own, raw, the end token included; `score` is what hypotheses are ranked by.
    `complete` is False where the limit of length cut the output off before its end.
    """

    tokens: tuple[int, ...]
    log_probability: float
    score: float
    token_log_probabilities: tuple[float, ...]
    complete: bool
    parts: Parts


@dataclass(frozen=True, slots=True)
class Finished:
    """A request that is done: its best hypotheses, best first, or its samples in the order of their numbers.

    There are fewer of the best than asked for where fewer outputs ended within the limit, and outputs that were cut off
    are listed only if none ended. Samples are all there, cut off or not. Nothing at all is found only where the scorer
    or the constraint permitted nothing: `reason` says so then. Under a constraint every hypothesis satisfies it, and
    samples that came to a dead end are left out.
    """

    id: int
    hypotheses: tuple[Hypothesis, ...]
    reason: str = ""
    trace: Trace | None = None


class Outcome(Protocol):
    """What one request has found so far."""

    def add(self, hypothesis: Hypothesis, sample: int) -> None:
        """A row came to its end; `sample` is the number it was started with."""
        ...

    def is_open(self, log_probability: float, length: int) -> bool:
        """Whether running rows of so many tokens, the best of which has this log-probability, can still change it, or
        are likely to (`SearchOptions.stopping`)."""
        ...

    @property
    def takes_cut(self) -> bool:
        """Whether rows that the limit cuts off belong to it."""
        ...

    def hypotheses(self) -> tuple[Hypothesis, ...]: ...
