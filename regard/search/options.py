"""How one sentence is searched: one frozen value per request."""

import math
from dataclasses import dataclass
from typing import Literal, TypedDict

from regard.errors import UsageError

SAMPLING = {"temperature": 1.0, "top_k": None, "top_p": None, "min_p": None, "typical": None, "seed": 0}
"""The settings that are for samples only, as they are where nothing is asked for."""


FORMULAS = ("plain", "gnmt")
STOPPING = ("exact", "early")


class Asking(TypedDict, total=False):
    """The settings of `SearchOptions` that a caller may ask for beside `beam` and `best`."""

    length_penalty: float
    length_formula: Literal["plain", "gnmt"]
    coverage_penalty: float
    min_length: int
    max_length: int
    max_ratio: float | None
    block_ngrams: int
    groups: int
    diversity: float
    stochastic: bool
    stopping: Literal["exact", "early"]
    trace: bool


class Sampling(Asking, total=False):
    """These, and the settings that are about samples, for functions that hand them on."""

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

    Without it, hypotheses are ranked by log p / lp + `coverage_penalty` · log-coverage, where lp = |y|^α or, as in GNMT
    (Wu et al. 2016, equation 14), ((5 + |y|) / 6)^α. An output has at least `min_length` tokens, and no n tokens twice
    in a row of `block_ngrams` = n. `groups` of a beam avoid, by `diversity` for each, the tokens that the groups before
    them take at the same step (Vijayakumar et al. 2018). `stochastic`: the beam is a sample without replacement (Kool
    et al. 2019); what it finds is ranked by perturbed log-probability. With `trace` the tree is told that was searched.

    When a search is over: with `stopping` = `exact` when no running hypothesis can enter the n best even if it goes on
    up to the longest length and says everything else for sure (`bound`), so that nothing is missed; with `early` when
    none would enter them if it ended at once for sure. Scores seldom rise while a hypothesis goes on, but they may:
    `early` is a guess, and what other systems begin with (`early_stopping=False` of Transformers is much the same).
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
    length_formula: Literal["plain", "gnmt"] = "plain"
    coverage_penalty: float = 0.0
    min_length: int = 1
    block_ngrams: int = 0
    groups: int = 1
    diversity: float = 0.0
    stochastic: bool = False
    stopping: Literal["exact", "early"] = "exact"
    trace: bool = False

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
        if not 1 <= self.min_length <= self.max_length:
            raise UsageError(
                f"min_length must lie between 1 and max_length ({self.max_length}), not be {self.min_length}; the end "
                f"of an output is a token"
            )
        if self.block_ngrams < 0:
            raise UsageError(f"block_ngrams must be 1 or more tokens, or 0 for none, not {self.block_ngrams}")
        if self.stopping not in STOPPING:
            raise UsageError(f"stopping must be one of {', '.join(STOPPING)}, not {self.stopping!r}")
        if self.stopping == "early" and (self.sample or self.stochastic):
            raise UsageError("early stopping has no effect on samples, which run to their own ends; leave it out")
        self._check_scores()
        self._check_groups()
        self._check_sampling()

    def _check_scores(self) -> None:
        if self.length_formula not in FORMULAS:
            raise UsageError(f"length_formula must be one of {', '.join(FORMULAS)}, not {self.length_formula!r}")
        if not 0 <= self.coverage_penalty < math.inf:
            raise UsageError(f"coverage_penalty must be a number from 0 on, not {self.coverage_penalty}; 0 is none")
        if self.coverage_penalty and (self.sample or self.stochastic):
            raise UsageError("coverage_penalty has no effect on samples, which are not ranked; leave it out")

    def _check_groups(self) -> None:
        if self.groups < 1 or self.beam % self.groups:
            raise UsageError(f"a beam of {self.beam} cannot be split evenly into {self.groups} groups")
        if not 0 <= self.diversity < math.inf:
            raise UsageError(f"diversity must be a number from 0 on, not {self.diversity}; 0 is none")
        if (self.groups > 1) is not (self.diversity > 0):
            raise UsageError(
                f"groups ({self.groups}) and diversity ({self.diversity}) have an effect only together: ask for 2 or "
                f"more groups and a diversity above 0, or for neither"
            )
        if self.groups > 1 and (self.sample or self.stochastic):
            raise UsageError("groups are of a beam that looks for the best; leave out sample and stochastic")
        if self.sample and self.stochastic:
            raise UsageError("sample draws with replacement and stochastic without; choose one")

    def _check_sampling(self) -> None:
        if not self.sample:
            used = ("temperature", "seed") if self.stochastic else ()
            idle = [name for name, usual in SAMPLING.items() if name not in used and getattr(self, name) != usual]
            if idle:
                raise UsageError(
                    f"{', '.join(idle)} can only have an effect on samples; ask for sample as well (--sample)"
                )
        if self.sample and self.best < 1:
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
        return max(self.min_length, min(self.max_length, 10 + int(self.max_ratio * source_items)))

    def score(self, log_probability: float, length: int, coverage: float = 0.0) -> float:
        """What a hypothesis of this length is ranked by, the raw log-probability of a sample; `coverage` ≤ 0."""
        if self.sample or self.stochastic:
            return log_probability
        divided = normalised(log_probability, length, self.length_penalty, self.length_formula)
        return divided + self.coverage_penalty * coverage if self.coverage_penalty else divided

    def bound(self, log_probability: float, limit: int) -> float:
        """No continuation of a hypothesis of this log-probability has a higher score.

        Let y be a hypothesis with log p(y) ≤ 0 and z a continuation of at most `limit` tokens. Every further token has
        a log-probability ≤ 0, so log p(z) ≤ log p(y) ≤ 0. Both |z|^α and ((5 + |z|) / 6)^α grow with |z| for α ≥ 0, so
        lp(z) ≤ lp(limit) and log p(z) / lp(z) ≤ log p(y) / lp(z) ≤ log p(y) / lp(limit). The log-coverage is a sum of
        log min(·, 1) ≤ 0 and its weight is ≥ 0, so it adds at most 0. Where a language model is fused, log p stands for
        log p + λ log p_LM: with λ ≥ 0 both are ≤ 0 and fall with every token. What is forbidden (constraints, minimum
        length, n-grams, diversity) only takes continuations away.
        """
        return self.score(log_probability, limit)


def normalised(log_probability: float, length: int, penalty: float, formula: str = "plain") -> float:
    """The score hypotheses are ranked by: log p(y | x) / |y|^α, or / ((5 + |y|) / 6)^α."""
    if not penalty:
        return log_probability
    return log_probability / (length if formula == "plain" else (5 + length) / 6) ** penalty
