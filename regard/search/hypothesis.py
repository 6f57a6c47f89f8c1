"""What search finds."""

from dataclasses import dataclass


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
    """A request that is done: its best hypotheses, best first.

    There are fewer than asked for where fewer outputs ended within the limit, and none only where the scorer permitted
    nothing at all. Outputs that were cut off are listed only if none ended.
    """

    id: int
    hypotheses: tuple[Hypothesis, ...]
