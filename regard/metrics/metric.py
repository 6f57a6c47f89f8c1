"""The contract of a metric over texts, and its evaluation.

A metric is segment statistics, then an aggregate over their sums, then a `Score`. Statistics of a set are computed
once; every resample of the bootstrap only adds them up again.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from regard.errors import DataError
from regard.metrics.resampling import Statistics, summarise
from regard.metrics.score import Score


class Metric(Protocol):
    """Compares hypotheses with references.

    `references[i]` are the references of `hypotheses[i]`, one or more of them. `signature` is the metric's own part of
    a score's signature; the number of references and the bootstrap are added by `evaluate`.
    """

    @property
    def name(self) -> str: ...

    @property
    def signature(self) -> str: ...

    @property
    def higher_is_better(self) -> bool: ...

    def statistics(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Statistics:
        """What each segment adds to the totals, (n, k)."""
        ...

    def aggregate(self, totals: Statistics) -> tuple[float, Mapping[str, float]]:
        """The value and its parts, from the sums of the statistics, (k,)."""
        ...


def evaluate(
    metric: Metric,
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    resamples: int = 1000,
    seed: int = 12345,
    level: float = 0.95,
) -> Score:
    """Score hypotheses against their references, with a bootstrap interval; `resamples=0` leaves it out."""
    check_segments(hypotheses, references)
    numbers = {len(texts) for texts in references}
    return summarise(
        metric.statistics(hypotheses, references),
        metric.aggregate,
        name=metric.name,
        signature=metric.signature,
        higher_is_better=metric.higher_is_better,
        resamples=resamples,
        seed=seed,
        level=level,
        references=str(numbers.pop()) if len(numbers) == 1 else "var",
    )


def check_segments(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    """Refuse what cannot be compared: nothing at all, unequal numbers, segments without a reference."""
    if isinstance(hypotheses, str):
        raise DataError("hypotheses must be a sequence of texts, one for each segment, not a single text")
    if len(hypotheses) != len(references):
        raise DataError(
            f"{len(hypotheses)} hypotheses but references for {len(references)} segments: "
            "there must be one entry of references, a sequence of texts, for each hypothesis"
        )
    if not hypotheses:
        raise DataError("0 hypotheses and 0 references: there is nothing to score")
    for number, texts in enumerate(references, start=1):
        if isinstance(texts, str):
            raise DataError(
                f"references of segment {number} are the text {texts!r}: they must be a sequence of texts, [{texts!r}]"
            )
        if not texts:
            raise DataError(f"segment {number} has no reference: each needs at least one (it may be an empty text)")
