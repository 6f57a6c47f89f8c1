"""Who is asked what, in which order: drawn once, from the seed, when a campaign is made.

Items are drawn without regard to what the systems made of them. What is asked about an item is the same for all who
see it, so that annotators can be compared; the order of the tasks and of the outputs on the page is each annotator's
own. Systems whose outputs are the same text share a place: nobody is asked which of two equal texts is better.
"""

import random
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from regard.errors import DataError, UsageError
from regard.human.campaign import FORMAT, Annotator, Campaign, Item, Task
from regard.human.kinds import MOST_RANKED, Kind, compares

APART: Final = 20
"""Tasks between a question and its repeat, where there are enough of them: nobody should remember the answer."""

Shown = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a campaign is to be like.

    `shared` is the share of items that every annotator sees; the others are dealt, each to one. `repeats` is the share
    of an annotator's tasks that come a second time.
    """

    kind: Kind
    items: int
    annotators: int
    shared: float = 1.0
    repeats: float = 0.1
    seed: int = 1

    def __post_init__(self) -> None:
        for name, value in (("items", self.items), ("annotators", self.annotators)):
            if value < 1:
                raise UsageError(f"{name} = {value}: must be 1 or more")
        for name, share in (("shared", self.shared), ("repeats", self.repeats)):
            if not 0 <= share <= 1:
                raise UsageError(f"{name} = {share}: is a share, from 0 to 1")
        if self.seed < 0:
            raise UsageError(f"seed = {self.seed}: must be 0 or more")


def make_campaign(
    plan: Plan, *, sources: Sequence[str], outputs: Mapping[str, Sequence[str]], references: Sequence[str] | None = None
) -> Campaign:
    """Draw items and deal tasks. The keys of the links are random; all else follows from the seed."""
    _check(plan, sources, outputs, references)
    systems = tuple(sorted(outputs))
    chance = random.Random(f"{plan.seed} items")  # noqa: S311
    judged = [number for number, source in enumerate(sources) if source.strip()]
    if plan.items > len(judged):
        raise UsageError(
            f"items = {plan.items}: there are {len(judged)} lines with a source; ask for {len(judged)} or fewer"
        )
    lines = chance.sample(judged, plan.items)
    items = tuple(
        Item(
            line=line + 1,
            source=sources[line],
            reference=None if references is None else references[line],
            outputs={name: outputs[name][line] for name in systems},
        )
        for line in lines
    )
    questions = _questions(plan.kind, items, systems, chance)
    annotators = []
    for number in range(plan.annotators):
        own = [asked for item in _dealt(plan, number) for asked in questions[item]]
        if not own:
            raise UsageError(
                f"annotator {number + 1} would have nothing to judge: of {plan.items} items too few are shared, or all "
                "outputs are the same; ask for more items, fewer annotators or a larger share of shared items"
            )
        tasks = _tasks(own, number=number, plan=plan)
        annotators.append(Annotator(name=f"annotator-{number + 1}", key=secrets.token_urlsafe(18), tasks=tasks))
    return Campaign(
        format=FORMAT, kind=plan.kind, seed=plan.seed, systems=systems, items=items, annotators=tuple(annotators)
    )


def _check(
    plan: Plan, sources: Sequence[str], outputs: Mapping[str, Sequence[str]], references: Sequence[str] | None
) -> None:
    least = 2 if compares(plan.kind) else 1
    if len(outputs) < least:
        raise UsageError(
            f"outputs of {len(outputs)} systems: a judgement of kind {plan.kind} needs at least {least}; give more "
            "with --output NAME=FILE"
        )
    others = {f"output {name}": lines for name, lines in outputs.items()}
    if references is not None:
        others["the reference"] = references
    for name, lines in others.items():
        if len(lines) != len(sources):
            raise DataError(
                f"{name}: has {len(lines):,} lines, and the source has {len(sources):,}; line for line they must "
                "belong together"
            )


def _dealt(plan: Plan, number: int) -> list[int]:
    """The items of an annotator: the shared ones, and every so-manieth of the others."""
    shared = round(plan.items * plan.shared)
    return [*range(shared), *range(shared + number, plan.items, plan.annotators)]


def _questions(
    kind: Kind, items: Sequence[Item], systems: Sequence[str], chance: random.Random
) -> list[list[tuple[int, Shown]]]:
    """For each item what is asked about it: the outputs that are shown together."""
    times = dict.fromkeys(systems, 0)
    questions: list[list[tuple[int, Shown]]] = []
    for number, item in enumerate(items):
        places: dict[str, list[str]] = {}
        for name in systems:
            places.setdefault(item.outputs[name], []).append(name)
        groups = [tuple(names) for names in places.values()]
        match kind:
            case "pairwise":
                shown: list[Shown] = list(combinations(groups, 2))
            case "ranking":
                shown = [_least_seen(groups, times, chance)] if len(groups) > 1 else []
            case _:
                shown = [(group,) for group in groups]
        questions.append([(number, one) for one in shown])
    return questions


def _least_seen(groups: list[tuple[str, ...]], times: dict[str, int], chance: random.Random) -> Shown:
    """Up to five outputs; those come first whose systems were ranked least often."""
    ordered = sorted(groups, key=lambda group: (sum(times[name] for name in group) / len(group), chance.random()))
    taken = ordered[:MOST_RANKED]
    for name in (name for group in taken for name in group):
        times[name] += 1
    return tuple(taken)


def _tasks(asked: list[tuple[int, Shown]], *, number: int, plan: Plan) -> tuple[Task, ...]:
    """The tasks of an annotator in their order, with repeats well after what they repeat."""
    chance = random.Random(f"{plan.seed} annotator {number}")  # noqa: S311
    firsts = chance.sample(asked, len(asked))
    apart = min(APART, len(firsts) // 2)
    again = chance.sample(range(len(firsts) - apart), min(round(plan.repeats * len(firsts)), len(firsts) - apart))
    # A repeat of question i stands behind question i + apart or later; the fraction keeps it after the question there.
    order = [(float(place), place, False) for place in range(len(firsts))]
    order += [(chance.randint(place + apart, len(firsts) - 1) + chance.random(), place, True) for place in again]
    order.sort()
    ids = {place: f"{number + 1}-{at + 1:05d}" for at, (_, place, repeat) in enumerate(order) if not repeat}
    tasks = []
    for at, (_, place, repeat) in enumerate(order):
        item, shown = firsts[place]
        mixed = tuple(chance.sample(shown, len(shown)))
        repeats = ids[place] if repeat else None
        tasks.append(Task(id=f"{number + 1}-{at + 1:05d}", item=item, shown=mixed, repeats=repeats))
    return tuple(tasks)
