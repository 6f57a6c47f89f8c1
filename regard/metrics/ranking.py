"""Metrics of lists of answers, best first: mean reciprocal rank and precision at k.

A hypothesis is a list of candidates with tabs between them (`join_candidates`); a reference is one right answer, and a
segment may have several.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from regard.errors import UsageError
from regard.metrics.matching import VERSION
from regard.metrics.resampling import Statistics

SEPARATOR: Final = "\t"
CUTS: Final = (1, 3, 5, 10)
"""The k of P@k that recipes can name."""

MOST: Final = max(CUTS)


def join_candidates(candidates: Sequence[str]) -> str:
    """A list of candidates as one text; a tab inside a candidate becomes a blank."""
    return SEPARATOR.join(candidate.replace(SEPARATOR, " ") for candidate in candidates)


class ReciprocalRank:
    """Mean reciprocal rank: the mean of 1 / rank of the first right candidate among the first ten, in per cent."""

    name: Final = "MRR"
    signature: Final = f"case:mixed|cut:{MOST}|{VERSION}"
    higher_is_better: Final = True

    def statistics(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Statistics:
        """Per segment: 1 / rank or 0, candidates, 1."""
        rows = []
        for candidates, texts in _lists(hypotheses, references):
            rank = first_right(candidates[:MOST], texts)
            rows.append((1 / rank if rank else 0.0, len(candidates), 1))
        return np.array(rows, dtype=np.float64)

    def aggregate(self, totals: Statistics) -> tuple[float, Mapping[str, float]]:
        """100 · Σ 1 / rank / segments."""
        reciprocal, candidates, segments = totals.tolist()
        return 100 * reciprocal / segments, {"candidates": candidates / segments, "segments": segments}


class PrecisionAt:
    """The share of segments with a right answer among the first k candidates, in per cent.

    With one right answer for each segment this is what the work on replies and retrieval calls precision at k.
    """

    higher_is_better: Final = True

    def __init__(self, k: int) -> None:
        if k < 1:
            raise UsageError(f"k = {k}: precision is taken at 1 candidate or more")
        self.k = k
        self.name = f"P@{k}"
        self.signature = f"case:mixed|cut:{k}|{VERSION}"

    def statistics(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Statistics:
        """Per segment: 1 if a right answer is there, candidates, 1."""
        rows = [
            (first_right(candidates[: self.k], texts) > 0, len(candidates), 1)
            for candidates, texts in _lists(hypotheses, references)
        ]
        return np.array(rows, dtype=np.float64)

    def aggregate(self, totals: Statistics) -> tuple[float, Mapping[str, float]]:
        """100 · segments with a right answer / segments."""
        right, candidates, segments = totals.tolist()
        return 100 * right / segments, {"candidates": candidates / segments, "segments": segments}


def first_right(candidates: Sequence[str], texts: Sequence[str]) -> int:
    """The rank of the first right candidate, from 1; 0 if none is right."""
    return next((rank for rank, one in enumerate(candidates, start=1) if one in texts), 0)


def _lists(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> list[tuple[list[str], Sequence[str]]]:
    return [(one.split(SEPARATOR), texts) for one, texts in zip(hypotheses, references, strict=True)]
