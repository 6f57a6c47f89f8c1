"""Metrics of answers that are numbers: the correlations of Pearson and of Spearman, and the mean squared error."""

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from regard.errors import DataError
from regard.metrics.matching import VERSION
from regard.metrics.resampling import Statistics


class Pearson:
    """Pearson's correlation of outputs and references, in per cent; 0 where one of them does not vary."""

    name: Final = "pearson"
    signature: Final = VERSION
    higher_is_better: Final = True

    def statistics(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Statistics:
        """Per segment: 1, x, y, x², y², xy."""
        x, y = numbers(hypotheses, references)
        return np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], axis=1)

    def aggregate(self, totals: Statistics) -> tuple[float, Mapping[str, float]]:
        """100 · (n Σxy - Σx Σy) / √((n Σx² - (Σx)²) (n Σy² - (Σy)²))."""
        n, x, y, xx, yy, xy = totals.tolist()
        spread = max(0.0, n * xx - x * x) * max(0.0, n * yy - y * y)
        value = (n * xy - x * y) / math.sqrt(spread) if spread > 0 else 0.0
        return 100.0 * min(1.0, max(-1.0, value)), {"segments": n}


class Spearman:
    """Spearman's rank correlation, in per cent: Pearson's, of the ranks; equal numbers share the mean of their ranks.

    Ranks are those in the whole set. A resample of the bootstrap takes them along, and does not rank anew.
    """

    name: Final = "spearman"
    signature: Final = f"ranks:whole|{VERSION}"
    higher_is_better: Final = True

    def statistics(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Statistics:
        """As Pearson's, of the ranks."""
        x, y = (ranks(values) for values in numbers(hypotheses, references))
        return np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], axis=1)

    def aggregate(self, totals: Statistics) -> tuple[float, Mapping[str, float]]:
        """As Pearson's."""
        return Pearson().aggregate(totals)


class SquaredError:
    """The mean of (output - reference)²; the parts have its root, which is on the scale of the numbers."""

    name: Final = "squared_error"
    signature: Final = VERSION
    higher_is_better: Final = False

    def statistics(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Statistics:
        """Per segment: the squared error, and 1."""
        x, y = numbers(hypotheses, references)
        return np.stack([(x - y) ** 2, np.ones_like(x)], axis=1)

    def aggregate(self, totals: Statistics) -> tuple[float, Mapping[str, float]]:
        """Σ (x - y)² / n."""
        errors, segments = totals.tolist()
        return errors / segments, {"segments": segments, "root": math.sqrt(errors / segments)}


def ranks(values: Statistics) -> Statistics:
    """The rank of each number from 1, the mean of the ranks where numbers are equal."""
    _, group, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return ((2 * last - counts + 1) / 2)[group].astype(np.float64)


def numbers(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[Statistics, Statistics]:
    """Outputs and their (one) references as numbers."""
    rows: list[tuple[float, float]] = []
    for number, (hypothesis, texts) in enumerate(zip(hypotheses, references, strict=True), start=1):
        if len(texts) != 1:
            raise DataError(f"segment {number} has {len(texts)} references; a number is compared with one")
        try:
            rows.append((float(hypothesis), float(texts[0])))
        except ValueError:
            raise DataError(
                f"segment {number}: numbers were expected, and found are {hypothesis!r} and {texts[0]!r}"
            ) from None
    table = np.array(rows, dtype=np.float64)
    return table[:, 0], table[:, 1]
