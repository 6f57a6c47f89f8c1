"""Options of one request: what is refused, what limits the length, what hypotheses are ranked by."""

import pytest

from regard.errors import UsageError
from regard.search import SearchOptions
from regard.search.options import normalised


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"beam": 0}, "beam must be at least 1, not 0"),
        ({"beam": 3, "best": 4}, "4 best hypotheses cannot come out of a beam of 3"),
        ({"best": 0}, "0 best hypotheses cannot come out of a beam of 5"),
        ({"length_penalty": -0.5}, "length_penalty must be a number from 0 on, not -0.5"),
        ({"length_penalty": float("nan")}, "length_penalty must be a number from 0 on, not nan"),
        ({"length_penalty": float("inf")}, "length_penalty must be a number from 0 on, not inf"),
        ({"max_length": 0}, "max_length must be at least 1, not 0"),
        ({"max_ratio": 0.0}, "max_ratio must be a number above 0, or None for no such limit, not 0.0"),
        ({"max_ratio": float("nan")}, "max_ratio must be a number above 0, or None for no such limit, not nan"),
        ({"max_ratio": float("inf")}, "max_ratio must be a number above 0, or None for no such limit, not inf"),
        ({"temperature": 0.5, "seed": 3}, "temperature, seed can only have an effect on samples; ask for sample as"),
        ({"top_k": 5}, "top_k can only have an effect on samples"),
        ({"sample": True, "best": 0}, "best is the number of samples and must be at least 1, not 0"),
        ({"sample": True, "temperature": 0.0}, "temperature must be a number above 0, not 0.0; for the most probable"),
        ({"sample": True, "temperature": float("inf")}, "temperature must be a number above 0, not inf"),
        ({"sample": True, "temperature": float("nan")}, "temperature must be a number above 0, not nan"),
        ({"sample": True, "top_k": 0}, "top_k must be at least 1, or None for all tokens, not 0"),
        ({"sample": True, "top_p": 0.0}, "top_p must be above 0 and at most 1, or None for all tokens, not 0.0"),
        ({"sample": True, "top_p": 1.5}, "top_p must be above 0 and at most 1, or None for all tokens, not 1.5"),
        ({"sample": True, "min_p": float("nan")}, "min_p must be above 0 and at most 1, or None for all tokens, not n"),
        ({"sample": True, "typical": -1.0}, "typical must be above 0 and at most 1, or None for all tokens, not -1.0"),
        ({"sample": True, "seed": -1}, "seed must be a number from 0 to 2^64 - 1, not -1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, float], message: str) -> None:
    with pytest.raises(UsageError) as error:
        SearchOptions(**settings)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("max_length", "max_ratio", "items", "limit"),
    [
        (256, 3.0, 0, 10),
        (256, 3.0, 7, 31),
        (256, 1.5, 3, 14),
        (20, 3.0, 7, 20),
        (256, None, 1, 256),
        (256, 3.0, 1000, 256),
    ],
)
def test_limit_of_length(max_length: int, max_ratio: float | None, items: int, limit: int) -> None:
    assert SearchOptions(max_length=max_length, max_ratio=max_ratio).limit(items) == limit


@pytest.mark.parametrize(
    ("log_probability", "length", "penalty", "score"),
    [(-6.0, 3, 0.0, -6.0), (-6.0, 3, 1.0, -2.0), (-6.0, 4, 0.5, -3.0), (-6.0, 1, 0.7, -6.0)],
)
def test_scores_are_divided_by_a_power_of_the_length(
    log_probability: float, length: int, penalty: float, score: float
) -> None:
    assert normalised(log_probability, length, penalty) == pytest.approx(score)
