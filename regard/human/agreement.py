"""How far people agree, beyond what chance would give.

All three are 1 for perfect agreement and 0 for what chance gives; where every answer is the same, chance alone would
agree, nothing can be said, and the value is not a number.
"""

import math
from collections.abc import Hashable, Sequence
from itertools import pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt

Level = Literal["nominal", "ordinal", "interval"]


def cohen_kappa(pairs: Sequence[tuple[Hashable, Hashable]]) -> float:
    """Cohen (1960): (p_o − p_e) / (1 − p_e), where p_e follows from how often each of the two gives each answer."""
    places = {label: place for place, label in enumerate(dict.fromkeys(label for pair in pairs for label in pair))}
    table = np.zeros((len(places), len(places)))
    for first, second in pairs:
        table[places[first], places[second]] += 1
    return _kappa(table, 1 - np.eye(len(places)))


def weighted_kappa(pairs: Sequence[tuple[int, int]], *, least: int, most: int) -> float:
    """Cohen (1968) with quadratic weights: 1 − Σ (i−j)² O / Σ (i−j)² E over a scale of whole numbers."""
    table = np.zeros((most - least + 1, most - least + 1))
    for first, second in pairs:
        table[first - least, second - least] += 1
    steps = np.arange(len(table), dtype=np.float64)
    return _kappa(table, (steps[:, None] - steps[None, :]) ** 2)


def _kappa(table: npt.NDArray[np.float64], weights: npt.NDArray[np.float64]) -> float:
    count = table.sum()
    if not count:
        return math.nan
    chance = np.outer(table.sum(axis=1), table.sum(axis=0)) / count
    expected = float((weights * chance).sum())
    return 1 - float((weights * table).sum()) / expected if expected else math.nan


def krippendorff_alpha(units: Sequence[Sequence[float]], *, level: Level) -> float:
    """Krippendorff (2004): 1 − D_o / D_e, for any number of annotators and missing answers.

    A unit is what was judged, with the answers it got; those with one answer say nothing about agreement. The
    distance δ² of two answers is 1 if they differ (nominal), the squared number of answers that lie between them, half
    of their own included (ordinal), or their squared difference (interval).
    """
    paired = [unit for unit in units if len(unit) > 1]
    values = sorted({value for unit in paired for value in unit})
    places = {value: place for place, value in enumerate(values)}
    coincidences = np.zeros((len(values), len(values)))
    for unit in paired:
        counts = np.bincount([places[value] for value in unit], minlength=len(values)).astype(np.float64)
        coincidences += (np.outer(counts, counts) - np.diag(counts)) / (len(unit) - 1)
    totals = coincidences.sum(axis=1)
    distances = _distances(np.array(values), totals, level)
    expected = float((distances * (np.outer(totals, totals) - np.diag(totals))).sum())
    if not expected:
        return math.nan
    return 1 - float((distances * coincidences).sum()) * (float(totals.sum()) - 1) / expected


def _distances(
    values: npt.NDArray[np.float64], totals: npt.NDArray[np.float64], level: Level
) -> npt.NDArray[np.float64]:
    match level:
        case "nominal":
            return 1 - np.eye(len(values))
        case "interval":
            return (values[:, None] - values[None, :]) ** 2
        case "ordinal":
            # (Σ_{g=c..k} n_g − (n_c + n_k) / 2)² = (m_k − m_c)² with m_c = Σ_{g≤c} n_g − n_c / 2
            middles = np.cumsum(totals) - totals / 2
            return (middles[:, None] - middles[None, :]) ** 2


def pearson(pairs: Sequence[tuple[float, float]]) -> float:
    """The correlation of two lists of numbers; not a number where one of them never changes."""
    if len(pairs) < 2:
        return math.nan
    first, second = np.array(pairs, dtype=np.float64).T
    first, second = first - first.mean(), second - second.mean()
    size = math.sqrt(float(first @ first) * float(second @ second))
    return float(first @ second) / size if size > 1e-12 else math.nan


def ranks(values: Sequence[float]) -> npt.NDArray[np.float64]:
    """Ranks from 1; equal values share the mean of theirs."""
    array = np.asarray(values, dtype=np.float64)
    order = np.argsort(array, kind="stable")
    ordered = array[order]
    edges = [0, *(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1), len(ordered)]
    shared = np.empty(len(array))
    for start, end in pairwise(edges):
        shared[order[start:end]] = (start + 1 + end) / 2
    return shared
