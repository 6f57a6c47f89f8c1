"""Word and character error rates: edits for each word or character of the reference, in per cent.

With several references a segment counts by the one with the lowest rate. Rates can exceed 100.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from regard.metrics.matching import VERSION, levenshtein
from regard.metrics.resampling import Statistics


class ErrorRate:
    """100 · Σ edits / Σ pieces of the reference; edits are insertions, deletions and replacements of pieces."""

    higher_is_better: Final = False

    def __init__(self, *, name: str, words: bool) -> None:
        """Pieces are what stands between white space, or code points: every one, white space too."""
        self.name = name
        self.signature = f"case:mixed|tok:{'space' if words else 'character'}|{VERSION}"
        self._words = words

    def statistics(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Statistics:
        """Per segment: edits, pieces of the reference."""
        rows = [
            min((self._compared(hypothesis, text) for text in texts), key=_rate)
            for hypothesis, texts in zip(hypotheses, references, strict=True)
        ]
        return np.array(rows, dtype=np.float64)

    def aggregate(self, totals: Statistics) -> tuple[float, Mapping[str, float]]:
        """Of empty references the rate of no edits is 0, that of some is infinite."""
        edits, pieces = totals.tolist()
        return 100 * _rate((edits, pieces)), {"edits": edits, "pieces": pieces}

    def _compared(self, hypothesis: str, reference: str) -> tuple[float, float]:
        if self._words:
            left, right = hypothesis.split(), reference.split()
            return levenshtein(left, right), len(right)
        return levenshtein(hypothesis, reference), len(reference)


def word_error_rate() -> ErrorRate:
    return ErrorRate(name="WER", words=True)


def character_error_rate() -> ErrorRate:
    return ErrorRate(name="CER", words=False)


def _rate(row: tuple[float, float]) -> float:
    edits, pieces = row
    if pieces:
        return edits / pieces
    return float("inf") if edits else 0.0
