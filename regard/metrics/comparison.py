"""Is one system better than another? The paired bootstrap (Koehn 2004, section 4).

Both systems answer the same segments, so both are judged on the same resamples: what a hard or an easy draw of segments
adds to one score it adds to the other, and the difference varies less than either score. The draws are those of
sacrebleu for the same seed. The p-value is not: sacrebleu's counts one side only, and calls equal outputs different.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.errors import DataError, UsageError
from regard.metrics.metric import Metric, check_segments
from regard.metrics.resampling import interval, resampled_totals


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What `other` scores above `first`, on the same segments.

    `low` and `high` bound the bootstrap interval of the difference. `p_value` is the share of resamples whose
    difference lies as far from the mean one as the real difference lies from 0: small where chance hardly gives it.
    """

    name: str
    first: float
    other: float
    low: float
    high: float
    p_value: float
    signature: str
    count: int
    higher_is_better: bool = True

    @property
    def value(self) -> float:
        return self.other - self.first

    def to_json(self) -> dict[str, object]:
        return {
            "first": self.first,
            "other": self.other,
            "difference": self.value,
            "low": self.low,
            "high": self.high,
            "p_value": self.p_value,
            "signature": self.signature,
            "count": self.count,
        }


def compare(
    metric: Metric,
    first: Sequence[str],
    other: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    resamples: int = 1000,
    seed: int = 12345,
    level: float = 0.95,
) -> Difference:
    """Score two systems on the same segments, with the interval of their difference."""
    check_segments(first, references)
    check_segments(other, references)
    if resamples < 1:
        raise UsageError(f"resamples = {resamples}: a comparison needs at least 1")
    if not 0 < level < 1:
        raise UsageError(f"level = {level}: must lie between 0 and 1, such as 0.95")
    if len(references) < 2:
        raise DataError(f"{metric.name}: 1 segment cannot be resampled; a comparison needs 2 or more")
    sides = [metric.statistics(outputs, references) for outputs in (first, other)]
    values = [metric.aggregate(statistics.sum(axis=0))[0] for statistics in sides]
    drawn = [  # (B,) each, of the same resamples
        np.array([metric.aggregate(row)[0] for row in resampled_totals(statistics, resamples=resamples, seed=seed)])
        for statistics in sides
    ]
    with np.errstate(invalid="ignore"):
        differences = drawn[1] - drawn[0]
    differences = differences[np.isfinite(differences)]  # a resample of empty references alone says nothing
    if not len(differences) or not all(map(math.isfinite, values)):
        raise DataError(
            f"{metric.name} is {values[0]} and {values[1]}: error rates of empty references have no end and cannot be "
            "compared. Give references that are not empty, or another metric"
        )
    low, high = interval(differences, level=level)
    far = np.abs(differences - differences.mean()) >= abs(values[1] - values[0])
    numbers = {len(texts) for texts in references}
    counted = str(numbers.pop()) if len(numbers) == 1 else "var"
    return Difference(
        name=metric.name,
        first=values[0],
        other=values[1],
        low=low,
        high=high,
        p_value=float((far.sum() + 1) / (len(differences) + 1)),
        signature=f"nrefs:{counted}|paired_bs:{resamples}|seed:{seed}|{metric.signature}",
        count=len(references),
        higher_is_better=metric.higher_is_better,
    )
