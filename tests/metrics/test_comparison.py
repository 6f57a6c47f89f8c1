"""Paired comparisons against sacrebleu and a plain loop."""

import math
import random
from typing import Any

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.significance import PairedTest

from regard.errors import DataError, UsageError
from regard.metrics import metric
from regard.metrics.comparison import compare
from regard.metrics.resampling import resampled_totals

WORDS = ("the", "a", "cat", "dog", "sees", "likes", "no", "big", "small", "house", "tree", "runs")


def texts(count: int, seed: int) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(4, 12))) for _ in range(count)]


def spoiled(lines: list[str], rate: float, seed: int) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choice(WORDS) if draw.random() < rate else word for word in line.split()) for line in lines]


@pytest.mark.parametrize(("name", "theirs"), [("BLEU", BLEU), ("chrF", CHRF)])
def test_values_are_those_of_sacrebleu_and_p_its_other_side_too(
    name: str, theirs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SACREBLEU_SEED", "12345")
    references = texts(60, 1)
    first, other = spoiled(references, 0.35, 2), spoiled(references, 0.3, 3)
    ours = compare(metric(name), first, other, [[line] for line in references], resamples=300)
    systems = [("first", first), ("other", other)]
    test = PairedTest(systems, {name: theirs(references=[references])}, None, test_type="bs", n_samples=300)
    _, scores = test()
    baseline, system = next(scores[key] for key in scores if key.startswith(name))
    assert ours.first == pytest.approx(baseline.score)
    assert ours.other == pytest.approx(system.score)
    assert system.p_value <= ours.p_value <= 3 * system.p_value
    assert ours.value == pytest.approx(system.score - baseline.score)
    assert ours.signature.startswith("nrefs:1|paired_bs:300|seed:12345|")
    assert 0 < ours.p_value < 1


def test_the_interval_is_that_of_a_plain_loop() -> None:
    references = [[line] for line in texts(40, 4)]
    first = [one if number % 3 else "no" for number, (one,) in enumerate(references)]
    other = [one if number % 4 else "no" for number, (one,) in enumerate(references)]
    found = compare(metric("exact"), first, other, references, resamples=200, seed=7)
    drawn = np.random.default_rng(7).integers(0, 40, size=(200, 40))
    right = [np.array([out == one for out, (one,) in zip(side, references, strict=True)]) for side in (first, other)]
    differences = sorted(100 * float(right[1][row].mean() - right[0][row].mean()) for row in drawn)
    assert (found.low, found.high) == pytest.approx((differences[5], differences[194]))
    assert found.value == pytest.approx(100 * (right[1].mean() - right[0].mean()))
    mean = sum(differences) / 200
    far = [abs(one - mean) >= abs(found.value) - 1e-9 for one in differences]
    assert found.p_value == pytest.approx((sum(far) + 1) / 201)
    assert 0.01 < found.p_value < 0.9
    assert found.to_json()["difference"] == found.value
    assert found.count == 40


def test_the_same_outputs_do_not_differ() -> None:
    lines = texts(10, 5)
    found = compare(metric("BLEU"), lines, lines, [[line] for line in lines], resamples=50)
    assert (found.value, found.low, found.high, found.p_value) == (0, 0, 0, 1)


@pytest.mark.parametrize(
    ("count", "options", "error", "told"),
    [
        (2, {"resamples": 0}, UsageError, "resamples = 0: a comparison needs at least 1"),
        (2, {"level": 1.0}, UsageError, "level = 1.0: must lie between 0 and 1, such as 0.95"),
        (1, {}, DataError, "exact: 1 segment cannot be resampled; a comparison needs 2 or more"),
    ],
)
def test_what_cannot_be_compared(count: int, options: dict[str, Any], error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        compare(metric("exact"), ["a"] * count, ["b"] * count, [["a"]] * count, **options)


def test_resamples_of_empty_references_alone_say_nothing() -> None:
    """Their error rates have no end; of the others the p-value is that of a plain count."""
    first, other, references = ["a", "x", "c"], ["b", "y", "c"], [["a"], [""], ["c"]]
    found = compare(metric("WER"), first, other, references, resamples=400)
    statistics = [metric("WER").statistics(outputs, references) for outputs in (first, other)]
    drawn = [resampled_totals(one, resamples=400, seed=12345) for one in statistics]
    kept = [row for row in range(400) if drawn[0][row, 1] > 0]
    assert 300 < len(kept) < 400
    differences = [100 * (drawn[1][row, 0] - drawn[0][row, 0]) / drawn[0][row, 1] for row in kept]
    mean = sum(differences) / len(kept)
    far = sum(abs(one - mean) >= found.value - 1e-9 for one in differences)
    assert found.p_value == pytest.approx((far + 1) / (len(kept) + 1))
    assert found.p_value > 0.1
    assert math.isfinite(found.low)
    assert math.isfinite(found.high)
    with pytest.raises(DataError, match="WER is inf and inf: error rates of empty references have no end and cannot"):
        compare(metric("WER"), ["a", "b"], ["c", "d"], [[""], [""]], resamples=10)


def test_outputs_of_other_numbers_are_refused() -> None:
    with pytest.raises(DataError, match="3 hypotheses but references for 2 segments"):
        compare(metric("exact"), ["a", "b"], ["a", "b", "c"], [["a"], ["b"]])
