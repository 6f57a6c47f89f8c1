"""What an engine is asked for, and what it answers."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from regard.engine.constraints import EngineConstraint


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRequest:
    """One sentence: the ids of its source (END included), how its output begins, and the most tokens it may have.

    Samples are drawn by its `number`, which is its place among the requests if it is left out. Every output satisfies
    the `constraint`, if there is one.
    """

    ids: Sequence[int]
    limit: int
    prefix: Sequence[int] = ()
    number: int | None = None
    constraint: "EngineConstraint | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineReading:
    """Which attention is told, as in `regard.insight.Reading`: of a layer, one head or the mean of all."""

    layer: int = -1
    head: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """Weights over the items of a source, END included, of the steps that write the tokens of an output and its end."""

    items: int
    values: "array[float]"
    """Step by step."""

    @property
    def steps(self) -> "list[array[float]]":
        """Weights of each step."""
        return [self.values[start : start + self.items] for start in range(0, len(self.values), self.items)]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """What of `regard.search.SearchOptions` the engine knows; the same names mean the same.

    With `attention` outputs come with it, a step for each token log-probability; it is made in another pass over
    outputs when all are found.
    """

    beam: int = 5
    best: int = 1
    length_penalty: float = 1.0
    length_formula: Literal["plain", "gnmt"] = "plain"
    min_length: int = 1
    block_ngrams: int = 0
    unknown: bool = False
    stopping: Literal["exact", "early"] = "exact"
    coverage_penalty: float = 0.0
    sample: bool = False
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    typical: float | None = None
    seed: int = 0
    attention: EngineReading | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One output, as `regard.search.Hypothesis` has it. `coverage` is what a penalty of it adds to the score."""

    tokens: tuple[int, ...]
    log_probability: float
    score: float
    token_log_probabilities: tuple[float, ...]
    complete: bool
    coverage: float = 0.0
    attention: Attention | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What was found for a request, best first or drawn, or why it was not searched."""

    found: tuple[Found, ...] = ()
    fault: str = ""
