"""Orders by weighted sums, weights that are tuned, and the files they are kept in."""

import random
from pathlib import Path

import numpy as np
import pytest

from regard.errors import DataError, UsageError
from regard.metrics import metric
from regard.search.reranking import (
    Parts,
    Table,
    Tuned,
    check_weights,
    even_weights,
    parse_weights,
    ranked,
    read_weights,
    tune,
    weighted_sum,
    write_weights,
)

NAMES = ("model", "right_to_left", "reverse", "length")


def planted(weights: dict[str, float], *, lists: int = 60, outputs: int = 6) -> tuple[list[list[Parts]], list[Table]]:
    """Lists in which the output with the greatest sum under some weights is the right one."""
    draw = random.Random(7)
    found: list[list[Parts]] = []
    statistics: list[Table] = []
    for _ in range(lists):
        parts = [
            {name: draw.uniform(-5, 0) for name in NAMES[:-1]} | {"length": float(draw.randint(1, 9))}
            for _ in range(outputs)
        ]
        best = max(range(outputs), key=lambda number: sum(weights[name] * parts[number][name] for name in NAMES))
        found.append(parts)
        statistics.append(np.array([[number == best, 1] for number in range(outputs)], dtype=np.float64))
    return found, statistics


def test_a_list_is_ordered_by_its_sums_and_what_was_not_judged_stands_last() -> None:
    lists = [{"model": -1.0, "reverse": -9.0}, {"model": -2.0}, {"model": -3.0, "reverse": -1.0}, {"model": -0.5}]
    weights = {"model": 1.0, "reverse": 0.5}
    assert [weighted_sum(parts, weights) for parts in lists] == [-5.5, -2, -3.5, -0.5]
    assert ranked(lists, weights, ("model", "reverse")) == [2, 0, 1, 3]
    assert ranked(lists, {"model": 1.0, "reverse": 0.0}, ("model", "reverse")) == [0, 2, 1, 3]
    assert ranked([{"model": -1.0}] * 3, {"model": 1.0}, ("model",)) == [0, 1, 2]


@pytest.mark.parametrize(
    "weights",
    [
        {"model": 1.0, "right_to_left": 0.5, "reverse": 0.0, "length": 0.0},
        {"model": 1.0, "right_to_left": 1.0, "reverse": 2.0, "length": -0.5},
        {"model": 1.0, "right_to_left": 0.0, "reverse": 0.3, "length": 1.0},
    ],
)
def test_tuning_finds_what_was_planted(weights: dict[str, float]) -> None:
    lists, statistics = planted(weights)
    tuned = tune(lists, statistics, names=NAMES, measure=metric("exact"))
    assert tuned == tune(lists, statistics, names=NAMES, measure=metric("exact"))
    assert tuned.value > 90 > 60 > tuned.before
    assert tuned.weights["model"] == 1
    for name in NAMES:
        assert tuned.weights[name] == pytest.approx(weights[name], abs=0.25)
    chosen = [ranked(one, tuned.weights, NAMES)[0] for one in lists]
    assert tuned.value == pytest.approx(100 * np.mean([s[row, 0] for s, row in zip(statistics, chosen, strict=True)]))
    assert tuned.before == pytest.approx(100 * np.mean([s[0, 0] for s in statistics]))


def test_what_is_of_no_use_has_no_weight_and_less_can_be_better() -> None:
    lists = [[{"model": -1.0, "reverse": -5.0, "length": 3.0}, {"model": -2.0, "reverse": -1.0, "length": 3.0}]] * 3
    edits = [np.array([[0.0, 4.0], [3.0, 4.0]])] * 3  # the first is right
    tuned = tune(lists, edits, names=("model", "reverse", "length"), measure=metric("WER"))
    assert tuned == Tuned(weights={"model": 1, "reverse": 0, "length": 0}, value=0, before=0)
    turned = [one[::-1] for one in edits]
    tuned = tune(lists, turned, names=("model", "reverse", "length"), measure=metric("WER"))
    assert (tuned.value, tuned.before) == (0, 75)
    assert tuned.weights == {"model": 1, "reverse": 0.3, "length": 0}  # -1 - 5 w < -2 - w, the least such weight


def test_outputs_without_all_parts_are_chosen_only_where_there_are_no_others() -> None:
    lists = [[{"model": -1.0, "length": 1.0}, {"model": -2.0, "reverse": -1.0, "length": 1.0}], [{"model": 0.0}]]
    statistics = [np.array([[0.0, 1.0], [1.0, 1.0]]), np.array([[1.0, 1.0]])]
    tuned = tune(lists, statistics, names=("model", "reverse", "length"), measure=metric("exact"))
    assert (tuned.value, tuned.before) == (100, 50)


def test_weights_in_a_file_and_as_typed(tmp_path: Path) -> None:
    tuned = Tuned(weights={"model": 1.0, "reverse": 0.3, "length": -0.5}, value=31.5, before=30.0)
    write_weights(tmp_path / "w.json", tuned, metric="BLEU", examples=12)
    assert read_weights(tmp_path / "w.json") == tuned.weights
    assert parse_weights("reverse=0.3, length=-.5") == {"reverse": 0.3, "length": -0.5}
    assert check_weights({"reverse": 0.3}, ("model", "reverse", "length")) == {"model": 1, "reverse": 0.3, "length": 0}
    assert even_weights(NAMES) == {"model": 1, "right_to_left": 1, "reverse": 1, "length": 0}


def test_what_is_no_weight_is_refused(tmp_path: Path) -> None:
    names = ("model", "reverse", "length")
    with pytest.raises(
        UsageError, match="a weight for 'lm', and the parts are model, reverse, length: leave it out, or"
    ):
        check_weights({"reverse": 1, "lm": 1}, names)
    with pytest.raises(UsageError, match="the weight of reverse must be a number, not inf"):
        check_weights({"reverse": float("inf")}, names)
    with pytest.raises(
        UsageError, match=r"there is no weight for reverse: give one for each run, such as reverse=0\.5"
    ):
        check_weights({"length": 1}, names)
    with pytest.raises(
        UsageError, match="'reverse' is no weight: write a file of `regard rerank --tune`, or NAME=NUMBER"
    ):
        parse_weights("length=1,reverse")
    with pytest.raises(UsageError, match=r"none\.json: cannot be read as weights \(.*No such file"):
        read_weights(tmp_path / "none.json")
    for content in ("[]", '{"format": 2, "weights": {}}', '{"format": 1, "weights": {"model": "1"}}', '{"format": 1}'):
        (tmp_path / "w.json").write_text(content)
        with pytest.raises(UsageError, match=r'w\.json: weights are \{"format": 1, "weights": \{"right_to_left": 0\.5'):
            read_weights(tmp_path / "w.json")
    empty: list[list[list[Parts]]] = [[], [[]]]
    for lists in empty:
        with pytest.raises(DataError, match="weights cannot be tuned: there is no list of outputs, or one of them is"):
            tune(lists, [np.zeros((0, 2))], names=names, measure=metric("exact"))
