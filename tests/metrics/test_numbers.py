"""Correlation and squared error of numbers, against numpy."""

import numpy as np
import pytest

from regard.errors import DataError
from regard.metrics import evaluate, metric


@pytest.mark.parametrize("seed", range(5))
def test_both_are_those_of_numpy(seed: int) -> None:
    chance = np.random.default_rng(seed)
    references = chance.normal(3, 2, size=40)
    outputs = 0.5 * references + chance.normal(size=40)
    texts = [repr(float(value)) for value in outputs]
    given = [[repr(float(value))] for value in references]
    correlation = evaluate(metric("pearson"), texts, given, resamples=200)
    error = evaluate(metric("squared_error"), texts, given, resamples=200)
    assert correlation.value == pytest.approx(100 * np.corrcoef(outputs, references)[0, 1], abs=1e-9)
    assert error.value == pytest.approx(np.mean((outputs - references) ** 2), rel=1e-12)
    assert correlation.higher_is_better
    assert not error.higher_is_better
    for score in (correlation, error):
        assert score.low is not None
        assert score.high is not None
        assert score.low < score.value < score.high


@pytest.mark.parametrize(
    ("outputs", "references", "value"),
    [
        (["1", "2", "3"], ["2", "4", "6"], 100.0),
        (["1", "2", "3"], ["-1", "-2", "-3"], -100.0),
        (["1", "1", "1"], ["1", "2", "3"], 0.0),
        (["1", "2", "3"], ["5", "5", "5"], 0.0),
        (["1"], ["2"], 0.0),
    ],
)
def test_ends_of_the_scale(outputs: list[str], references: list[str], value: float) -> None:
    score = evaluate(metric("pearson"), outputs, [[one] for one in references], resamples=0)
    assert score.value == pytest.approx(value)


@pytest.mark.parametrize("name", ["pearson", "squared_error"])
def test_what_cannot_be_compared_is_refused(name: str) -> None:
    with pytest.raises(DataError, match="segment 2: numbers were expected, and found are '' and '1'"):
        evaluate(metric(name), ["1", ""], [["1"], ["1"]], resamples=0)
    with pytest.raises(DataError, match="segment 1 has 2 references; a number is compared with one"):
        evaluate(metric(name), ["1"], [["1", "2"]], resamples=0)
