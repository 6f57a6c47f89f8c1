"""Scores, names, and the bootstrap against a loop and the normal approximation."""

import json
import math
from collections.abc import Sequence

import numpy as np
import pytest

from regard.errors import DataError, UsageError
from regard.metrics import NAMES, EditDistance, ExactMatch, Score, evaluate, metric, perplexity, resampling
from regard.metrics.resampling import interval, resampled_totals


@pytest.mark.parametrize("name", NAMES)
def test_every_name_gives_its_metric_and_judges_perfect_outputs_best(name: str) -> None:
    found = metric(name)
    assert found.name == name
    texts = ["der Hund mag die Katze nicht .", "die Katze mag den Hund ."] * 5
    wrong = [f"x {text[3:]}" for text in texts]
    if name in ("pearson", "spearman", "squared_error"):
        texts, wrong = ["1.5", "-2", "3e1"] * 5, ["2", "7", "-1"] * 5
    elif name == "bracket_F1":
        texts, wrong = ["(S (A x y) z)"] * 10, ["(S x (A y z))"] * 10
    elif name == "AER":
        texts, wrong = ["0-0 1-1"] * 10, ["0-1 1-1"] * 10
    elif name == "slot_error":
        texts, wrong = ["name[Aromi]"] * 10, ["a place"] * 10
    references = [[text] for text in texts]
    perfect = evaluate(found, texts, references, resamples=50)
    broken = evaluate(found, wrong, references, resamples=50)
    assert perfect.value == pytest.approx(100.0 if found.higher_is_better else 0.0)
    assert (perfect.value > broken.value) == found.higher_is_better == perfect.higher_is_better
    half = evaluate(found, texts[:5] + wrong[5:], references, resamples=50)
    assert half.low is not None
    assert half.high is not None
    assert half.low <= half.value <= half.high
    assert half.low < half.high


def test_names_are_those_of_recipes() -> None:
    schema = pytest.importorskip("regard.recipe.schema")
    assert set(NAMES) == set(schema.MetricName.__args__)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("bleu", r"unknown metric 'bleu': must be one of BLEU, .*; did you mean BLEU\?"),
        ("ROUGE", r"unknown metric 'ROUGE': must be one of .*edit_distance, .*, squared_error$"),
    ],
)
def test_unknown_names_are_refused(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        metric(name)


@pytest.mark.parametrize(
    ("hypotheses", "references", "message"),
    [
        (["a", "b"], [["a"]], "2 hypotheses but references for 1 segments"),
        ([], [["a"]], "0 hypotheses but references for 1 segments"),
        ([], [], "0 hypotheses and 0 references"),
        (["a", "b"], [["a"], []], "segment 2 has no reference"),
        (["a"], ["a"], r"references of segment 1 are the text 'a': they must be a sequence of texts, \['a'\]"),
        ("a", [["a"]], "hypotheses must be a sequence of texts"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        evaluate(metric("BLEU"), hypotheses, references)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"resamples": -1}, "resamples = -1: must be 0"),
        ({"level": 1.0}, "level = 1.0: must lie between 0 and 1"),
        ({"seed": -3}, "seed = -3: must be 0 or more"),
    ],
)
def test_senseless_options_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        evaluate(ExactMatch(), ["a"], [["a"]], **options)  # type: ignore[arg-type]


def test_no_segments_are_refused_below_too() -> None:
    with pytest.raises(DataError, match=r"perplexity \(teacher-forced\): there are no segments to score"):
        perplexity([], [])


def test_resampled_totals_equal_a_loop_over_sacrebleus_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    statistics = np.random.default_rng(0).integers(0, 9, size=(23, 4)).astype(float)
    drawn = np.random.default_rng(12345).choice(23, size=(40, 23), replace=True)
    expected = np.array([statistics[row].sum(axis=0) for row in drawn])
    assert (resampled_totals(statistics, resamples=40, seed=12345) == expected).all()
    monkeypatch.setattr(resampling, "CELLS_AT_ONCE", 7 * 23)
    assert (resampled_totals(statistics, resamples=40, seed=12345) == expected).all()


def test_interval_cuts_as_many_below_as_above() -> None:
    values = np.arange(1000.0)[::-1]
    assert interval(values, level=0.95) == (25.0, 974.0)
    assert interval(values, level=0.9) == (50.0, 949.0)
    assert interval(np.array([3.0]), level=0.95) == (3.0, 3.0)


@pytest.mark.parametrize(("right", "segments"), [(700, 1000), (180, 200)])
def test_interval_of_a_share_is_near_the_normal_approximation(right: int, segments: int) -> None:
    hypotheses = ["a"] * right + ["b"] * (segments - right)
    score = evaluate(ExactMatch(), hypotheses, [["a"]] * segments, resamples=4000)
    share = right / segments
    half = 100 * 1.96 * math.sqrt(share * (1 - share) / segments)
    assert score.low == pytest.approx(score.value - half, abs=half / 6)
    assert score.high == pytest.approx(score.value + half, abs=half / 6)


def test_the_same_seed_gives_the_same_interval_and_another_another() -> None:
    pair = (["a" * length for length in range(97)], [[""]] * 97)
    first, again, other = (evaluate(EditDistance(), *pair, resamples=101, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert (first.low, first.high) != (other.low, other.high)
    assert first.signature.startswith("nrefs:1|bs:101|seed:1|")


@pytest.mark.parametrize(("count", "resamples"), [(1, 100), (5, 0)])
def test_no_interval_from_one_segment_or_without_resamples(count: int, resamples: int) -> None:
    score = evaluate(ExactMatch(), ["a"] * count, [["a"]] * count, resamples=resamples)
    assert (score.low, score.high) == (None, None)
    assert "bs:" not in score.signature


def test_a_score_becomes_json_and_text() -> None:
    score = Score(
        name="BLEU", value=31.254, low=30.0, high=32.5, signature="nrefs:1", parts={"ratio": math.inf}, count=3
    )
    assert json.loads(json.dumps(score.to_json(), allow_nan=False)) == {
        "value": 31.254,
        "low": 30.0,
        "high": 32.5,
        "signature": "nrefs:1",
        "count": 3,
        "parts": {"ratio": None},
    }
    assert str(score) == "BLEU = 31.25 [30.00, 32.50]"
    assert str(Score(name="exact", value=1.0, low=None, high=None, signature="", count=1)) == "exact = 1.00"
