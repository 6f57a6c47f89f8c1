"""Where a system is good and where it is not: by length, by the frequency of words, by labels of words, by segment.

Segments are put into buckets and scored there; words are put into buckets and counted over the set, each as often as it
stands in both the output and its reference (Neubig et al. 2019, compare-mt). Every bucket has its bootstrap interval.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from regard.errors import DataError
from regard.metrics.metric import Metric, check_segments
from regard.metrics.resampling import Statistics, summarise
from regard.metrics.score import Score

LENGTHS: Final = (10, 20, 30, 40, 50, 60)
"""Where buckets of lengths begin; the first begins at 0."""

FREQUENCIES: Final = (1, 2, 3, 4, 5, 10, 100, 1000)
"""Where buckets of frequencies begin; the first holds what was never seen."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """A part of the segments or words, and how good they are; `share` is of all segments or words."""

    label: str
    count: int
    share: float
    score: Score


@dataclass(frozen=True, slots=True)
class Segment:
    """How good one segment is; `number` counts from 0."""

    number: int
    value: float


def bucket_labels(edges: Sequence[int]) -> list[str]:
    """`0–9`, `10–19`, `20+` for edges 10, 20."""
    starts = [0, *edges]
    names = [str(a) if b == a + 1 else f"{a:,}–{b - 1:,}" for a, b in zip(starts, edges, strict=False)]
    return [*names, f"{starts[-1]:,}+"]


def by_length(
    metric: Metric,
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    lengths: Sequence[int],
    *,
    edges: Sequence[int] = LENGTHS,
    resamples: int = 1000,
) -> list[Bucket]:
    """The metric on segments of like length; buckets without a segment are left out."""
    check_segments(hypotheses, references)
    if len(lengths) != len(hypotheses):
        raise DataError(
            f"{len(lengths)} lengths were given for {len(hypotheses)} hypotheses: there must be one of each"
        )
    statistics = metric.statistics(hypotheses, references)
    places = np.searchsorted(np.array(edges), np.array(lengths), side="right")
    buckets = []
    for place, label in enumerate(bucket_labels(edges)):
        rows = statistics[places == place]
        if len(rows):
            score = summarise(
                rows,
                metric.aggregate,
                name=metric.name,
                signature=metric.signature,
                higher_is_better=metric.higher_is_better,
                resamples=resamples,
            )
            buckets.append(Bucket(label, len(rows), len(rows) / len(statistics), score))
    return buckets


def by_frequency(
    hypotheses: Sequence[str],
    references: Sequence[str],
    counts: Mapping[str, int],
    *,
    edges: Sequence[int] = FREQUENCIES,
    words: Callable[[str], list[str]] = str.split,
    resamples: int = 1000,
) -> list[Bucket]:
    """F1 of words by how often training had them: of those in the output, and of those in the reference, in both.

    `counts` says how often; `words` cuts texts.
    """
    _check_pairs(hypotheses, references)

    def place(word: str) -> int:
        return int(np.searchsorted(np.array(edges), counts.get(word, 0), side="right"))

    known: dict[str, int] = {}
    size = len(edges) + 1
    table = np.zeros((len(hypotheses), size, 3))  # segment, bucket; in both, in the output, in the reference
    for row, (hypothesis, reference) in enumerate(zip(hypotheses, references, strict=True)):
        found, true = Counter(words(hypothesis)), Counter(words(reference))
        for column, bag in enumerate((found & true, found, true)):
            for word, count in bag.items():
                if word not in known:
                    known[word] = place(word)
                table[row, known[word], column] += count
    return _word_buckets(table, bucket_labels(edges), "word F1", _word_f1, resamples)


def by_label(
    hypotheses: Sequence[str],
    references: Sequence[str],
    labels: Sequence[Sequence[str]],
    *,
    words: Callable[[str], list[str]] = str.split,
    resamples: int = 1000,
) -> list[Bucket]:
    """The share of reference words that are in the output, by the label of the word (say its part of speech).

    `labels[i]` has one for each word of `references[i]`. Where an output has a word less often than the reference, the
    first ones of the reference count as found. Buckets are in the order of their size.
    """
    _check_pairs(hypotheses, references)
    if len(labels) != len(references):
        raise DataError(f"labels of {len(labels)} segments were given for {len(references)} references")
    names = [name for name, _ in Counter(label for line in labels for label in line).most_common()]
    places = {name: place for place, name in enumerate(names)}
    table = np.zeros((len(references), len(names), 3))
    for row, (hypothesis, reference, line) in enumerate(zip(hypotheses, references, labels, strict=True)):
        cut = words(reference)
        if len(cut) != len(line):
            raise DataError(
                f"segment {row + 1} has {len(line)} labels for {len(cut)} words of its reference: there must be one "
                f"for each. The reference is {reference[:60]!r}"
            )
        left = Counter(words(hypothesis))
        for word, label in zip(cut, line, strict=True):
            table[row, places[label], 2] += 1
            if left[word] > 0:
                left[word] -= 1
                table[row, places[label], 0] += 1
    return _word_buckets(table, names, "word recall", _word_recall, resamples)


def by_segment(metric: Metric, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> list[Segment]:
    """Every segment by itself, the worst first; those that are equal stay in their order."""
    check_segments(hypotheses, references)
    values = [metric.aggregate(row)[0] for row in metric.statistics(hypotheses, references)]
    sign = 1 if metric.higher_is_better else -1
    order = sorted(range(len(values)), key=lambda number: sign * values[number])
    return [Segment(number, values[number]) for number in order]


def _check_pairs(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    if len(hypotheses) != len(references):
        raise DataError(f"{len(hypotheses)} hypotheses but {len(references)} references: there must be one of each")


def _word_buckets(
    table: Statistics,
    labels: Sequence[str],
    name: str,
    aggregate: Callable[[Statistics], tuple[float, Mapping[str, float]]],
    resamples: int,
) -> list[Bucket]:
    total = float(table[:, :, 2].sum())
    buckets = []
    for place, label in enumerate(labels):
        rows = table[:, place]
        rows = rows[rows.any(axis=1)]  # segments without such a word say nothing about them
        if len(rows):
            score = summarise(
                rows, aggregate, name=name, signature="case:mixed", higher_is_better=True, resamples=resamples
            )
            count = int(rows[:, 2].sum())
            buckets.append(Bucket(label, count, count / total if total else 0.0, score))
    return buckets


def _word_f1(totals: Statistics) -> tuple[float, Mapping[str, float]]:
    both, found, true = totals.tolist()
    return 200 * both / (found + true), {
        "precision": 100 * both / found if found else 0.0,
        "recall": 100 * both / true if true else 0.0,
        "found": found,
        "true": true,
    }


def _word_recall(totals: Statistics) -> tuple[float, Mapping[str, float]]:
    both, _, true = totals.tolist()
    return 100 * both / true, {"right": both, "true": true}
