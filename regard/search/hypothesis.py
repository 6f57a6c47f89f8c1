"""What search finds."""

from dataclasses import dataclass
from typing import Protocol


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


@dataclass(frozen=True, slots=True)
class Finished:
    """A request that is done: its best hypotheses, best first, or its samples in the order of their numbers.

    There are fewer of the best than asked for where fewer outputs ended within the limit, and outputs that were cut off
    are listed only if none ended. Samples are all there, cut off or not. Nothing at all is found only where the scorer
    permitted nothing.
    """

    id: int
    hypotheses: tuple[Hypothesis, ...]


class Outcome(Protocol):
    """What one request has found so far."""

    def add(self, hypothesis: Hypothesis, sample: int) -> None:
        """A row came to its end; `sample` is the number it was started with."""
        ...

    def is_open(self, log_probability: float) -> bool:
        """Whether running rows, the best of which has this log-probability, can still change the outcome."""
        ...

    @property
    def takes_cut(self) -> bool:
        """Whether rows that the limit cuts off belong to it."""
        ...

    def hypotheses(self) -> tuple[Hypothesis, ...]: ...
