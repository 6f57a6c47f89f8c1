"""What answers say: against figures worked by plain loops, and people who should not be believed."""

import json
import random
import statistics
from collections.abc import Callable

import pytest

from regard.errors import DataError
from regard.human import Campaign, Judgement
from regard.human.campaign import Task
from regard.human.kinds import Answer, Kind
from regard.human.results import Results, evaluate
from regard.human.table import render
from tests.human.making import campaign, judgement

GOOD = {"system-A": 3, "system-B": 2, "system-C": 1}


def respond(made: Campaign, say: Callable[[int, Task], Answer], seconds: float = 5.0) -> dict[str, Judgement]:
    return {
        task.id: judgement(task.id, say(number, task), seconds=seconds)
        for number, annotator in enumerate(made.annotators)
        for task in annotator.tasks
    }


def system(results: Results, name: str) -> dict[str, float]:
    found = next(each for each in results.systems if each.name == name)
    return {score.name: score.value for score in found.scores}


def test_direct_assessment_is_standardised_by_person_and_averaged_by_item() -> None:
    made = campaign(lines=30, annotators=2)
    chance = random.Random(1)
    scores = {}
    for number, annotator in enumerate(made.annotators):
        for task in annotator.tasks:
            quality = 20 * GOOD[task.shown[0][0]] + chance.gauss(0, 8)
            scores[task.id] = round(min(100, max(0, quality if number else 50 + quality / 4)))
    results = evaluate(made, {task: judgement(task, {"score": score}) for task, score in scores.items()})
    raw: dict[str, dict[int, list[float]]] = {name: {} for name in made.systems}
    standard: dict[str, dict[int, list[float]]] = {name: {} for name in made.systems}
    for annotator in made.annotators:
        firsts = [task for task in annotator.tasks if task.repeats is None]
        mean = statistics.fmean(scores[task.id] for task in firsts)
        deviation = statistics.stdev(scores[task.id] for task in firsts)
        for task in firsts:
            name = task.shown[0][0]
            raw[name].setdefault(task.item, []).append(scores[task.id])
            standard[name].setdefault(task.item, []).append((scores[task.id] - mean) / deviation)
    for name in made.systems:
        wanted = {
            "score": statistics.fmean(statistics.fmean(values) for values in raw[name].values()),
            "score z": statistics.fmean(statistics.fmean(values) for values in standard[name].values()),
        }
        assert system(results, name) == pytest.approx(wanted)
    assert [(each.name, each.cluster) for each in results.systems] == [
        ("system-A", 1), ("system-B", 2), ("system-C", 3)]  # fmt: skip
    for each in results.systems:
        for score in each.scores:
            assert score.low is not None
            assert score.high is not None
            assert score.low < score.value < score.high
            assert score.count == 30
    assert {tuple(each.p) for each in results.differences} == {("rank-sum", "bootstrap")}
    assert all(p < 0.01 for each in results.differences for p in each.p.values())
    between = {each.measure: each for each in results.between}
    assert between["Pearson's r"].value > 0.7
    assert between["Krippendorff's alpha, interval"].value > 0.7
    assert results.warnings == ()


def test_adequacy_and_fluency_are_judged_apart() -> None:
    made = campaign("adequacy-fluency", lines=15)
    results = evaluate(
        made, respond(made, lambda _, task: {"adequacy": GOOD[task.shown[0][0]], "fluency": 1 + task.item % 5})
    )
    assert system(results, "system-A")["adequacy"] == 3
    assert [system(results, name)["fluency"] for name in made.systems] == [3, 3, 3]
    assert [each.value for each in results.within] == [1, 1, 1, 1]
    assert {each.measure for each in results.within} == {"Cohen's kappa, quadratic"}
    assert {each.about for each in results.differences} == {"adequacy z", "fluency z"}
    assert [each.cluster for each in results.systems] == [1, 2, 3]


@pytest.mark.parametrize("kind", ["pairwise", "ranking"])
def test_comparisons_count_wins_whatever_the_order_on_the_page(kind: Kind) -> None:
    made = campaign(kind, lines=20)

    def say(number: int, task: Task) -> Answer:
        """The second person finds B and C equal on even items."""
        goods = [GOOD[group[0]] for group in task.shown]
        if number == 1 and task.item % 2 == 0:
            goods = [max(good, 2) for good in goods]
        if kind == "pairwise":
            return {"choice": "equal" if goods[0] == goods[1] else ("first" if goods[0] > goods[1] else "second")}
        return {"ranks": [1 + sum(other > good for other in goods) for good in goods]}

    results = evaluate(made, respond(made, say))
    found = {each.name: (each.wins, each.losses, each.ties) for each in results.systems}
    assert found == {"system-A": (80, 0, 0), "system-B": (30, 40, 10), "system-C": (0, 70, 10)}
    assert [system(results, name)["expected wins"] for name in made.systems] == [1, 0.5, 0]
    assert [each.cluster for each in results.systems] == [1, 2, 3]
    strengths = [each.strength for each in results.systems]
    assert strengths == sorted(strengths, key=lambda value: -(value or 0))
    sign = {(each.first, each.second): each.p["sign"] for each in results.differences}
    assert sign["system-B", "system-C"] == pytest.approx(2 / 2**20)
    between = {each.measure: each for each in results.between}
    # Over 60 units and their reverses person 1 says > and < half the time each, person 2 has = in 10 of 60:
    # p_o = 50/60, p_e = 2 · 1/2 · 25/60 = 5/12.
    assert between["Cohen's kappa"].same == pytest.approx(50 / 60)
    assert between["Cohen's kappa"].value == pytest.approx((50 / 60 - 5 / 12) / (1 - 5 / 12))
    assert all(each.same == 1 for each in results.within)


def test_kappa_of_relations_by_hand() -> None:
    """Two people over eight items: six times alike (A 3, B 3), twice not: p_o = 6/8, p_e = 1/2."""
    made = campaign("pairwise", systems=2, lines=8, repeats=0)

    def say(number: int, task: Task) -> Answer:
        better = "system-A" if task.item % 2 == 0 else "system-B"
        if number == 1 and task.item in (0, 1):
            better = "system-B" if better == "system-A" else "system-A"
        return {"choice": "first" if task.shown[0] == (better,) else "second"}

    results = evaluate(made, respond(made, say))
    assert next(each for each in results.between if each.measure == "Cohen's kappa").value == pytest.approx(0.5)
    assert [system(results, name)["expected wins"] for name in made.systems] == [0.5, 0.5]
    assert [each.cluster for each in results.systems] == [1, 1]


def test_equal_texts_get_one_answer_that_counts_for_both() -> None:
    from regard.human import Plan, make_campaign

    outputs = {"A": ["same"] * 4, "B": ["same"] * 4, "C": ["other"] * 4}
    plan = Plan(kind="direct", items=4, annotators=1, repeats=0)
    made = make_campaign(plan, sources=["x"] * 4, outputs=outputs)
    results = evaluate(made, respond(made, lambda _, task: {"score": 80 if len(task.shown[0]) == 2 else 40}))
    assert results.answers == 8
    assert {name: system(results, name)["score"] for name in "ABC"} == {"A": 80, "B": 80, "C": 40}


def test_repeats_do_not_count_twice() -> None:
    made = campaign(lines=20, annotators=1, repeats=0.5)
    results = evaluate(made, respond(made, lambda _, task: {"score": 100 if task.repeats else 10 * (task.item % 5)}))
    assert system(results, "system-A")["score"] == 20


@pytest.mark.parametrize(
    ("kind", "say", "seconds", "warning"),
    [
        ("direct", lambda _, task: {"score": task.item}, 0.5, "annotator-1 answers too fast: 100% of the answers came"),
        (
            "pairwise",
            lambda *_: {"choice": "first"},
            5,
            "gives nearly always the same answer: {'choice': 'first'} in 48",
        ),
        ("direct", lambda *_: {"score": 50}, 5, "annotator-2 gives nearly always the same answer: {'score': 50}"),
        (
            "direct",
            lambda _, task: {"score": 90 - 8 * (task.item % 10) if task.repeats else 8 * (task.item % 10)},
            5,
            "annotator-1 disagrees with themselves on score: alpha -",
        ),
    ],
)
def test_people_who_should_not_be_believed(
    kind: Kind, say: Callable[[int, Task], Answer], seconds: float, warning: str
) -> None:
    made = campaign(kind, lines=12 if kind == "pairwise" else 20, repeats=1 / 3)
    results = evaluate(made, respond(made, say, seconds))
    assert any(warning in each for each in results.warnings), results.warnings


def test_what_is_missing_is_said() -> None:
    made = campaign(lines=12, shared=0.0)
    with pytest.raises(DataError, match="there are no answers yet; send annotators the links"):
        evaluate(made, {})
    one = made.annotators[0].tasks[0]
    results = evaluate(made, {one.id: judgement(one.id, {"score": 7})})
    total = len(made.annotators[0].tasks)
    assert results.warnings == (
        f"annotator-1 has answered 1 of {total} tasks",
        f"annotator-2 has answered 0 of {len(made.annotators[1].tasks)} tasks",
        "no item was judged by two annotators, so nothing is known of their agreement",
    )
    record = json.loads(json.dumps(results.to_json(), allow_nan=False))
    assert sum(each["scores"]["score"]["value"] is None for each in record["systems"]) == 2
    assert record["systems"][0]["scores"]["score"]["value"] == 7
    assert record["differences"][0]["difference"] is None
    assert "–" in render(results)
    assert "agreement: nothing was judged twice" in render(results)


@pytest.mark.parametrize("kind", ["adequacy-fluency", "direct", "pairwise", "ranking"])
def test_the_table_and_json_hold_everything(kind: Kind) -> None:
    made = campaign(kind, lines=10)
    chance = random.Random(6)

    def say(_: int, task: Task) -> Answer:
        match kind:
            case "adequacy-fluency":
                return {"adequacy": chance.randint(1, 5), "fluency": chance.randint(1, 5)}
            case "direct":
                return {"score": chance.randint(0, 100)}
            case "pairwise":
                return {"choice": chance.choice(["first", "second", "equal"])}
        return {"ranks": [chance.randint(1, len(task.shown)) for _ in task.shown]}

    results = evaluate(made, respond(made, say), resamples=200)
    json.dumps(results.to_json(), allow_nan=False)
    table = render(results)
    for word in (
        "cluster",
        *made.systems,
        "annotator-2",
        "difference",
        "between",
        "within",
        f"{results.answers} answers",
    ):
        assert word in table
    assert max(map(len, table.splitlines())) <= 120
