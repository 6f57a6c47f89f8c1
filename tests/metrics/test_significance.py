"""Approximate randomisation against every swap, and both tests against systems that are equal or clearly apart."""

import random
from itertools import product

import pytest

from regard.errors import DataError, UsageError
from regard.metrics import ExactMatch, Metric, evaluate, metric, randomisation, randomised_p_value
from regard.metrics.significance import Outputs, compare_with_first


def corpus(seed: int, size: int, right: float) -> list[str]:
    chance = random.Random(seed)
    return ["a b c d e f" if chance.random() < right else "a b x d y f" for _ in range(size)]


GOLD = ["a b c d e f"]


def every_swap(own: Metric, first: list[str], other: list[str], references: list[list[str]]) -> float:
    """The exact p-value: the share of all 2^n ways to swap outputs."""

    def difference(swaps: tuple[bool, ...]) -> float:
        sides = [
            [pair[swap ^ side] for swap, pair in zip(swaps, zip(first, other, strict=True), strict=True)]
            for side in (False, True)
        ]
        left, right = (evaluate(own, side, references, resamples=0).value for side in sides)
        return abs(right - left)

    real = difference((False,) * len(first))
    values = [difference(swaps) for swaps in product((False, True), repeat=len(first))]
    return sum(value >= real - 1e-9 for value in values) / len(values)


@pytest.mark.parametrize(("name", "seed"), [("exact", 1), ("exact", 2), ("WER", 3), ("chrF", 4)])
def test_randomisation_comes_near_to_every_swap(name: str, seed: int) -> None:
    references = [GOLD] * 8
    first, other = corpus(seed, 8, 0.3), corpus(seed + 50, 8, 0.8)
    exact = every_swap(metric(name), first, other, references)
    found = randomised_p_value(metric(name), first, other, references, trials=4000)
    assert found == pytest.approx(exact, abs=0.03)


def test_trials_are_the_same_however_they_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    references = [GOLD] * 30
    pair = corpus(1, 30, 0.4), corpus(2, 30, 0.6)
    whole = randomised_p_value(ExactMatch(), *pair, references, trials=500)
    monkeypatch.setattr(randomisation, "SEGMENTS_AT_ONCE", 30 * 7)
    assert randomised_p_value(ExactMatch(), *pair, references, trials=500) == whole
    assert randomised_p_value(ExactMatch(), *pair, references, trials=500, seed=1) != whole


@pytest.mark.parametrize("name", ["BLEU", "chrF", "TER", "exact", "WER"])
def test_equal_systems_are_open_and_better_ones_are_better(name: str) -> None:
    references = [GOLD] * 100
    systems = [
        Outputs(system, corpus(seed, 100, right))
        for system, seed, right in (("one", 1, 0.5), ("the same", 1, 0.5), ("good", 2, 0.9), ("bad", 3, 0.1))
    ]
    found = compare_with_first(metric(name), systems, references, resamples=300, trials=300)
    assert [(one.system, one.verdict) for one in found] == [("the same", "open"), ("good", "better"), ("bad", "worse")]
    same, good, _ = found
    assert (same.difference.value, same.difference.p_value, same.randomised) == (0, 1, 1)
    assert good.randomised == 1 / 301
    assert good.signature.endswith(f"|{metric(name).signature}|ar:300|ar_seed:12345")
    assert good.signature.startswith("nrefs:1|paired_bs:300|seed:12345|")
    record = good.to_json()
    assert record["randomised_p_value"] == good.randomised
    assert record["verdict"] == "better"


def test_chance_alone_is_seldom_significant() -> None:
    """Systems of the same quality: about one in twenty comparisons is significant at 5 % by each test."""
    references = [GOLD] * 60
    hits = 0
    for seed in range(60):
        pair = corpus(2 * seed, 60, 0.5), corpus(2 * seed + 1, 60, 0.5)
        hits += randomised_p_value(ExactMatch(), *pair, references, trials=199, seed=seed) < 0.05
    assert hits <= 8


def test_what_cannot_be_compared_is_refused() -> None:
    one, two = Outputs("a.txt", ["a"] * 3), Outputs("b.txt", ["a"] * 2)
    with pytest.raises(UsageError, match="1 system was given: a comparison needs 2 or more"):
        compare_with_first(ExactMatch(), [one], [["a"]] * 3)
    with pytest.raises(DataError, match=r"b.txt has 2 outputs, and there are 3 references: there must be one output"):
        compare_with_first(ExactMatch(), [one, two], [["a"]] * 3)
    with pytest.raises(UsageError, match="trials = 0: approximate randomisation needs at least 1"):
        randomised_p_value(ExactMatch(), ["a"] * 3, ["a"] * 3, [["a"]] * 3, trials=0)
    with pytest.raises(DataError, match="exact: 1 segment cannot be swapped with others"):
        randomised_p_value(ExactMatch(), ["a"], ["a"], [["a"]])
