"""Bootstrap intervals over segment statistics (Koehn 2004).

A resample draws n segments of n with replacement. Its totals are counts @ statistics, where counts[b, i] says how often
resample b drew segment i, so a resample costs one row of a matrix product however the metric works. The draws are
those of sacrebleu for the same seed, so that its intervals are ours.

Shapes: n segments, k statistics per segment, B resamples.
"""

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from regard.errors import DataError, UsageError
from regard.metrics.score import Score

Statistics = npt.NDArray[np.float64]
Aggregate = Callable[[Statistics], tuple[float, Mapping[str, float]]]

CELLS_AT_ONCE = 4_000_000
"""Entries of the matrix of counts that are held in memory together."""


def resampled_totals(statistics: Statistics, *, resamples: int, seed: int) -> Statistics:
    """The totals of each resample, (B, k)."""
    n, k = statistics.shape
    generator = np.random.default_rng(seed)
    totals = np.empty((resamples, k))  # (B, k)
    rows = max(1, CELLS_AT_ONCE // n)
    for start in range(0, resamples, rows):
        size = min(rows, resamples - start)
        drawn = generator.integers(0, n, size=(size, n))  # (b, n)
        drawn += np.arange(size)[:, None] * n
        counts = np.bincount(drawn.ravel(), minlength=size * n).reshape(size, n)  # (b, n)
        totals[start : start + size] = counts.astype(np.float64) @ statistics
    return totals


def interval(values: npt.NDArray[np.float64], *, level: float) -> tuple[float, float]:
    """The percentile interval: as many values are cut off below as above."""
    ordered = np.sort(values)
    cut = int(len(ordered) * (1 - level) / 2 + 1e-9)
    return float(ordered[cut]), float(ordered[len(ordered) - cut - 1])


def summarise(
    statistics: Statistics,
    aggregate: Aggregate,
    *,
    name: str,
    signature: str,
    higher_is_better: bool,
    resamples: int = 1000,
    seed: int = 12345,
    level: float = 0.95,
    references: str | None = None,
) -> Score:
    """Sum the statistics, aggregate them, and bootstrap the interval.

    The signature is composed in sacrebleu's order: references, bootstrap, the metric's own part.
    """
    if resamples < 0:
        raise UsageError(f"resamples = {resamples}: must be 0 (no interval) or more")
    if seed < 0:
        raise UsageError(f"seed = {seed}: must be 0 or more")
    if not 0 < level < 1:
        raise UsageError(f"level = {level}: must lie between 0 and 1, such as 0.95")
    if not len(statistics):
        raise DataError(f"{name}: there are no segments to score")
    value, parts = aggregate(statistics.sum(axis=0))
    low = high = None
    fields = [f"nrefs:{references}"] if references else []
    if resamples and len(statistics) > 1:
        totals = resampled_totals(statistics, resamples=resamples, seed=seed)
        low, high = interval(np.array([aggregate(row)[0] for row in totals]), level=level)
        fields += [f"bs:{resamples}", f"seed:{seed}"]
    return Score(
        name=name,
        value=value,
        low=low,
        high=high,
        signature="|".join([*fields, signature]),
        parts=parts,
        count=len(statistics),
        higher_is_better=higher_is_better,
    )
