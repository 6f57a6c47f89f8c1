"""Reranking: what one search found, ordered by a weighted sum of what several models say of it.

    score(y) = Σ_k w_k · f_k(y)

The parts f are log-probabilities, log p(y | x) of the model that searched, log p(y | x) of one that writes from right
to left, log p(x | y) of one that translates back, log p(y) of a language model, and the length |y| of y in tokens of
the first model, its end included. Weights are chosen by hand or tuned: coordinates in turn, each over a grid, by a
metric on validation data (a plain relative of the line search of Och 2003).

Shapes: N lists of at most n outputs, K parts, S statistics of a metric.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from regard.errors import DataError, UsageError
from regard.files import replace_file
from regard.metrics import Metric

MODEL: Final = "model"
LENGTH: Final = "length"
FORMAT: Final = 1

GRID: Final = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0)
LENGTHS: Final = (-1.0, -0.5, -0.2, -0.1, 0.0, 0.1, 0.2, 0.5, 1.0, 2.0)
"""Weights that are tried for a model, and for the length; that of the first model is 1."""

ROUNDS: Final = 20
GAIN: Final = 1e-9

Parts = Mapping[str, float]
Weights = Mapping[str, float]
Table = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Tuned:
    """Weights, what the metric says of the outputs they choose, and what it said of the first of each list."""

    weights: Weights
    value: float
    before: float


def weighted_sum(parts: Parts, weights: Weights) -> float:
    """Σ w · part, over the parts there are."""
    return sum(weights[name] * value for name, value in parts.items() if weights[name])


def ranked(lists: Sequence[Parts], weights: Weights, names: Sequence[str]) -> list[int]:
    """Numbers of the outputs of one list, the best first; those without all parts stand last, in their order."""
    judged = [all(name in parts for name in names) for parts in lists]
    whole = [number for number, all_there in enumerate(judged) if all_there]
    rest = [number for number, all_there in enumerate(judged) if not all_there]
    return sorted(whole, key=lambda number: (-weighted_sum(lists[number], weights), number)) + rest


def even_weights(names: Sequence[str]) -> Weights:
    """1 for each model, 0 for the length."""
    return {name: float(name != LENGTH) for name in names}


def check_weights(weights: Weights, names: Sequence[str]) -> Weights:
    """Weights for exactly these parts; the length has 0 and the first model 1 where they are left out."""
    for name, value in weights.items():
        if name not in names:
            raise UsageError(
                f"a weight for {name!r}, and the parts are {', '.join(names)}: leave it out, or give the run"
            )
        if not math.isfinite(value):
            raise UsageError(f"the weight of {name} must be a number, not {value}")
    missing = [name for name in names if name not in (*weights, MODEL, LENGTH)]
    if missing:
        raise UsageError(
            f"there is no weight for {', '.join(missing)}: give one for each run, such as {missing[0]}=0.5"
        )
    return {name: float(weights.get(name, name == MODEL)) for name in names}


class _Lists:
    """Lists of outputs as arrays: parts (N, n, K), statistics (N, n, S), and which outputs can be chosen (N, n)."""

    def __init__(self, lists: Sequence[Sequence[Parts]], statistics: Sequence[Table], names: Sequence[str]) -> None:
        most = max(map(len, lists))
        self.parts = np.zeros((len(lists), most, len(names)))
        self.statistics = np.zeros((len(lists), most, statistics[0].shape[1]))
        self.open = np.zeros((len(lists), most), dtype=bool)
        for row, (outputs, table) in enumerate(zip(lists, statistics, strict=True)):
            self.statistics[row, : len(outputs)] = table
            for place, parts in enumerate(outputs):
                if all(name in parts for name in names):
                    self.parts[row, place] = [parts[name] for name in names]
                    self.open[row, place] = True

    def totals(self, weights: Sequence[float]) -> Table:
        """Statistics of the outputs that these weights choose: (S,). Where none can be chosen, it is the first."""
        scores = np.where(self.open, self.parts @ np.array(weights), -np.inf)  # (N, n)
        totals: Table = self.statistics[np.arange(len(scores)), scores.argmax(1)].sum(0)
        return totals


def tune(
    lists: Sequence[Sequence[Parts]], statistics: Sequence[Table], *, names: Sequence[str], measure: Metric
) -> Tuned:
    """The weights whose choices the metric finds best; the same lists always give the same.

    `statistics` are the metric's, a row for each output of each list. The climb begins once with all weights 0 but that
    of the first model, and once with all 1; it takes another weight only where that is better, the smallest of equals.
    """
    if not lists or not all(lists):
        raise DataError("weights cannot be tuned: there is no list of outputs, or one of them is empty")
    table = _Lists(lists, statistics, names)
    sign = 1 if measure.higher_is_better else -1

    def value(weights: Sequence[float]) -> float:
        return sign * measure.aggregate(table.totals(weights))[0]

    starts = ({MODEL: 1.0}, even_weights(names))
    climbed = [_climb([start.get(name, 0.0) for name in names], names, value) for start in starts]
    best, weights = max(climbed, key=lambda one: one[0])  # the first of equals
    first = sum(one[0] for one in statistics)
    return Tuned(weights=dict(zip(names, weights, strict=True)), value=sign * best, before=measure.aggregate(first)[0])


def _climb(
    weights: list[float], names: Sequence[str], value: Callable[[Sequence[float]], float]
) -> tuple[float, list[float]]:
    """Better one weight after the other until none can be bettered."""
    reached = value(weights)
    for _ in range(ROUNDS):
        before = reached
        for place, name in enumerate(names):
            if name == MODEL:
                continue
            for tried in sorted(LENGTHS if name == LENGTH else GRID, key=abs):
                changed = [*weights[:place], tried, *weights[place + 1 :]]
                if (found := value(changed)) > reached + GAIN:
                    reached, weights = found, changed
        if reached <= before + GAIN:
            break
    return reached, weights


def write_weights(path: Path, tuned: Tuned, *, metric: str, examples: int) -> None:
    """A small JSON file that `read_weights` reads."""
    record = {
        "format": FORMAT,
        "weights": dict(tuned.weights),
        "metric": metric,
        "value": tuned.value,
        "before": tuned.before,
        "examples": examples,
    }
    replace_file(path, (json.dumps(record, indent=2) + "\n").encode())


def read_weights(path: Path) -> Weights:
    """The weights of a file that `write_weights` wrote."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(
            f"{path}: cannot be read as weights ({error}); write it with `regard rerank --tune`"
        ) from error
    weights = record.get("weights") if isinstance(record, dict) and record.get("format") == FORMAT else None
    if not isinstance(weights, dict) or not all(type(one) in (int, float) for one in weights.values()):
        raise UsageError(
            f'{path}: weights are {{"format": {FORMAT}, "weights": {{"right_to_left": 0.5, ...}}}}, with a number for '
            "each part; write it with `regard rerank --tune`"
        )
    return {str(name): float(value) for name, value in weights.items()}


def parse_weights(text: str) -> Weights:
    """Weights as they are typed: `right_to_left=0.5,length=0.1`."""
    weights = {}
    for item in text.split(","):
        name, _, value = item.partition("=")
        try:
            weights[name.strip()] = float(value)
        except ValueError:
            raise UsageError(
                f"{item.strip()!r} is no weight: write a file of `regard rerank --tune`, or NAME=NUMBER,NAME=NUMBER"
            ) from None
    return weights
