"""Is one system better than another? Approximate randomisation (Noreen 1989; Riezler and Maxwell 2005).

If it made no difference which system wrote an output, the outputs of a segment could be swapped. Each trial swaps them
at every segment by the toss of a coin; the p-value is the share of trials whose scores differ at least as much as the
real ones do. Nothing is assumed about what other segments would be like, which the bootstrap does.
"""

from collections.abc import Sequence

import numpy as np

from regard.errors import DataError, UsageError
from regard.metrics.metric import Metric, check_segments

SEGMENTS_AT_ONCE = 4_000_000
"""Coins that are held in memory together."""

CLOSE = 1e-9
"""Differences as small as this, in parts of the scores, are due to the order in which numbers are added."""


def randomised_p_value(
    metric: Metric,
    first: Sequence[str],
    other: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    trials: int = 1000,
    seed: int = 12345,
) -> float:
    """(trials with |difference| ≥ the real one + 1) / (trials + 1)."""
    check_segments(first, references)
    check_segments(other, references)
    if trials < 1:
        raise UsageError(f"trials = {trials}: approximate randomisation needs at least 1")
    if len(references) < 2:
        raise DataError(f"{metric.name}: 1 segment cannot be swapped with others; a comparison needs 2 or more")
    left, right = (metric.statistics(outputs, references) for outputs in (first, other))
    totals = left.sum(axis=0), right.sum(axis=0)
    values = [metric.aggregate(total)[0] for total in totals]
    real = abs(values[1] - values[0])
    least = real - CLOSE * max(1.0, *map(abs, values))
    change = right - left  # (n, k): what a swap gives to the first and takes from the other
    generator = np.random.default_rng(seed)
    far = 0
    rows = max(1, SEGMENTS_AT_ONCE // len(references))
    for start in range(0, trials, rows):
        size = min(rows, trials - start)
        swapped = generator.integers(0, 2, size=(size, len(references))).astype(np.float64) @ change  # (b, k)
        for moved in swapped:
            pair = metric.aggregate(totals[0] + moved)[0], metric.aggregate(totals[1] - moved)[0]
            far += abs(pair[1] - pair[0]) >= least
    return (far + 1) / (trials + 1)
