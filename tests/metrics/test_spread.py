"""Student's t against printed tables and against the integral of its density."""

import math

import pytest

from regard.errors import UsageError
from regard.metrics.spread import spread, student_mass, student_quantile

TABLE = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 9: 2.262, 10: 2.228, 30: 2.042, 120: 1.980}
"""Two-sided 95 % quantiles as every textbook prints them."""


@pytest.mark.parametrize("degrees", TABLE)
def test_quantiles_are_those_of_the_tables(degrees: int) -> None:
    assert student_quantile(0.95, degrees) == pytest.approx(TABLE[degrees], abs=6e-4)


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 7, 12])
@pytest.mark.parametrize("t", [0.3, 1.0, 2.5])
def test_the_mass_is_the_integral_of_the_density(degrees: int, t: float) -> None:
    scale = math.gamma((degrees + 1) / 2) / (math.sqrt(degrees * math.pi) * math.gamma(degrees / 2))
    steps = 4000
    inside = sum(
        scale * (1 + ((number + 0.5) * t / steps) ** 2 / degrees) ** (-(degrees + 1) / 2) for number in range(steps)
    )
    assert student_mass(t, degrees) == pytest.approx(2 * inside * t / steps, abs=1e-7)


def test_means_and_intervals() -> None:
    found = spread([1.0, 2.0, 3.0])
    assert (found.mean, found.count) == (2.0, 3)
    assert found.low == pytest.approx(2 - 4.30265 / math.sqrt(3), abs=1e-4)
    assert found.high == pytest.approx(2 + 4.30265 / math.sqrt(3), abs=1e-4)
    assert str(found) == "2.000 ± 2.484"
    assert str(spread([30.0, 31.0])) == "30.50 ± 6.35"
    assert found.to_json()["n"] == 3
    one = spread([12.5])
    assert (one.low, one.high, str(one)) == (None, None, "12.50")
    lost = spread([1.0, math.inf])
    assert lost.to_json() == {"mean": None, "low": None, "high": None, "n": 2, "values": [1.0, None]}


def test_what_has_no_mean() -> None:
    with pytest.raises(UsageError, match="there is no mean of no values"):
        spread([])
    with pytest.raises(UsageError, match=r"level = 2: must lie between 0 and 1, such as 0.95"):
        spread([1.0], level=2)
