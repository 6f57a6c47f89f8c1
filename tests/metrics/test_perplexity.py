"""Perplexity against the worked examples of the lectures."""

import math

import pytest

from regard.errors import DataError
from regard.metrics import perplexity


@pytest.mark.parametrize(
    ("probabilities", "expected"),
    [
        ([1 / 10] * 10, 10),
        ([1 / 30_000] * 7, 30_000),
        # "Operator, Sales, Technical Support (1 in 4), 30,000 names (1 in 120,000 each): perplexity is 53"
        ([1 / 4, 1 / 4, 1 / 4, 1 / 120_000], 53),
        ([1.0, 1.0], 1),
    ],
)
def test_weighted_branching_factor(probabilities: list[float], expected: float) -> None:
    nll = -sum(math.log(probability) for probability in probabilities)
    score = perplexity([nll], [len(probabilities)])
    assert score.value == pytest.approx(expected, rel=0.01)
    assert score.name == "perplexity (teacher-forced)"
    assert not score.higher_is_better


def test_it_is_the_inverse_probability_normalised_by_tokens_not_by_sentences() -> None:
    score = perplexity([2.0, 9.0], [1, 4], unit="bpe")
    assert score.value == pytest.approx((math.exp(-11.0)) ** (-1 / 5))
    assert score.parts == {"nll_per_token": pytest.approx(2.2), "tokens": 5.0}
    assert score.low is not None
    assert score.low < score.value
    assert score.signature == "bs:1000|seed:12345|unit:bpe|version:regard-1"


def test_what_floats_cannot_hold_is_infinite_and_null_in_json() -> None:
    score = perplexity([1e6], [1])
    assert score.value == math.inf
    assert score.to_json()["value"] is None


@pytest.mark.parametrize(
    ("sums", "counts", "message"),
    [
        ([1.0, 2.0], [1], "2 negative log-probabilities but 1 token counts"),
        ([1.0, math.nan], [1, 1], "segment 2 has −log p = nan"),
        ([-0.5], [1], "segment 1 has −log p = -0.5: must be finite and not negative"),
        ([0.5], [0], "segment 1 has 0 tokens: must be 1 or more"),
    ],
)
def test_impossible_sums_are_refused(sums: list[float], counts: list[int], message: str) -> None:
    with pytest.raises(DataError, match=message):
        perplexity(sums, counts)
