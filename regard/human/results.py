"""What the answers to a campaign say: systems with intervals, tests between them, and agreement of the annotators.

Single outputs (adequacy and fluency, direct assessment): the mean over items, raw and in each annotator's own standard
scores, as WMT does it. Comparisons (pairwise, ranking): expected wins, and Bradley-Terry strengths. Intervals are
bootstraps over items, for it is items that were drawn. Tests are not corrected for their number.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Final

import numpy as np
import numpy.typing as npt

from regard.errors import DataError
from regard.human.annotators import Agreement, Diligence, between, diligence, warnings, within
from regard.human.answers import Judgement
from regard.human.campaign import Campaign
from regard.human.gathering import RELATION, Said, by_system, gather
from regard.human.kinds import SCALES, Kind, compares
from regard.human.preferences import bradley_terry, expected_wins
from regard.human.significance import paired_bootstrap, rank_sum, sign_test
from regard.metrics.resampling import interval, resampled_totals, summarise
from regard.metrics.score import Score

SEED: Final = 12345
LEVEL: Final = 0.05
EXPECTED: Final = "expected wins"


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemResult:
    """How good a system was found. `cluster` counts from 1, the best; systems in one are not told apart from all above
    and below by tests. Wins, losses and ties are against all others."""

    name: str
    scores: tuple[Score, ...]
    cluster: int
    wins: int = 0
    losses: int = 0
    ties: int = 0
    strength: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Two systems: by how much the first is better, and how likely chance would make as much of it (p of each test)."""

    first: str
    second: str
    about: str
    difference: float
    items: int
    p: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """All of it; systems come best first."""

    kind: Kind
    items: int
    answers: int
    systems: tuple[SystemResult, ...]
    differences: tuple[Difference, ...]
    between: tuple[Agreement, ...]
    within: tuple[Agreement, ...]
    annotators: tuple[Diligence, ...]
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, object]:
        """The same as plain records; what is not a number becomes null."""
        systems = [
            {**_plain(asdict(each)), "scores": {score.name: score.to_json() for score in each.scores}}
            for each in self.systems
        ]
        return {
            "format": 1,
            "kind": self.kind,
            "items": self.items,
            "answers": self.answers,
            "systems": systems,
            "differences": [_plain(asdict(each)) for each in self.differences],
            "agreement": {
                "between": [_plain(asdict(each)) for each in self.between],
                "within": [_plain(asdict(each)) for each in self.within],
            },
            "annotators": [_plain(asdict(each)) for each in self.annotators],
            "warnings": list(self.warnings),
        }


def evaluate(campaign: Campaign, judgements: Mapping[str, Judgement], *, resamples: int = 1000) -> Results:
    """Count everything that was answered."""
    if not judgements:
        raise DataError("there are no answers yet; send annotators the links that `regard human serve` prints")
    said = {each.name: gather(campaign, each, judgements) for each in campaign.annotators}
    did = [diligence(campaign, each, judgements) for each in campaign.annotators]
    told = list(warnings(campaign, said, did, judgements))
    if compares(campaign.kind):
        systems, differences = _compared(campaign, said, resamples)
    else:
        systems, differences = _rated(campaign, said, resamples)
    agreements = between(campaign, said)
    if len(campaign.annotators) > 1 and not agreements:
        told.append("no item was judged by two annotators, so nothing is known of their agreement")
    return Results(
        kind=campaign.kind,
        items=len(campaign.items),
        answers=len(judgements),
        systems=tuple(systems),
        differences=tuple(differences),
        between=tuple(agreements),
        within=tuple(within(campaign, said)),
        annotators=tuple(did),
        warnings=tuple(told),
    )


def _rated(campaign: Campaign, said: Mapping[str, Said], resamples: int) -> tuple[list[SystemResult], list[Difference]]:
    scores: dict[str, list[Score]] = {system: [] for system in campaign.systems}
    differences: list[Difference] = []
    for scale in SCALES[campaign.kind]:
        raw = by_system(campaign, said, scale, standard=False)
        standard = by_system(campaign, said, scale, standard=True)
        for system in campaign.systems:
            scores[system] += [
                _mean(scale, raw[system], resamples),
                _mean(f"{scale} z", standard[system], resamples),
            ]
        differences += [
            _difference(f"{scale} z", (one, standard[one]), (other, standard[other]), resamples)
            for one, other in combinations(campaign.systems, 2)
        ]
    main = f"{SCALES[campaign.kind][0]} z"
    values = {system: next(each.value for each in scores[system] if each.name == main) for system in campaign.systems}
    clusters = _clusters(values, [each for each in differences if each.about == main])
    ordered = [
        SystemResult(name=system, scores=tuple(scores[system]), cluster=cluster) for system, cluster in clusters.items()
    ]
    return ordered, differences


def _mean(name: str, values: Mapping[int, float], resamples: int) -> Score:
    if not values:
        return Score(name=name, value=math.nan, low=None, high=None, signature="none", count=0)
    statistics = np.array([[value, 1.0] for value in values.values()])
    return summarise(
        statistics,
        lambda totals: (float(totals[0] / totals[1]), {}),
        name=name,
        signature="mean over items|version:1",
        higher_is_better=True,
        resamples=resamples,
        seed=SEED,
    )


def _difference(
    about: str, first: tuple[str, Mapping[int, float]], second: tuple[str, Mapping[int, float]], resamples: int
) -> Difference:
    shared = [first[1][item] - second[1][item] for item in first[1] if item in second[1]]
    return Difference(
        first=first[0],
        second=second[0],
        about=about,
        difference=float(np.mean(shared)) if shared else math.nan,
        items=len(shared),
        p={
            "rank-sum": rank_sum(list(first[1].values()), list(second[1].values())),
            "bootstrap": paired_bootstrap(shared, resamples=resamples, seed=SEED),
        },
    )


def _compared(
    campaign: Campaign, said: Mapping[str, Said], resamples: int
) -> tuple[list[SystemResult], list[Difference]]:
    wins, ties = _meetings(campaign, said)  # (n, S, S)
    n, count, _ = wins.shape
    total = wins.sum(axis=0)
    expected = expected_wins(total)
    drawn = resampled_totals(wins.reshape(n, -1), resamples=resamples, seed=SEED).reshape(-1, count, count)
    spread = expected_wins(drawn)  # (B, S)
    tied = ties.sum(axis=0)
    strength = bradley_terry(total, tied)
    names = campaign.systems
    differences = [
        _preferred(wins[:, one, other], wins[:, other, one], (names[one], names[other]))
        for one, other in combinations(range(count), 2)
    ]
    clusters = _clusters(dict(zip(names, expected.tolist(), strict=True)), differences)
    ordered = []
    for name, cluster in clusters.items():
        at = names.index(name)
        known = spread[:, at][np.isfinite(spread[:, at])]
        low, high = interval(known, level=0.95) if n > 1 and len(known) else (None, None)
        judged = int((wins[:, at].sum(axis=1) + wins[:, :, at].sum(axis=1) + ties[:, at].sum(axis=1) > 0).sum())
        score = Score(
            name=EXPECTED,
            value=float(expected[at]),
            low=low,
            high=high,
            signature=f"bs:{resamples}|seed:{SEED}|expected wins|version:1",
            count=judged,
        )
        ordered.append(
            SystemResult(
                name=name,
                scores=(score,),
                cluster=cluster,
                wins=int(total[at].sum()),
                losses=int(total[:, at].sum()),
                ties=int(tied[at].sum()),
                strength=float(strength[at]),
            )
        )
    return ordered, differences


def _meetings(campaign: Campaign, said: Mapping[str, Said]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """How often each system won against each other, and tied with it, for each item; equal texts never met."""
    places = {name: place for place, name in enumerate(campaign.systems)}
    wins = np.zeros((len(campaign.items), len(places), len(places)))
    ties = np.zeros_like(wins)
    for one in said.values():
        for (item, (firsts, seconds)), relation in one.first[RELATION].items():
            for first in (places[name] for name in firsts):
                for second in (places[name] for name in seconds):
                    if relation == 0:
                        ties[item, first, second] += 1
                        ties[item, second, first] += 1
                    else:
                        better, worse = (first, second) if relation > 0 else (second, first)
                        wins[item, better, worse] += 1
    return wins, ties


def _preferred(wins: npt.NDArray[np.float64], losses: npt.NDArray[np.float64], names: tuple[str, str]) -> Difference:
    """The sign test counts an item once, for whom most people preferred: their answers to one item hang together."""
    decided = wins.sum() + losses.sum()
    balance = np.sign(wins - losses)
    ahead, behind = int((balance > 0).sum()), int((balance < 0).sum())
    return Difference(
        first=names[0],
        second=names[1],
        about="wins",
        difference=float((wins.sum() - losses.sum()) / decided) if decided else math.nan,
        items=ahead + behind,
        p={"sign": sign_test(ahead, behind)},
    )


def _clusters(values: Mapping[str, float], differences: list[Difference]) -> dict[str, int]:
    """Systems best first, each with its cluster: a line is drawn where all above are significantly better than all
    below (WMT), by the first test of each difference."""
    apart = {frozenset((each.first, each.second)) for each in differences if next(iter(each.p.values())) < LEVEL}
    ordered = sorted(values, key=lambda name: (-values[name] if math.isfinite(values[name]) else math.inf, name))
    clusters: dict[str, int] = {}
    cluster = 1
    for place, name in enumerate(ordered):
        if place and all(frozenset((above, below)) in apart for above in ordered[:place] for below in ordered[place:]):
            cluster += 1
        clusters[name] = cluster
    return clusters


def _plain(record: dict[str, object]) -> dict[str, object]:
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in record.items()
    }
