"""Who is asked what: everything once, blind, in an order of each person's own, repeats well apart."""

import re
from collections import Counter
from itertools import combinations

import pytest

from regard.errors import DataError, UsageError
from regard.human import Plan, make_campaign
from regard.human.campaign import Campaign, Task
from regard.human.kinds import KINDS, Kind
from tests.human.making import campaign


def asked(tasks: tuple[Task, ...]) -> Counter[tuple[int, tuple[tuple[str, ...], ...]]]:
    return Counter((task.item, tuple(sorted(task.shown))) for task in tasks if task.repeats is None)


@pytest.mark.parametrize("kind", KINDS)
def test_everybody_is_asked_everything_once(kind: Kind) -> None:
    made = campaign(kind, lines=9)
    names = [(name,) for name in made.systems]
    together = {"pairwise": list(combinations(names, 2)), "ranking": [tuple(names)]}.get(
        kind, [(name,) for name in names]
    )
    wanted = Counter((item, shown) for item in range(9) for shown in together)
    for annotator in made.annotators:
        assert asked(annotator.tasks) == wanted
    assert made.annotators[0].tasks != made.annotators[1].tasks
    orders = [[(task.item, task.shown) for task in each.tasks] for each in made.annotators]
    assert orders[0] != orders[1]


@pytest.mark.parametrize("kind", KINDS)
def test_the_seed_decides_all_but_the_keys(kind: Kind) -> None:
    one, same, other = campaign(kind, seed=3), campaign(kind, seed=3), campaign(kind, seed=4)
    assert [each.tasks for each in one.annotators] == [each.tasks for each in same.annotators]
    assert one.items == same.items
    assert one.digest == same.digest != other.digest
    assert len({each.key for made in (one, same) for each in made.annotators}) == 4


@pytest.mark.parametrize(("repeats", "count"), [(0, 0), (0.1, 10), (0.5, 50), (1, 80)])
def test_repeats_ask_the_same_again_and_not_at_once(repeats: float, count: int) -> None:
    made = campaign("pairwise", systems=2, lines=100, repeats=repeats)
    for annotator in made.annotators:
        places = {task.id: place for place, task in enumerate(annotator.tasks)}
        again = [task for task in annotator.tasks if task.repeats]
        assert len(again) == count
        assert len({task.repeats for task in again}) == count
        for task in again:
            assert places[task.id] - places[str(task.repeats)] > 20
            first = annotator.tasks[places[str(task.repeats)]]
            assert (task.item, sorted(task.shown)) == (first.item, sorted(first.shown))


def test_sides_are_drawn() -> None:
    made = campaign("pairwise", systems=2, lines=200)
    first = Counter(task.shown[0][0] for each in made.annotators for task in each.tasks)
    assert min(first.values()) > 0.4 * first.total()


@pytest.mark.parametrize(("shared", "common"), [(1.0, 20), (0.0, 0), (0.25, 5)])
def test_items_are_shared_or_dealt(shared: float, common: int) -> None:
    made = campaign(lines=20, annotators=3, shared=shared)
    seen = [{task.item for task in each.tasks} for each in made.annotators]
    assert len(set.intersection(*seen)) == common
    assert set.union(*seen) == set(range(20))
    assert sum(map(len, seen)) == 3 * common + (20 - common)


def texts(kind: Kind, outputs: dict[str, list[str]], **plan: object) -> Campaign:
    lines = len(next(iter(outputs.values())))
    settings = {"items": lines, "annotators": 1, "repeats": 0, **plan}
    return make_campaign(Plan(kind=kind, **settings), sources=["x"] * lines, outputs=outputs)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("direct", [(("A", "B"),), (("C",),)]),
        ("pairwise", [(("A", "B"), ("C",))]),
        ("ranking", [(("A", "B"), ("C",))]),
    ],
)
def test_equal_texts_share_a_place(kind: Kind, wanted: list[object]) -> None:
    made = texts(kind, {"A": ["same"], "B": ["same"], "C": ["other"]})
    assert sorted(tuple(sorted(task.shown)) for task in made.annotators[0].tasks) == wanted


def test_rankings_are_of_five_at_most_and_all_systems_have_their_turn() -> None:
    made = campaign("ranking", systems=8, lines=40, repeats=0, annotators=1)
    times = Counter(name for task in made.annotators[0].tasks for (name,) in task.shown)
    assert {len(task.shown) for task in made.annotators[0].tasks} == {5}
    assert set(times.values()) == {25}


def test_lines_are_drawn_from_those_with_a_source_and_keep_their_numbers() -> None:
    sources = ["a", " ", "c", "", "e"]
    outputs = {"A": ["1", "2", "3", "4", "5"]}
    plan = Plan(kind="direct", items=3, annotators=1)
    made = make_campaign(plan, sources=sources, outputs=outputs, references=["v", "w", "x", "y", "z"])
    found = sorted((item.line, item.source, item.reference, item.outputs["A"]) for item in made.items)
    assert found == [(1, "a", "v", "1"), (3, "c", "x", "3"), (5, "e", "z", "5")]
    with pytest.raises(UsageError, match="items = 4: there are 3 lines with a source; ask for 3 or fewer"):
        make_campaign(Plan(kind="direct", items=4, annotators=1), sources=sources, outputs=outputs)


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ({"items": 0}, "items = 0: must be 1 or more"),
        ({"annotators": 0}, "annotators = 0: must be 1 or more"),
        ({"shared": 1.5}, "shared = 1.5: is a share, from 0 to 1"),
        ({"repeats": -0.1}, "repeats = -0.1: is a share"),
        ({"seed": -1}, "seed = -1: must be 0 or more"),
        ({"kind": "ranking", "systems": 1}, "outputs of 1 systems: a judgement of kind ranking needs at least 2"),
        ({"lines": 2, "annotators": 3, "shared": 0.0}, "annotator 3 would have nothing to judge: of 2 items too few"),
    ],
)
def test_plans_that_cannot_be(plan: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        campaign(**plan)  # type: ignore[arg-type]


def test_files_must_belong_together() -> None:
    plan = Plan(kind="direct", items=1, annotators=1)
    with pytest.raises(DataError, match="output A: has 1 lines, and the source has 2; line for line"):
        make_campaign(plan, sources=["a", "b"], outputs={"A": ["x"]})
    with pytest.raises(DataError, match="the reference: has 3 lines"):
        make_campaign(plan, sources=["a", "b"], outputs={"A": ["x", "y"]}, references=["x"] * 3)
