"""Answers turned into what is counted: ratings of single outputs, and relations between two.

Repeats are kept apart: they say how far a person agrees with themselves, and a judgement counts once.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np

from regard.human.answers import Judgement
from regard.human.campaign import Annotator, Campaign, Task
from regard.human.kinds import SCALES, Kind

RELATION: Final = "relation"

Unit = tuple[int, tuple[tuple[str, ...], ...]]
"""What is judged: the item, and the systems of one output, or of each of two in the order of the alphabet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What one annotator said of each unit: by scale, or as `relation`; `again` has the answers to repeats.

    A relation is 1 if the first of two outputs is better, −1 if the second is, 0 if they are equal. `standard` has
    ratings in deviations from the mean of this person.
    """

    first: Mapping[str, Mapping[Unit, int]]
    again: Mapping[str, Mapping[Unit, int]]
    standard: Mapping[str, Mapping[Unit, float]]


def subjects(kind: Kind) -> tuple[str, ...]:
    """What answers are about: the scales, or the relation of two outputs."""
    return SCALES.get(kind, (RELATION,))


def gather(campaign: Campaign, annotator: Annotator, judgements: Mapping[str, Judgement]) -> Said:
    """Everything that an annotator said."""
    first: dict[str, dict[Unit, int]] = {about: {} for about in subjects(campaign.kind)}
    again: dict[str, dict[Unit, int]] = {about: {} for about in first}
    for task in annotator.tasks:
        if task.id in judgements:
            for about, unit, value in _said(task, judgements[task.id]):
                (again if task.repeats else first)[about][unit] = value
    standard = {about: _standardised(given) for about, given in first.items() if about != RELATION}
    return Said(first=first, again=again, standard=standard)


def _said(task: Task, judgement: Judgement) -> Iterator[tuple[str, Unit, int]]:
    match judgement.answer:
        case {"choice": choice}:
            yield from _relations(task, {"first": [1, 2], "second": [2, 1]}.get(str(choice), [1, 1]))
        case {"ranks": list(ranks)}:
            yield from _relations(task, ranks)
        case ratings:
            for scale, value in ratings.items():
                assert isinstance(value, int)
                yield scale, (task.item, task.shown), value


def _relations(task: Task, ranks: list[int]) -> Iterator[tuple[str, Unit, int]]:
    placed = sorted(zip(task.shown, ranks, strict=True))
    for (first, one), (second, other) in combinations(placed, 2):
        yield RELATION, (task.item, (first, second)), (other > one) - (other < one)


def _standardised(given: Mapping[Unit, int]) -> dict[Unit, float]:
    """z = (x − mean) / deviation over all ratings of one person (Graham et al. 2013); 0 for who never varies."""
    values = np.array(list(given.values()), dtype=np.float64)
    deviation = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    mean = float(values.mean()) if len(values) else 0.0
    return {unit: (value - mean) / deviation if deviation else 0.0 for unit, value in given.items()}


def by_system(
    campaign: Campaign, said: Mapping[str, Said], scale: str, *, standard: bool
) -> dict[str, dict[int, float]]:
    """For each system its mean rating for each item that was judged, over annotators."""
    found: dict[str, dict[int, list[float]]] = {system: defaultdict(list) for system in campaign.systems}
    for one in said.values():
        ratings: Mapping[Unit, float] = one.standard[scale] if standard else one.first[scale]
        for (item, (systems,)), rating in ratings.items():
            for system in systems:
                found[system][item].append(rating)
    return {
        system: {item: float(np.mean(values)) for item, values in sorted(items.items())}
        for system, items in found.items()
    }
