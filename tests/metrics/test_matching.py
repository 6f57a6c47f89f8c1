"""Exact match, token accuracy and edit distance against worked examples and slow definitions."""

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.metrics import EditDistance, ExactMatch, TokenAccuracy, evaluate, levenshtein, metric


def slow_levenshtein(left: str, right: str) -> int:
    """The recursion itself."""

    @cache
    def distance(i: int, j: int) -> int:
        if not i or not j:
            return i + j
        change = left[i - 1] != right[j - 1]
        return min(distance(i - 1, j) + 1, distance(i, j - 1) + 1, distance(i - 1, j - 1) + change)

    return distance(len(left), len(right))


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [("kitten", "sitting", 3), ("", "abc", 3), ("abc", "", 3), ("", "", 0), ("ging", "gegangen", 5), ("ä", "a", 1)],
)
def test_levenshtein_examples(left: str, right: str, expected: int) -> None:
    assert levenshtein(left, right) == expected


@given(st.text("abé日", max_size=30), st.text("abé日", max_size=30))
def test_levenshtein_equals_the_recursion(left: str, right: str) -> None:
    assert levenshtein(left, right) == slow_levenshtein(left, right) == levenshtein(right, left)


def test_levenshtein_of_long_texts() -> None:
    assert levenshtein("ab" * 1000, "b" + "ab" * 1000) == 1
    assert levenshtein("a" * 300, "b" * 200) == 300


def test_exact_match_counts_any_reference_and_nothing_else() -> None:
    score = evaluate(ExactMatch(), ["ab", "ab ", "Ab", ""], [["x", "ab"], ["ab"], ["ab"], [""]], resamples=0)
    assert score.value == 50.0
    assert score.parts == {"right": 2.0, "segments": 4.0}
    assert score.higher_is_better
    assert score.signature == "nrefs:var|case:mixed|version:regard-1"


@pytest.mark.parametrize(
    ("hypothesis", "reference", "expected"),
    [
        ("a b c", "a b c", 100.0),
        ("a b c", "a x c", 200 / 3),
        ("a b", "a b c d", 50.0),
        ("a b c d", "a b", 50.0),
        ("b c", "a b c", 0.0),
        ("", "a", 0.0),
        ("", "", 100.0),
        (" a  b ", "a b", 100.0),
    ],
)
def test_token_accuracy_of_one_segment(hypothesis: str, reference: str, expected: float) -> None:
    assert evaluate(TokenAccuracy(), [hypothesis], [[reference]]).value == pytest.approx(expected)


def test_token_accuracy_is_of_all_positions_and_the_best_reference() -> None:
    score = evaluate(TokenAccuracy(), ["a b c", "x"], [["a q q", "a b"], ["y"]], resamples=0)
    assert score.value == pytest.approx(100 * 2 / 4)
    assert score.parts == {"equal": 2.0, "positions": 4.0}


def test_edit_distance_is_the_mean_over_segments_to_the_nearest_reference() -> None:
    score = evaluate(EditDistance(), ["kitten", "abc"], [["sitting"], ["zzzzzz", "abd"]], resamples=0)
    assert score.value == pytest.approx((3 + 1) / 2)
    assert not score.higher_is_better
    assert score.parts["character_error_rate"] == pytest.approx(100 * 4 / 10)


def test_edit_distance_of_empty_references_has_no_rate() -> None:
    score = evaluate(metric("edit_distance"), ["ab"], [[""]])
    assert score.value == 2.0
    assert "character_error_rate" not in score.parts
