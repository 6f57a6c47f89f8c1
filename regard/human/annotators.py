"""The annotators: how far they agree with each other and with themselves, and whose answers are doubtful."""

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from regard.human.agreement import Level, cohen_kappa, krippendorff_alpha, pearson, weighted_kappa
from regard.human.answers import Judgement
from regard.human.campaign import Annotator, Campaign
from regard.human.gathering import RELATION, Said, Unit, subjects
from regard.human.kinds import LIMITS

HASTY_SHARE: Final = 0.25
SAME_SHARE: Final = 0.9
LEAST_ALPHA: Final = 0.2
ENOUGH: Final = 10
ENOUGH_REPEATS: Final = 5
CHARACTERS_PER_SECOND: Final = 100
"""Nobody reads a thousand words in a minute and judges them."""

LEVELS: Final[dict[str, Level]] = {
    "adequacy": "ordinal",
    "fluency": "ordinal",
    "score": "interval",
    RELATION: "nominal",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """How far one or two people, or all of them, agree.

    `about` is the scale, or `relation` for who is better than whom. `same` is the share of equal answers.
    """

    about: str
    measure: str
    annotators: tuple[str, ...]
    value: float
    same: float
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Diligence:
    """What one person did: tasks answered and given, seconds for the middle one, and the share of hasty answers."""

    name: str
    answered: int
    tasks: int
    seconds: float | None
    hasty: float


def between(campaign: Campaign, said: Mapping[str, Said]) -> list[Agreement]:
    """Agreement of every two annotators on what both judged first, and Krippendorff's alpha of all."""
    found = []
    for about in subjects(campaign.kind):
        for one, other in combinations(said, 2):
            given, taken = said[one].first[about], said[other].first[about]
            if pairs := [(value, taken[unit]) for unit, value in given.items() if unit in taken]:
                found.append(_agreement(about, (one, other), pairs))
        # People use 0 to 100 differently, which is what standardising is for.
        units = _units(each.standard[about] if about == "score" else each.first[about] for each in said.values())
        if units:
            plain = _units(each.first[about] for each in said.values())
            found.append(
                Agreement(
                    about=about,
                    measure=f"Krippendorff's alpha, {LEVELS[about]}",
                    annotators=tuple(said),
                    value=_alpha(about, units),
                    same=statistics.fmean(one == other for unit in plain for one, other in combinations(unit, 2)),
                    count=len(units),
                )
            )
    return found


def within(campaign: Campaign, said: Mapping[str, Said]) -> list[Agreement]:
    """Agreement of each annotator with themselves, on what was asked twice."""
    return [
        _agreement(about, (name,), pairs)
        for about in subjects(campaign.kind)
        for name, one in said.items()
        if (pairs := _twice(one, about))
    ]


def _units(given: Iterable[Mapping[Unit, float]]) -> list[list[float]]:
    """The answers to each unit that more than one person judged."""
    units: dict[Unit, list[float]] = defaultdict(list)
    for one in given:
        for unit, value in one.items():
            units[unit].append(value)
    return [values for values in units.values() if len(values) > 1]


def _twice(said: Said, about: str) -> list[tuple[int, int]]:
    first = said.first[about]
    return [(first[unit], value) for unit, value in said.again[about].items() if unit in first]


def _alpha(about: str, units: Sequence[Sequence[float]]) -> float:
    if about == RELATION:
        units = [*units, *([-value for value in unit] for unit in units)]
    return krippendorff_alpha(units, level=LEVELS[about])


def _both_ways(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Every relation and its reverse: which of two systems comes first in the alphabet must not matter to chance."""
    return [*pairs, *((-one, -other) for one, other in pairs)]


def _agreement(about: str, names: tuple[str, ...], pairs: list[tuple[int, int]]) -> Agreement:
    if about == RELATION:
        measure, value = "Cohen's kappa", cohen_kappa(_both_ways(pairs))
    elif about == "score":
        measure, value = "Pearson's r", pearson(pairs)
    else:
        least, most = LIMITS[about]
        measure, value = "Cohen's kappa, quadratic", weighted_kappa(pairs, least=least, most=most)
    same = statistics.fmean(one == other for one, other in pairs)
    return Agreement(about=about, measure=measure, annotators=names, value=value, same=same, count=len(pairs))


def diligence(campaign: Campaign, annotator: Annotator, judgements: Mapping[str, Judgement]) -> Diligence:
    """How much one person did, and how fast: an answer is hasty that came before its texts could be read."""
    given = [(task, judgements[task.id]) for task in annotator.tasks if task.id in judgements]
    hasty = 0
    for task, judgement in given:
        item = campaign.items[task.item]
        shown = sum(len(item.outputs[group[0]]) for group in task.shown)
        hasty += judgement.seconds < 1 + shown / CHARACTERS_PER_SECOND
    return Diligence(
        name=annotator.name,
        answered=len(given),
        tasks=len(annotator.tasks),
        seconds=statistics.median(judgement.seconds for _, judgement in given) if given else None,
        hasty=hasty / len(given) if given else 0.0,
    )


def warnings(
    campaign: Campaign, said: Mapping[str, Said], did: list[Diligence], judgements: Mapping[str, Judgement]
) -> Iterator[str]:
    """What should be known before the results are believed."""
    for annotator, one in zip(campaign.annotators, did, strict=True):
        name = annotator.name
        if one.answered < one.tasks:
            yield f"{name} has answered {one.answered:,} of {one.tasks:,} tasks"
        if one.answered >= ENOUGH and one.hasty > HASTY_SHARE:
            yield f"{name} answers too fast: {one.hasty:.0%} of the answers came before the outputs could be read"
        given = Counter(str(judgements[task.id].answer) for task in annotator.tasks if task.id in judgements)
        if one.answered >= ENOUGH and given.most_common(1)[0][1] > SAME_SHARE * one.answered:
            answer, times = given.most_common(1)[0]
            yield f"{name} gives nearly always the same answer: {answer} in {times:,} of {one.answered:,} tasks"
        for about in subjects(campaign.kind):
            pairs = _twice(said[name], about)
            alpha = _alpha(about, pairs)
            if len(pairs) >= ENOUGH_REPEATS and alpha < LEAST_ALPHA:
                yield f"{name} disagrees with themselves on {about}: alpha {alpha:.2f} over {len(pairs)} repeats"
