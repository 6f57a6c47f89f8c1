"""Minimum Bayes risk against double loops and closed forms."""

import math

import numpy as np
import pytest

from regard.errors import UsageError
from regard.metrics import metric
from regard.search import MinimumRisk, SearchOptions, minimum_risk, probabilities, utilities, utility
from regard.search.risk import UTILITIES

TEXTS = ["the cat sat", "the cat sat down", "a dog", "the cat", "the cat sat"]


OWN_FORM = ("bracket_F1", "span_F1", "AER", "squared_error")


@pytest.mark.parametrize("name", [name for name in UTILITIES if name not in OWN_FORM])
def test_expected_utility_is_that_of_a_double_loop(name: str) -> None:
    measure = utility(name, tokenize="none")
    weights = [0.1, 0.4, 0.2, 0.2, 0.1]
    decision = minimum_risk(TEXTS, measure=measure, weights=weights)
    sign = 1 if measure.higher_is_better else -1
    for row, one in enumerate(TEXTS):
        total = 0.0
        for column, other in enumerate(TEXTS):
            value = sign * measure.aggregate(measure.statistics([one], [[other]])[0])[0]
            assert decision.matrix[row, column] == pytest.approx(value, abs=1e-9)
            total += weights[column] * value
        assert decision.expected[row] == pytest.approx(total, abs=1e-9)
    best = max(range(5), key=lambda number: (round(float(decision.expected[number]), 9), -number))
    assert decision.order[0] == best


def test_alignments_and_numbers_are_candidates_too() -> None:
    """Of alignments the one that shares most links with the others, of numbers the one nearest to their mean."""
    links = ["0-0 1-1", "0-0 1-1 2-2", "0-1", "0-0 1-1 2-2"]
    aligned = minimum_risk(links, measure=utility("AER"))
    expected = [-(0 + 20 + 100 + 20) / 4, -(20 + 0 + 100 + 0) / 4, -(100 + 100 + 0 + 100) / 4]
    assert aligned.expected[:3] == pytest.approx(expected)
    assert aligned.order == (1, 0, 2)
    numbers = minimum_risk(["1", "2.5", "6"], measure=utility("squared_error"))
    assert numbers.expected == pytest.approx([-(1.5**2 + 25) / 3, -(1.5**2 + 3.5**2) / 3, -(25 + 3.5**2) / 3])
    assert numbers.order == (1, 0, 2)


def test_samples_count_as_often_as_they_were_drawn_and_lists_by_probability() -> None:
    # With exact match the expected utility is 100 · the share of a text.
    drawn = minimum_risk(["a", "b", "a", "c"], measure=metric("exact"))
    assert drawn.expected.tolist() == [50, 25, 50, 25]
    assert drawn.order == (0, 1, 3)
    np.testing.assert_allclose(drawn.weights, 0.25)
    listed = minimum_risk(["a", "b", "c"], measure=metric("exact"), weights=probabilities([-3, -1, -2]))
    total = math.exp(-3) + math.exp(-1) + math.exp(-2)
    np.testing.assert_allclose(listed.expected, [100 * math.exp(one) / total for one in (-3, -1, -2)])
    assert listed.order == (1, 2, 0)
    assert minimum_risk(["a", "b", "c"], measure=metric("exact"), weights=[6, 0, 2]).weights.tolist() == [0.75, 0, 0.25]
    assert probabilities([-1000.0, -1000.0, -math.inf]) == [0.5, 0.5, 0]


def test_it_is_not_the_mode_where_many_outputs_are_nearly_the_same() -> None:
    """By hand: "x x x x" is all wrong for 0.6 of the mass, "a b c d" for 0.4, and by one word of four for 0.3."""
    texts = ["x x x x", "a b c d", "a b c e"]
    decision = minimum_risk(texts, measure=utility("WER"), weights=[0.4, 0.3, 0.3])
    np.testing.assert_allclose(decision.expected, [-(0.6 * 100), -(0.4 * 100 + 0.3 * 25), -(0.4 * 100 + 0.3 * 25)])
    assert texts[decision.order[0]] == "a b c d"  # the first of equals, and not the mode
    assert decision.order == (1, 2, 0)


def test_candidates_and_references_may_be_different_lists() -> None:
    decision = minimum_risk(["a b", "a c"], ["a c d", "a c", "a b"], measure=utility("WER"))
    assert decision.matrix.shape == (2, 3)
    assert decision.order == (1, 0)


def test_an_empty_reference_costs_no_more_than_a_wrong_one() -> None:
    for name in ("WER", "CER", "TER"):
        found = utilities(utility(name), ["a", "", "a b c"], ["", "a"])
        assert found[:, 0].tolist() == [-100, 0, -100]
    drawn = minimum_risk(["", "a b c", "a b c d", "a b c"], measure=utility("WER"))
    assert drawn.order[0] == 1


def test_bleu_is_that_of_segments() -> None:
    assert utilities(utility("BLEU"), ["the cat"], ["the cat"]).item() == pytest.approx(100)


def test_what_cannot_be_done_is_refused() -> None:
    one = metric("exact")
    with pytest.raises(UsageError, match="MRR says nothing of one output beside another, so it is no utility; choose"):
        MinimumRisk(utility="MRR")
    with pytest.raises(UsageError, match=r"unknown utility 'chrf': must be one of BLEU, .*; did you mean chrF\?"):
        utility("chrf")
    with pytest.raises(UsageError, match="best is the number of outputs that are told and must be at least 1, not 0"):
        MinimumRisk(best=0)
    with pytest.raises(UsageError, match="is to choose 1 of 1 candidate: ask for 2 or more"):
        MinimumRisk().check(SearchOptions())
    with pytest.raises(UsageError, match="is to choose 9 of 5 candidates: ask for 9 or more"):
        MinimumRisk(best=9).check(SearchOptions(best=5))
    with pytest.raises(UsageError, match="pearson says nothing of one output"):
        utilities(metric("pearson"), ["1"], ["2"])
    with pytest.raises(UsageError, match=r"candidates must be a sequence of texts, at least one, not \[\]"):
        minimum_risk([], measure=one)
    with pytest.raises(UsageError, match="references must be a sequence of texts, at least one, not 'a'"):
        minimum_risk(["a"], "a", measure=one)
    with pytest.raises(UsageError, match="1 weights for 2 references: there must be one for each"):
        minimum_risk(["a", "b"], measure=one, weights=[1])
    for weights in ([0.0, 0.0], [1.0, -1.0], [math.nan, 1.0]):
        with pytest.raises(UsageError, match="weights of references must be numbers from 0 on, not all of them 0"):
            minimum_risk(["a", "b"], measure=one, weights=weights)
