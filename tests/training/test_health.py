"""Runs that go wrong are told so, in words and once; runs that go well are left in peace."""

import math
import re
from collections.abc import Callable, Iterable, Sequence

import pytest

from regard.training import (
    Event,
    Health,
    Progress,
    Sampled,
    Shown,
    Skipped,
    Started,
    StartedFrom,
    Stepped,
    Validated,
    Warned,
)
from regard.training.health import loop_in

EVERY = 20


def stepped(
    step: int,
    loss: float,
    *,
    norm: float = 1.0,
    rate: float = 0.001,
    clipped: float = 0.0,
) -> Stepped:
    return Stepped(Progress(step=step), loss, loss, rate, norm, 1000.0, clipped=clipped)


def curve(loss: Callable[[int], float], *, steps: int = 1000, **more: Callable[[int], float]) -> list[Event]:
    """A report every 20 steps."""
    return [
        stepped(step, loss(step), **{name: value(step) for name, value in more.items()})
        for step in range(EVERY, steps + 1, EVERY)
    ]


def validations(*losses: float, every: int = 100, gained: Sequence[bool] = ()) -> list[Event]:
    best = math.inf
    found: list[Event] = []
    for number, loss in enumerate(losses, start=1):
        better = gained[number - 1] if gained else loss < best
        best = min(best, loss)
        found.append(Validated(Progress(step=number * every), loss, {}, better))
    return found


def sampled(step: int, *outputs: str, references: Sequence[str | None] = ()) -> Sampled:
    references = references or [f"reference {number}" for number in range(len(outputs))]
    return Sampled(
        Progress(step=step),
        tuple(
            Shown(f"source {number}", reference, output)
            for number, (output, reference) in enumerate(zip(outputs, references, strict=True))
        ),
    )


def in_order(*events: Event) -> list[Event]:
    return sorted(events, key=lambda event: event.progress.step)


def warned(events: Iterable[Event], *, warmup: int = 100, clip: float = 1.0, **more: float | bool) -> list[Warned]:
    health = Health(warmup=warmup, clip=clip, **more)  # type: ignore[arg-type]
    return [warning for event in events for warning in health(event)]


def good(step: int) -> float:
    return 0.3 + 4 * math.exp(-step / 200)


WRONG: dict[str, tuple[list[Event], str, int, str]] = {
    "flat": (
        curve(lambda step: 4.0 + 0.01 * math.sin(step)),
        "flat",
        400,
        r"the loss was 4\.009 at step 20 and is 4\.001 at step 400: hardly anything is learned",
    ),
    "diverging": (
        curve(lambda step: good(step) if step < 500 else 3.0),
        "diverging",
        580,
        r"the loss has risen from 0\.6\d\d at step 480 to 3\.000 at step 580",
    ),
    "exploding": (
        curve(lambda step: 2.0 if step > 20 else 3.0, norm=lambda step: 0.5 if step < 400 else 40.0),
        "exploding",
        480,
        r"the gradient's norm was about 0\.5 and is 40 since step 400\. Gradients explode",
    ),
    "vanishing": (
        curve(lambda step: 4.0 if step < 100 else 3.5, norm=lambda step: 2.0 if step < 200 else 1e-4),
        "vanishing",
        400,
        r"the gradient's norm has gone from about 2 to 0\.0001, but the loss is still 3\.500 \(it was 4\.000\)",
    ),
    "overfitting": (
        in_order(*curve(good), *validations(2.0, 1.5, 1.6, 1.7, 1.8, 1.9)),
        "overfitting",
        500,
        r"the validation loss has risen from 1\.500 at step 200, its best, to 1\.800, while the training loss fell "
        r"from 2\.\d+ to 0\.\d+.*learns the training data by heart",
    ),
    "alike": (
        [sampled(step, "a man", "a man", "a man") for step in (100, 400, 500, 600)],
        "alike",
        500,
        "the outputs for 3 different sources are all the same, now and at the validation before: “a man”",
    ),
    "empty": ([sampled(step, "", "", "") for step in (500, 600)], "alike", 600, "all the same.*before: nothing"),
    "repeating": (
        [sampled(step, "x", "ja ja ja ja ja ja ja", "y") for step in (500, 600)],
        "repeating",
        600,
        "an output repeats “ja” 7 times: “ja ja ja ja ja ja ja”",
    ),
    "zero rate": (
        [Started(Progress(), 100, None), *curve(good, steps=100, rate=lambda step: 0.0 if step > 50 else 0.1)],
        "rate",
        60,
        "the learning rate is 0 at step 60, so nothing is learned any more",
    ),
    "clipped": (
        curve(good, norm=lambda _: 25.0, clipped=lambda _: 0.95),
        "clipped",
        400,
        "95% of the updates since step 220 were clipped: the gradient's norm is about 25, and training.clip allows 1",
    ),
    "skipped": (
        [Skipped(Progress(step=step), "nan") for step in (3, 10, 11, 12, 90)],
        "skipped",
        90,
        "5 updates since step 3 were left out because their numbers were not finite",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_told_once(name: str) -> None:
    events, kind, step, text = WRONG[name]
    told = warned(events)
    assert [(one.kind, one.progress.step) for one in told] == [(kind, step)]
    assert re.search(text, told[0].text), told[0].text


FINE: dict[str, list[Event]] = {
    "a loss that falls and stays": in_order(*curve(good), *validations(2.0, 1.0, 0.9, 0.91, 0.9, 0.92)),
    "noise": curve(lambda step: good(step) * (1 + 0.05 * math.sin(step))),
    "norms that fall with the loss": curve(good, norm=lambda step: math.exp(-step / 50)),
    "norms that grow tenfold": curve(good, norm=lambda step: 0.5 if step < 500 else 5.0),
    "most gradients clipped a little": curve(good, norm=lambda _: 3.0, clipped=lambda _: 1.0),
    "a loss near nothing that doubles": curve(lambda step: 3.0 if step < 100 else 0.01 if step < 500 else 0.3),
    "a peak": curve(lambda step: 3.0 if step in (500, 520, 540) else good(step)),
    "the last step of a linear schedule": [
        Started(Progress(), 100, None),
        *curve(good, steps=100, rate=lambda step: (100 - step) / 100),
    ],
    "validation rises with training": in_order(
        *curve(lambda step: good(step) if step < 200 else 2.4), *validations(2.0, 1.5, 1.7, 1.8, 1.9)
    ),
    "the loss rises but the metric gains": in_order(
        *curve(good), *validations(2, 1.5, 1.7, 1.8, 1.9, gained=[True] * 5)
    ),
    "outputs alike at the beginning": [sampled(step, "a", "a", "a") for step in (100, 200, 300)],
    "outputs alike once": [sampled(500, "a", "a", "a"), sampled(600, "a", "b", "a"), sampled(700, "a", "a", "a")],
    "labels alike": [sampled(step, "yes", "yes", "yes", references=["yes", "yes", "no"]) for step in (500, 600, 700)],
    "references repeat, too": [
        sampled(step, "ha ha ha ha ha ha", references=["ha ha ha ha ha ha ha"]) for step in (500, 600)
    ],
    "four accidents": [Skipped(Progress(step=step), "nan") for step in (3, 10, 11, 12, 1500)],
    "a start from learned weights": [StartedFrom(Progress(), "runs/a", ()), *curve(lambda _: 0.4)],
    "a training that goes on without its log": [
        Started(Progress(step=5000), 9000, None),
        *(stepped(step, 0.4) for step in range(5020, 6000, 20)),
    ],
}


@pytest.mark.parametrize("name", FINE)
def test_what_goes_well_is_left_in_peace(name: str) -> None:
    assert warned(FINE[name]) == []


def test_what_went_away_is_told_again_when_it_comes_back() -> None:
    def loss(step: int) -> float:
        return 3.0 if step < 100 or 500 <= step < 700 or step >= 900 else 0.5

    assert [one.progress.step for one in warned(curve(loss))] == [580, 980]
    flicker = curve(lambda step: 0.5 if 100 < step < 500 or step == 600 else 3.0)
    assert [one.progress.step for one in warned(flicker)] == [580]


def test_an_objective_that_changes_may_rise() -> None:
    rising = curve(lambda step: good(step) if step < 500 else 3.0)
    assert warned(rising, steady=False) == []


def test_a_training_that_broke_at_once_is_held_against_guessing() -> None:
    broken = curve(lambda step: 200 - 0.1 * step)
    assert warned(broken) == []
    (told,) = warned(broken, guessing=math.log(12))
    assert (told.kind, told.progress.step) == ("diverging", 400)
    assert "the loss is 160.000 at step 400, far above the 2.485 of guessing any token" in told.text
    assert warned(curve(good), guessing=math.log(12)) == []


@pytest.mark.parametrize(
    ("text", "part", "count"),
    [
        ("", "", 0),
        ("a b c", "", 0),
        ("a a", "a", 2),
        ("x a b a b a b y", "a b", 3),
        ("the cat the cat the cat the cat", "the cat", 4),
        ("hahaha", "ha", 3),
        ("aaaa", "a", 4),
        ("a b c d e a b c d e", "", 0),
    ],
)
def test_loops(text: str, part: str, count: int) -> None:
    found, times = loop_in(text)
    assert times == count
    assert set(found.split()) == set(part.split())
    assert sorted(found) == sorted(part)
