"""How one sentence is searched: one frozen value per request."""

import math
from dataclasses import dataclass
from typing import TypedDict

from regard.errors import UsageError

SAMPLING = {"temperature": 1.0, "top_k": None, "top_p": None, "min_p": None, "typical": None, "seed": 0}
"""The settings that are for samples only, as they are where nothing is asked for."""


class Sampling(TypedDict, total=False):
    """The settings of `SearchOptions` that are about samples, for functions that hand them on."""

    sample: bool
    temperature: float
    top_k: int | None
    top_p: float | None
    min_p: float | None
    typical: float | None
    seed: int


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """Beam 1 is greedy search. Lengths count tokens, the end included.

    With `sample` there is no search for the best: `best` outputs are drawn independently and stand in the order of
    their numbers; `beam` and `length_penalty` are not used, the score of a sample is its log-probability. The
    distribution is taken to the power 1 / `temperature`, then cut down, in this order, to the `top_k` most probable
    tokens (Fan et al. 2018), to the smallest set of most probable tokens with a mass of `top_p` (Holtzman et al. 2020),
    to tokens at least `min_p` times as probable as the most probable one (Nguyen et al. 2024), and to the smallest set
    with a mass of `typical` whose surprise is closest to the entropy (Meister et al. 2023).
    """

    beam: int = 5
    length_penalty: float = 1.0
    max_length: int = 256
    max_ratio: float | None = 3.0
    best: int = 1
    unknown: bool = False
    sample: bool = False
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    typical: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.beam < 1:
            raise UsageError(f"beam must be at least 1, not {self.beam}; 1 is greedy search")
        if not self.sample and not 1 <= self.best <= self.beam:
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
        self._check_sampling()

    def _check_sampling(self) -> None:
        if not self.sample:
            idle = [name for name, usual in SAMPLING.items() if getattr(self, name) != usual]
            if idle:
                raise UsageError(f"{', '.join(idle)} can only have an effect on samples; ask for sample as well")
            return
        if self.best < 1:
            raise UsageError(f"best is the number of samples and must be at least 1, not {self.best}")
        if not 0 < self.temperature < math.inf:
            raise UsageError(
                f"temperature must be a number above 0, not {self.temperature}; for the most probable token at each "
                f"step, which is what a temperature near 0 gives, search with a beam of 1"
            )
        if self.top_k is not None and self.top_k < 1:
            raise UsageError(f"top_k must be at least 1, or None for all tokens, not {self.top_k}")
        for name in ("top_p", "min_p", "typical"):
            share = getattr(self, name)
            if share is not None and not 0 < share <= 1:
                raise UsageError(f"{name} must be above 0 and at most 1, or None for all tokens, not {share}")
        if not 0 <= self.seed < 1 << 64:
            raise UsageError(f"seed must be a number from 0 to 2^64 - 1, not {self.seed}")

    def limit(self, source_items: int) -> int:
        """The most tokens an output may have for a source of so many items."""
        if self.max_ratio is None:
            return self.max_length
        return min(self.max_length, 10 + int(self.max_ratio * source_items))

    def score(self, log_probability: float, length: int) -> float:
        """What a hypothesis of this length is ranked by."""
        return log_probability if self.sample else normalised(log_probability, length, self.length_penalty)


def normalised(log_probability: float, length: int, penalty: float) -> float:
    """The score hypotheses are ranked by: log p(y | x) / |y|^α."""
    return log_probability / length**penalty if penalty else log_probability
