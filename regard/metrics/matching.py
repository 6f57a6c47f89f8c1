"""Metrics that compare outputs piece by piece: exact match, token accuracy, edit distance.

With several references a segment counts by the one that is best for it.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Final

import numpy as np

from regard.metrics.resampling import Statistics

VERSION: Final = "version:regard-1"
"""Changes when a definition in this file does."""


class ExactMatch:
    """The share of outputs that equal a reference, character by character, in per cent."""

    name: Final = "exact"
    signature: Final = f"case:mixed|{VERSION}"
    higher_is_better: Final = True

    def statistics(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Statistics:
        """Per segment: 1 if it is right, and 1."""
        rows = [(hypothesis in texts, 1) for hypothesis, texts in zip(hypotheses, references, strict=True)]
        return np.array(rows, dtype=np.float64)

    def aggregate(self, totals: Statistics) -> tuple[float, Mapping[str, float]]:
        """100 · right / segments."""
        right, segments = totals.tolist()
        return 100.0 * right / segments, {"right": right, "segments": segments}


class TokenAccuracy:
    """The share of positions at which output and reference have the same token, in per cent.

    Tokens are cut at white space. A segment has max(|output|, |reference|) positions, so that a missing token costs as
    much as one too many; shares are of all positions of the set (Σ equal / Σ positions). A shift by one position makes
    everything after it wrong: this is a metric for outputs that stand position for position (tags, fixed forms).
    """

    name: Final = "accuracy"
    signature: Final = f"case:mixed|tok:space|{VERSION}"
    higher_is_better: Final = True

    def statistics(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Statistics:
        """Per segment: equal positions, positions."""
        rows = [
            max((_equal_positions(hypothesis, text) for text in texts), key=_share)
            for hypothesis, texts in zip(hypotheses, references, strict=True)
        ]
        return np.array(rows, dtype=np.float64)

    def aggregate(self, totals: Statistics) -> tuple[float, Mapping[str, float]]:
        """100 · equal / positions; 100 if everything is empty on both sides."""
        equal, positions = totals.tolist()
        value = 100.0 * equal / positions if positions else 100.0
        return value, {"equal": equal, "positions": positions}


class EditDistance:
    """The mean number of characters to insert, delete or replace to turn an output into its reference.

    Characters are code points. The parts give the same per character of the reference, in per cent.
    """

    name: Final = "edit_distance"
    signature: Final = f"case:mixed|tok:character|{VERSION}"
    higher_is_better: Final = False

    def statistics(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Statistics:
        """Per segment: distance, 1, characters of the reference."""
        rows = [
            min((levenshtein(hypothesis, text), 1, len(text)) for text in texts)
            for hypothesis, texts in zip(hypotheses, references, strict=True)
        ]
        return np.array(rows, dtype=np.float64)

    def aggregate(self, totals: Statistics) -> tuple[float, Mapping[str, float]]:
        """Distance / segments."""
        distance, segments, characters = totals.tolist()
        rate = {"character_error_rate": 100.0 * distance / characters} if characters else {}
        return distance / segments, {"distance": distance, "segments": segments, **rate}


def levenshtein(left: Sequence[Hashable], right: Sequence[Hashable]) -> int:
    """The least number of insertions, deletions and replacements between two texts, or two sequences of words.

    Bit-parallel (Myers 1999, in the form of Hyyrö 2001): a column of the table of distances is two integers, the places
    where it rises and where it falls by one; Python's integers make it work at any length.
    """
    if not left:
        return len(right)
    everything = (1 << len(left)) - 1
    last = 1 << (len(left) - 1)
    places: dict[Hashable, int] = {}
    for place, piece in enumerate(left):
        places[piece] = places.get(piece, 0) | 1 << place
    rises, falls, distance = everything, 0, len(left)
    for piece in right:
        equal = places.get(piece, 0)
        diagonal = (((equal & rises) + rises) ^ rises) | equal | falls
        right_rises = (falls | ~(diagonal | rises)) & everything
        right_falls = rises & diagonal
        distance += bool(right_rises & last) - bool(right_falls & last)
        right_rises = (right_rises << 1 | 1) & everything
        right_falls = (right_falls << 1) & everything
        rises = (right_falls | ~(diagonal | right_rises)) & everything
        falls = right_rises & diagonal
    return distance


def _equal_positions(hypothesis: str, reference: str) -> tuple[int, int]:
    left, right = hypothesis.split(), reference.split()
    return sum(a == b for a, b in zip(left, right, strict=False)), max(len(left), len(right))


def _share(row: tuple[int, int]) -> float:
    equal, positions = row
    return equal / positions if positions else 1.0
