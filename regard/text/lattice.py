"""All segmentations of a word into pieces, and draws from them.

Kudo 2018, section 3: a segmentation x of a word has P(x) = ∏ p(xᵢ), and is drawn with probability proportional to
P(x)^α. Forward filtering, backward sampling draws exactly from all segmentations, not from the n best:
F(0) = 1, F(e) = Σ p(s,e)^α F(s); going back from the end, s comes before e with probability p(s,e)^α F(s) / F(e).
"""

from collections.abc import Mapping, Sequence
from math import exp, log
from random import Random

Edges = tuple[tuple[tuple[int, float], ...], ...]
"""For each end of a piece the starts of pieces that end there, with their log-probabilities."""


def edges(word: str, scores: Mapping[str, float], *, longest: int, unknown: float) -> Edges:
    """The pieces that occur in a word; a character that is no piece is one of log-probability `unknown`."""
    ends: list[tuple[tuple[int, float], ...]] = [()]
    for end in range(1, len(word) + 1):
        starts = range(max(0, end - longest), end)
        found = [(start, score) for start in starts if (score := scores.get(word[start:end])) is not None]
        if not found or found[-1][0] != end - 1:
            found.append((end - 1, unknown))
        ends.append(tuple(found))
    return tuple(ends)


def draw_cuts(ends: Edges, alpha: float, random: Random) -> list[int]:
    """The places where a drawn segmentation of a word is cut, both ends included."""
    forward = [0.0]
    for found in ends[1:]:
        forward.append(_log_sum([forward[start] + alpha * score for start, score in found]))
    cuts = [len(ends) - 1]
    while cuts[-1] > 0:
        found = ends[cuts[-1]]
        rest = random.random()
        for start, score in found:
            rest -= exp(forward[start] + alpha * score - forward[cuts[-1]])
            if rest < 0:
                break
        cuts.append(start)
    return cuts[::-1]


def _log_sum(values: Sequence[float]) -> float:
    highest = max(values)
    return highest + log(sum(exp(value - highest) for value in values))
