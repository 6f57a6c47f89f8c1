"""Several systems against the first, by every metric, with two tests of significance.

The paired bootstrap asks whether the difference would hold on other segments like these, approximate randomisation
whether it could be chance which system wrote which output. Where they disagree the difference is not to be relied on.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.errors import DataError, UsageError
from regard.metrics.comparison import Difference, compare
from regard.metrics.metric import Metric
from regard.metrics.randomisation import randomised_p_value


@dataclass(frozen=True, slots=True)
class Outputs:
    """What a system wrote, an output for each segment."""

    name: str
    texts: Sequence[str]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A system against the first by one metric; `randomised` is the p-value of approximate randomisation."""

    system: str
    difference: Difference
    randomised: float
    trials: int
    seed: int

    @property
    def signature(self) -> str:
        """That of the metric and of both tests."""
        return f"{self.difference.signature}|ar:{self.trials}|ar_seed:{self.seed}"

    @property
    def verdict(self) -> str:
        """`better` or `worse` where both tests say so at 5 %, else `open`."""
        if max(self.difference.p_value, self.randomised) >= 0.05:
            return "open"
        return "better" if (self.difference.value > 0) == self.difference.higher_is_better else "worse"

    def to_json(self) -> dict[str, object]:
        return {
            **self.difference.to_json(),
            "randomised_p_value": self.randomised,
            "verdict": self.verdict,
            "signature": self.signature,
        }


def compare_with_first(
    metric: Metric,
    systems: Sequence[Outputs],
    references: Sequence[Sequence[str]],
    *,
    resamples: int = 1000,
    trials: int = 1000,
    seed: int = 12345,
    level: float = 0.95,
) -> list[Comparison]:
    """Each system but the first against the first."""
    if len(systems) < 2:
        raise UsageError(f"{len(systems)} system was given: a comparison needs 2 or more")
    for system in systems:
        if len(system.texts) != len(references):
            raise DataError(
                f"{system.name} has {len(system.texts):,} outputs, and there are {len(references):,} references: there "
                "must be one output for each segment, in the same order"
            )
    first = systems[0].texts
    return [
        Comparison(
            system=other.name,
            difference=compare(metric, first, other.texts, references, resamples=resamples, seed=seed, level=level),
            randomised=randomised_p_value(metric, first, other.texts, references, trials=trials, seed=seed),
            trials=trials,
            seed=seed,
        )
        for other in systems[1:]
    ]
