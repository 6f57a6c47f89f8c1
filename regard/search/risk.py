"""Minimum Bayes risk: of some candidates, the one that is most like all that the model would say.

    y* = argmax over candidates y of  Σ_r p(r) · u(y, r)

where u is a metric of segments, negated where less is better, and the pseudo-references r are samples of the model, all
with the same weight, or an n-best list with the model's probabilities (Kumar and Byrne 2004; Eikema and Aziz 2020). The
most probable output need not be it: many outputs that differ a little can outweigh one that is alone.

Shapes: C candidates, R references.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from regard.errors import UsageError
from regard.metrics import NAMES, MeteorSources, Metric, metric
from regard.metrics.pairwise import pairwise_scores
from regard.search.options import SearchOptions

UTILITIES: Final = (
    "BLEU", "chrF", "TER", "METEOR", "exact", "accuracy", "edit_distance", "WER", "CER", "span_F1", "bracket_F1",
    "AER", "squared_error",
)  # fmt: skip
"""Metrics that say something of one output and one reference; the last four are for outputs of their own form."""

DIGITS: Final = 9
"""Expected utilities that differ only behind so many decimals are equal."""

WORST_RATE: Final = 100.0
"""The error rate of an output, in per cent, where the reference is empty and it has none (as in TER)."""

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class MinimumRisk:
    """Outputs are chosen by expected utility: `best` of them are told.

    Pseudo-references are the candidates themselves, or found for themselves where `references` says how. With `matrix`
    every prediction has its `Decision`.
    """

    utility: str = "chrF"
    best: int = 1
    references: SearchOptions | None = None
    matrix: bool = False

    def __post_init__(self) -> None:
        check_utility(self.utility)
        if self.best < 1:
            raise UsageError(f"best is the number of outputs that are told and must be at least 1, not {self.best}")

    def check(self, options: SearchOptions) -> None:
        """Refuse a search for candidates that leaves nothing to choose."""
        if options.best < max(2, self.best):
            raise UsageError(
                f"minimum Bayes risk is to choose {self.best} of {options.best} candidate"
                f"{'' if options.best == 1 else 's'}: ask for {max(2, self.best)} or more"
            )


@dataclass(frozen=True, slots=True)
class Decision:
    """Numbers of the candidates by expected utility, best first, of equal texts only the first one's.

    `matrix` has the utility of each candidate against each reference (C, R), `weights` those of the references (R,),
    which add up to 1, and `expected` their product (C,).
    """

    candidates: tuple[str, ...]
    references: tuple[str, ...]
    order: tuple[int, ...]
    expected: Matrix
    matrix: Matrix
    weights: Matrix


def check_utility(name: str) -> None:
    """Refuse a metric that has nothing to say of a single output and a single reference."""
    if name in UTILITIES:
        return
    if name in NAMES:
        raise UsageError(
            f"{name} says nothing of one output beside another, so it is no utility; choose one of "
            f"{', '.join(UTILITIES)}"
        )
    known = {known.lower(): known for known in UTILITIES}.get(name.lower())
    hint = f"; did you mean {known}?" if known else ""
    raise UsageError(f"unknown utility {name!r}: must be one of {', '.join(UTILITIES)}{hint}")


def utility(name: str, *, tokenize: str = "13a", meteor: MeteorSources | None = None) -> Metric:
    """The metric of this name, as it is for single segments: BLEU has the orders that the output has."""
    check_utility(name)
    if name == "BLEU":
        from regard.metrics.overlap import bleu

        return bleu(tokenize=tokenize, effective=True)
    return metric(name, tokenize=tokenize, meteor=meteor)


def utilities(measure: Metric, candidates: Sequence[str], references: Sequence[str]) -> Matrix:
    """How good each candidate is if each reference is right, more is better: (C, R).

    Edits of an empty reference have an infinite rate; `WORST_RATE` stands in its place.
    """
    if measure.name in NAMES:
        check_utility(measure.name)
    for what, texts in (("candidates", candidates), ("references", references)):
        if isinstance(texts, str) or not texts:
            raise UsageError(f"{what} must be a sequence of texts, at least one, not {texts!r}")
    scores = pairwise_scores(measure, candidates, references)
    if not measure.higher_is_better:
        scores = np.where(np.isinf(scores), -WORST_RATE, -scores)
    return scores


def probabilities(log_probabilities: Sequence[float]) -> list[float]:
    """Probabilities that add up to 1 among themselves."""
    most = max(log_probabilities, default=0.0)
    parts = [math.exp(one - most) if one > -math.inf else 0.0 for one in log_probabilities]
    return [part / sum(parts) for part in parts]


def minimum_risk(
    candidates: Sequence[str],
    references: Sequence[str] | None = None,
    *,
    measure: Metric,
    weights: Sequence[float] | None = None,
) -> Decision:
    """Rank candidates by Σ_r w(r) · u(y, r); references are the candidates if left out, weights all the same.

    A text that was drawn twice counts twice. Of candidates that are equally good, the one that stands first wins.
    """
    others = candidates if references is None else references
    matrix = utilities(measure, candidates, others)
    shares = np.ones(len(others)) if weights is None else np.array(weights, dtype=np.float64)
    if len(shares) != len(others):
        raise UsageError(f"{len(shares)} weights for {len(others)} references: there must be one for each")
    if not np.all(np.isfinite(shares) & (shares >= 0)) or not shares.sum() > 0:
        raise UsageError("weights of references must be numbers from 0 on, not all of them 0")
    shares = shares / shares.sum()
    expected = matrix @ shares
    first: dict[str, int] = {}
    for number, text in enumerate(candidates):
        first.setdefault(text, number)
    order = sorted(first.values(), key=lambda number: (-round(float(expected[number]), DIGITS), number))
    return Decision(
        candidates=tuple(candidates),
        references=tuple(others),
        order=tuple(order),
        expected=expected,
        matrix=matrix,
        weights=shares,
    )
