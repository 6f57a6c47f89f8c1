"""Answers: what is taken, and what is said of the others."""

import re

import pytest

from regard.errors import DataError
from regard.human.kinds import Kind, checked_answer, compares


@pytest.mark.parametrize(
    ("kind", "shown", "answer"),
    [
        ("adequacy-fluency", 1, {"adequacy": 1, "fluency": 5}),
        ("direct", 1, {"score": 0}),
        ("direct", 1, {"score": 100}),
        ("pairwise", 2, {"choice": "equal"}),
        ("ranking", 3, {"ranks": [1, 1, 3]}),
    ],
)
def test_answers_that_are_taken(kind: Kind, shown: int, answer: dict[str, object]) -> None:
    assert checked_answer(kind, shown, answer) == answer


@pytest.mark.parametrize(
    ("kind", "shown", "answer", "message"),
    [
        ("direct", 1, {"score": 101}, "is {'score': 101}; a judgement of kind direct is {\"score\": 0 to 100}"),
        ("direct", 1, {"score": -1}, "0 to 100"),
        ("direct", 1, {"score": True}, "0 to 100"),
        ("direct", 1, {"score": 5.0}, "0 to 100"),
        ("direct", 1, {"score": 5, "more": 1}, "0 to 100"),
        ("direct", 1, [5], "is [5]; a judgement of kind direct"),
        ("direct", 1, {"x" * 100: 1}, "…; a judgement"),
        ("adequacy-fluency", 1, {"adequacy": 3}, '{"adequacy": 1 to 5, "fluency": 1 to 5}'),
        ("adequacy-fluency", 1, {"adequacy": 0, "fluency": 3}, "1 to 5"),
        ("pairwise", 2, {"choice": "third"}, '{"choice": "first", "second" or "equal"}'),
        ("pairwise", 2, {"choice": ["first"]}, '"equal"'),
        ("ranking", 3, {"ranks": [1, 2]}, "[3 whole numbers from 1 (best) to 3, ties allowed]"),
        ("ranking", 2, {"ranks": [1, 3]}, "to 2"),
        ("ranking", 2, {"ranks": "12"}, "to 2"),
        ("ranking", 2, None, "is None"),
    ],
)
def test_answers_that_are_refused(kind: Kind, shown: int, answer: object, message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        checked_answer(kind, shown, answer)


def test_kinds_that_compare() -> None:
    assert [compares(kind) for kind in ("adequacy-fluency", "direct", "pairwise", "ranking")] == [
        False,
        False,
        True,
        True,
    ]
