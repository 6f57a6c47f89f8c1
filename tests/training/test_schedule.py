"""Learning rates against closed forms; what a training remembers of itself."""

import json
import math
from dataclasses import replace
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as some

from regard.data.batches import Cursor
from regard.training import Progress, Settings, learning_rate


@pytest.mark.parametrize("warmup", [0, 1, 7, 400])
@pytest.mark.parametrize("step", [1, 2, 6, 7, 8, 399, 400, 401, 10_000])
def test_inverse_sqrt_is_the_minimum_of_a_line_and_a_root(warmup: int, step: int) -> None:
    rate = learning_rate(step, Settings(seed=1, learning_rate=0.3, warmup=warmup))
    if warmup == 0:
        assert rate == pytest.approx(0.3 / math.sqrt(step))
        return
    scale = 0.3 * math.sqrt(warmup)  # Vaswani et al. 2017, equation 3, with scale in the place of the width's root
    assert rate == pytest.approx(scale * min(step**-0.5, step * warmup**-1.5))


@pytest.mark.parametrize(
    ("step", "expected"), [(1, 0.05), (2, 0.1), (3, 0.15), (4, 0.2), (5, 0.2), (1000, 0.2)], ids=str
)
def test_constant_rises_and_stays(step: int, expected: float) -> None:
    settings = Settings(seed=1, learning_rate=0.2, warmup=4, schedule="constant")
    assert learning_rate(step, settings) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("linear", [0.1, 0.2, 0.15, 0.1, 0.05, 0.0]),
        ("cosine", [0.1, 0.2, 0.1 + 0.1 * 2**-0.5, 0.1, 0.1 - 0.1 * 2**-0.5, 0.0]),
    ],
)
def test_schedules_that_end_reach_nothing_after_the_last_step(
    schedule: Literal["linear", "cosine"], expected: list[float]
) -> None:
    settings = Settings(seed=1, learning_rate=0.2, warmup=2, schedule=schedule, steps=5)
    assert [learning_rate(step, settings) for step in range(1, 7)] == pytest.approx(expected)
    assert learning_rate(100, settings) == pytest.approx(0.0)


def test_constant_without_warmup_is_constant_from_the_first_step() -> None:
    settings = Settings(seed=1, learning_rate=0.2, warmup=0, schedule="constant")
    assert [learning_rate(step, settings) for step in (1, 2, 99)] == [0.2] * 3


@given(
    some.builds(
        Progress,
        step=some.integers(0, 2**40),
        epoch=some.integers(0, 2**40),
        position=some.integers(0, 2**40),
        tokens=some.integers(0, 2**60),
        seconds=some.floats(0, 1e12),
        best=some.none() | some.floats(allow_nan=False),
        best_step=some.integers(0, 2**40),
        without_gain=some.integers(0, 2**20),
        skipped=some.integers(0, 9),
        validated=some.lists(some.integers(0, 2**40), max_size=5).map(tuple),
    )
)
def test_progress_survives_json(progress: Progress) -> None:
    assert Progress.from_json(json.loads(json.dumps(progress.to_json()))) == progress


def test_progress_moves_with_the_cursor() -> None:
    moved = Progress(step=3).moved(Cursor(epoch=2, position=5))
    assert (moved.step, moved.cursor) == (3, Cursor(epoch=2, position=5))


def test_judgements_are_counted_and_the_best_is_the_first_of_equals() -> None:
    progress = Progress()
    for step, value in ((10, -3.0), (20, -2.0), (30, -2.0), (40, -5.0)):
        progress = replace(progress, step=step).judged(value, average=3)
    assert (progress.best, progress.best_step, progress.without_gain) == (-2.0, 20, 2)
    assert progress.validated == (20, 30, 40)


def test_a_validation_that_is_not_a_number_is_never_the_best() -> None:
    progress = Progress(step=1).judged(math.nan, average=1)
    assert (progress.best, progress.best_step, progress.without_gain) == (None, 0, 1)
    progress = replace(progress, step=2).judged(-7.0, average=1)
    assert (progress.best, progress.best_step, progress.without_gain) == (-7.0, 2, 0)


def test_a_lost_best_makes_room_for_any_later_one() -> None:
    progress = Progress(step=40, best=-2.0, best_step=20, validated=(20, 30, 40)).without({20})
    assert (progress.best, progress.best_step, progress.validated) == (None, 0, (30, 40))
    assert progress.without(()) == progress
