"""Alignment error against worked examples, F1, and a bootstrap by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import DataError
from regard.metrics import alignment_error, format_pharaoh, parse_pharaoh

links = st.frozensets(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=8)


def test_worked_example_with_sure_and_possible_links() -> None:
    """A = 4 links, S = 3, P = S + 2; |A ∩ S| = 2, |A ∩ P| = 3: AER = 1 − 5/7."""
    predicted = parse_pharaoh("0-0 1-1 2-2 3-0")
    sure = parse_pharaoh("0-0 1-1 2-1")
    possible = parse_pharaoh("2-2 3-3")
    score = alignment_error([predicted], [sure], [possible])
    assert score.value == pytest.approx(100 * (1 - 5 / 7))
    assert score.parts["precision"] == pytest.approx(75)
    assert score.parts["recall"] == pytest.approx(200 / 3)
    assert score.signature == "possible:yes|version:regard-1"
    assert not score.higher_is_better


@given(links, links)
def test_without_possible_links_it_is_one_minus_f1(predicted: frozenset, sure: frozenset) -> None:
    score = alignment_error([predicted], [sure])
    right = len(predicted & sure)
    expected = 100 * (1 - 2 * right / (len(predicted) + len(sure))) if predicted or sure else 0.0
    assert score.value == pytest.approx(expected)


def test_counts_are_summed_over_sentences() -> None:
    score = alignment_error([{(0, 0)}, {(0, 0), (1, 1), (2, 2)}], [{(0, 1)}, {(0, 0), (1, 1), (2, 2)}], resamples=0)
    assert score.value == pytest.approx(100 * (1 - 6 / 8))
    assert score.count == 2


def test_nothing_predicted_and_nothing_sure() -> None:
    nothing = alignment_error([set()], [{(0, 0)}])
    assert (nothing.value, nothing.parts["precision"], nothing.parts["recall"]) == (100.0, 100.0, 0.0)
    both = alignment_error([set()], [set()])
    assert (both.value, both.parts["recall"]) == (0.0, 100.0)


def test_the_interval_is_that_of_resampled_sentences() -> None:
    predicted = [{(0, 0), (1, k % 3)} for k in range(30)]
    sure = [{(0, 0), (1, 1)}] * 30
    score = alignment_error(predicted, sure, resamples=200, seed=5)
    draws = np.random.default_rng(5).choice(30, size=(200, 30))
    values = sorted(alignment_error([predicted[i] for i in row], [sure[i] for i in row]).value for row in draws)
    assert (score.low, score.high) == pytest.approx((values[5], values[194]))


def test_unequal_numbers_are_refused() -> None:
    with pytest.raises(DataError, match="2 predicted alignments, 1 sure and 1 possible ones"):
        alignment_error([set(), set()], [set()])
    with pytest.raises(DataError, match="1 predicted alignments, 1 sure and 2 possible ones"):
        alignment_error([set()], [set()], [set(), set()])
    with pytest.raises(DataError, match="alignment error: there are no segments to score"):
        alignment_error([], [])


@given(links)
def test_pharaoh_round_trip(alignment: frozenset) -> None:
    assert parse_pharaoh(format_pharaoh(alignment)) == alignment


def test_pharaoh_is_sorted_and_forgives_spaces() -> None:
    assert format_pharaoh({(10, 0), (2, 1), (2, 0)}) == "2-0 2-1 10-0"
    assert parse_pharaoh(" 0-0\t1-2 \n") == {(0, 0), (1, 2)}
    assert parse_pharaoh("") == frozenset()


@pytest.mark.parametrize("field", ["0", "0-", "-1-0", "a-b", "0-1-2", "٣-1", "0–1", "1p2"])
def test_what_is_not_a_link_is_refused(field: str) -> None:
    with pytest.raises(DataError, match=rf"gold\.txt:7: '{field}' is not a link: write source-target"):
        parse_pharaoh(f"0-0 {field}", where="gold.txt:7")
    with pytest.raises(DataError, match=rf"^'{field}' is not a link"):
        parse_pharaoh(field)


def test_negative_words_cannot_be_written() -> None:
    with pytest.raises(DataError, match=r"link \(0, -1\) cannot be written: words are counted from 0"):
        format_pharaoh([(0, -1)])
