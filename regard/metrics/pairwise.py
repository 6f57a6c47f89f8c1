"""Every text against every other: the matrix of segment scores that minimum Bayes risk needs.

A text is cut into n-grams once, not once for each pair, and equal texts are compared once. The number of n-grams that
two texts share, Σ min(count, count'), is a product of matrices: if the k-th occurrence of an n-gram is a feature of its
own, texts are sets of features, and what two sets share is the product of their rows of zeros and ones.

Shapes: C hypotheses, R references, F features.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from regard.metrics.metric import Metric
from regard.metrics.resampling import Statistics

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

CELLS_AT_ONCE: Final = 4_000_000
"""Zeros and ones that are held in memory together."""

Pieces = Sequence[Sequence[Hashable]]
"""The n-grams of a text, by order."""


def pairwise_scores(metric: Metric, hypotheses: Sequence[str], references: Sequence[str]) -> Statistics:
    """The score of each hypothesis as a segment of its own, against each text as its only reference: (C, R)."""
    left, rows = np.unique(np.array(hypotheses, dtype=object), return_inverse=True)
    right, columns = np.unique(np.array(references, dtype=object), return_inverse=True)
    scores = _distinct_scores(metric, left.tolist(), right.tolist())
    return scores[rows][:, columns]


def _distinct_scores(metric: Metric, hypotheses: list[str], references: list[str]) -> Statistics:
    if metric.name == "chrF" or metric.name.startswith("BLEU"):
        from sacrebleu.metrics.bleu import BLEU
        from sacrebleu.metrics.chrf import CHRF

        from regard.metrics.overlap import Overlap

        match metric:
            case Overlap(definition=CHRF() as chrf):
                return _chrf(chrf, hypotheses, references)
            case Overlap(definition=BLEU() as bleu):
                return _bleu(bleu, hypotheses, references)
    alone = [[text] for text in references]
    rows = [
        [metric.aggregate(row)[0] for row in metric.statistics([text] * len(references), alone)] for text in hypotheses
    ]
    return np.array(rows, dtype=np.float64).reshape(len(hypotheses), len(references))


class _Grams:
    """N-grams of two lists of texts: how many each has, (C, orders) and (R, orders), and how many two of them share."""

    def __init__(self, cut: Callable[[str], Pieces], hypotheses: Sequence[str], references: Sequence[str]) -> None:
        pieces = {text: cut(text) for text in (*hypotheses, *references)}
        self.hypotheses, self.references = (
            np.array([[len(order) for order in pieces[text]] for text in texts], dtype=np.float64)
            for texts in (hypotheses, references)
        )
        self.shared = [
            shared([pieces[text][order] for text in hypotheses], [pieces[text][order] for text in references])
            for order in range(self.hypotheses.shape[1])
        ]


def shared(hypotheses: Pieces, references: Pieces) -> Statistics:
    """How many pieces each two have in common; one that both have twice counts twice: (C, R)."""
    known: dict[tuple[Hashable, int], int] = {}
    right = [[known.setdefault(one, len(known)) for one in _numbered(pieces)] for pieces in references]
    left = [[known[one] for one in _numbered(pieces) if one in known] for pieces in hypotheses]
    counts = np.zeros((len(left), len(right)))
    width = max(1, CELLS_AT_ONCE // (len(left) + len(right)))
    places = [_places(rows) for rows in (left, right)]
    for start in range(0, len(known), width):
        size = min(width, len(known) - start)
        first, second = (
            _indicators(rows, features, len(counted), start, size)
            for (rows, features), counted in zip(places, (left, right), strict=True)
        )
        counts += first @ second.T  # float32 holds whole numbers up to 2^24 exactly
    return counts


def _numbered(pieces: Sequence[Hashable]) -> list[tuple[Hashable, int]]:
    """Each piece with the number of times it has occurred before."""
    seen: dict[Hashable, int] = {}
    numbered = []
    for piece in pieces:
        before = seen.get(piece, 0)
        seen[piece] = before + 1
        numbered.append((piece, before))
    return numbered


def _places(features: Sequence[Sequence[int]]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Row and column of every feature."""
    rows = np.repeat(np.arange(len(features)), [len(one) for one in features])
    return rows, np.array([feature for one in features for feature in one], dtype=np.int64)


def _indicators(
    rows: npt.NDArray[np.int64], features: npt.NDArray[np.int64], count: int, start: int, size: int
) -> npt.NDArray[np.float32]:
    """1 where a text has a feature: the columns from `start` on, (count, size)."""
    table = np.zeros((count, size), dtype=np.float32)
    chosen = (features >= start) & (features < start + size)
    table[rows[chosen], features[chosen] - start] = 1
    return table


def _chrf(definition: "CHRF", hypotheses: Sequence[str], references: Sequence[str]) -> Statistics:
    """100 · (1 + β²) P R / (β² P + R) of precision and recall, means over the orders that both texts have."""
    order, factor = definition.char_order, definition.beta**2

    def cut(text: str) -> Pieces:
        characters = "".join(text.split())
        return [[characters[at : at + n] for at in range(len(characters) - n + 1)] for n in range(1, order + 1)]

    grams = _Grams(cut, hypotheses, references)
    precision, recall, orders = (np.zeros((len(hypotheses), len(references))) for _ in range(3))
    for n, matches in enumerate(grams.shared):
        found, true = grams.hypotheses[:, n, None], grams.references[None, :, n]
        both = (found > 0) & (true > 0)
        precision += np.where(both, matches / np.maximum(found, 1), 0)
        recall += np.where(both, matches / np.maximum(true, 1), 0)
        orders += both
    precision, recall = precision / np.maximum(orders, 1), recall / np.maximum(orders, 1)
    below = factor * precision + recall
    scores: Statistics = 100 * (1 + factor) * precision * recall / np.where(below > 0, below, 1)
    return scores


def _bleu(definition: "BLEU", hypotheses: Sequence[str], references: Sequence[str]) -> Statistics:
    """Brevity penalty · exp(mean of log precisions); the k-th order without a match has precision 1 / (2^k · count)."""
    order = definition.max_ngram_order

    def cut(text: str) -> Pieces:
        words = definition._preprocess_segment(text).split()
        return [[tuple(words[at : at + n]) for at in range(len(words) - n + 1)] for n in range(1, order + 1)]

    grams = _Grams(cut, hypotheses, references)
    logs, halvings = (np.zeros((len(hypotheses), len(references))) for _ in range(2))
    for n, matches in enumerate(grams.shared):
        found = grams.hypotheses[:, n, None]
        missed = (matches == 0) & (found > 0)
        halvings += missed
        precision = np.where(missed, 0.5**halvings, matches) / np.maximum(found, 1)
        logs += np.log(np.where(found > 0, precision, 1))
    orders = (grams.hypotheses > 0).sum(axis=1)[:, None]
    length, wanted = grams.hypotheses[:, :1], grams.references[None, :, 0]
    brevity = np.exp(np.minimum(0, 1 - wanted / np.maximum(length, 1)))
    used = np.maximum(orders, 1) if definition.effective_order else order
    scores = 100 * brevity * np.exp(logs / used)
    some = grams.shared[0] > 0
    return np.where(some if definition.effective_order else some & (orders == order), scores, 0.0)
