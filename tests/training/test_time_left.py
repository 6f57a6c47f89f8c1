"""The time left, by hand."""

import pytest

from regard.training import Progress, Started, Stepped, TimeLeft, Validated


def at(step: int, seconds: float) -> Progress:
    return Progress(step=step, seconds=seconds)


def stepped(step: int, seconds: float) -> Stepped:
    return Stepped(at(step, seconds), 1.0, 1.0, 0.1, 1.0, 10.0)


def test_steps_and_validations_are_measured_apart() -> None:
    left = TimeLeft()
    assert left.seconds is None
    left(Started(at(0, 0.0), 100, 60.0, validate_every=25, validation_seconds=4.0))
    assert left.seconds == 60.0
    left(stepped(20, 10.0))
    assert left.seconds == pytest.approx(80 * 0.5 + 4 * 4.0)  # validations at 25, 50, 75 and 100
    left(Validated(at(25, 18.5), 1.0, {}, True, seconds=6.0))
    assert left.seconds == pytest.approx(75 * 0.5 + 3 * 6.0)
    left(stepped(40, 26.0))
    assert left.seconds == pytest.approx(60 * 0.5 + 3 * 6.0)
    left(stepped(110, 60.0))
    assert left.seconds == 0.0


def test_a_training_that_goes_on_counts_from_there() -> None:
    left = TimeLeft()
    left(Started(at(1000, 500.0), 1100, 20.0, validate_every=50, validation_seconds=2.0))
    left(stepped(1010, 503.0))
    assert left.seconds == pytest.approx(90 * 0.3 + 2 * 2.0)


def test_minutes_limit_what_steps_do_not() -> None:
    left = TimeLeft()
    left(Started(at(0, 0.0), None, 120.0, most_seconds=120.0))
    left(stepped(20, 50.0))
    assert left.seconds == 70.0
    left(Started(at(0, 0.0), 1000, 120.0, most_seconds=120.0))
    left(stepped(20, 50.0))
    assert left.seconds == 70.0
    left(Started(at(0, 0.0), None, None))
    left(stepped(20, 50.0))
    assert left.seconds is None
