"""Whether one system is really better than another, or the items that were drawn made it look so."""

import math
from collections.abc import Sequence

import numpy as np

from regard.human.agreement import ranks
from regard.metrics.resampling import resampled_totals


def rank_sum(first: Sequence[float], second: Sequence[float]) -> float:
    """Two-sided p of Wilcoxon's rank-sum test, as WMT compares direct assessments.

    The normal approximation with corrections for ties and for continuity; 1 where one side is empty or all are equal.
    """
    m, n = len(first), len(second)
    if not m or not n:
        return 1.0
    shared = ranks([*first, *second])
    total = m + n
    ties = np.unique(shared, return_counts=True)[1].astype(np.float64)
    spread = m * n / 12 * (total + 1 - float((ties**3 - ties).sum()) / (total * (total - 1)))
    if spread <= 1e-12:
        return 1.0
    statistic = float(shared[:m].sum()) - m * (m + 1) / 2
    distance = max(0.0, abs(statistic - m * n / 2) - 0.5)
    return min(1.0, math.erfc(distance / math.sqrt(2 * spread)))


def sign_test(wins: int, losses: int) -> float:
    """Two-sided p of the exact sign test: how often a fair coin gives a result at least as lopsided."""
    count = wins + losses
    tail = sum(math.comb(count, k) for k in range(min(wins, losses) + 1))
    return min(1.0, float(2 * tail / 2**count))


def paired_bootstrap(differences: Sequence[float], *, resamples: int, seed: int) -> float:
    """Two-sided p of the paired bootstrap over items (Koehn 2004): how often the sign of the mean turns."""
    if not differences:
        return 1.0
    means = resampled_totals(np.array(differences, dtype=np.float64)[:, None], resamples=resamples, seed=seed)[:, 0]
    side = min(int((means <= 0).sum()), int((means >= 0).sum()))
    return min(1.0, 2 * (side + 1) / (resamples + 1))
