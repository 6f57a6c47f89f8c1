"""How one sentence is searched: one frozen value per request."""

import math
from dataclasses import dataclass

from regard.errors import UsageError


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """Beam 1 is greedy search. Lengths count tokens, the end included."""

    beam: int = 5
    length_penalty: float = 1.0
    max_length: int = 256
    max_ratio: float | None = 3.0
    best: int = 1
    unknown: bool = False

    def __post_init__(self) -> None:
        if self.beam < 1:
            raise UsageError(f"beam must be at least 1, not {self.beam}; 1 is greedy search")
        if not 1 <= self.best <= self.beam:
            raise UsageError(
                f"{self.best} best hypotheses cannot come out of a beam of {self.beam}; ask for 1 to {self.beam}, or "
                f"widen the beam"
            )
        if not 0 <= self.length_penalty < math.inf:
            raise UsageError(f"length_penalty must be a number from 0 on, not {self.length_penalty}; 0 is none")
        if self.max_length < 1:
            raise UsageError(f"max_length must be at least 1, not {self.max_length}; the end of an output is a token")
        if self.max_ratio is not None and not 0 < self.max_ratio < math.inf:
            raise UsageError(f"max_ratio must be a number above 0, or None for no such limit, not {self.max_ratio}")

    def limit(self, source_items: int) -> int:
        """The most tokens an output may have for a source of so many items."""
        if self.max_ratio is None:
            return self.max_length
        return min(self.max_length, 10 + int(self.max_ratio * source_items))


def normalised(log_probability: float, length: int, penalty: float) -> float:
    """The score hypotheses are ranked by: log p(y | x) / |y|^α."""
    return log_probability / length**penalty if penalty else log_probability
