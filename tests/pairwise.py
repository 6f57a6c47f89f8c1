"""A small set of combinations in which every permitted pair of choices occurs."""

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, product
from random import Random

Choices = Mapping[str, Sequence[object]]
Row = dict[str, object]


def pairwise(choices: Choices, permitted: Callable[[Row], bool], *, seed: int = 1, tries: int = 30) -> list[Row]:
    """Rows of one value per name, greedily chosen; pairs that no permitted row was found for are left out."""
    chance = Random(seed)
    names = list(choices)
    missing = {
        (one, first, other, second)
        for one, other in combinations(names, 2)
        for first, second in product(choices[one], choices[other])
    }
    rows: list[Row] = []
    for pair in sorted(missing, key=str):
        if pair not in missing:
            continue
        one, first, other, second = pair
        drawn = [
            {name: chance.choice(choices[name]) for name in names} | {one: first, other: second} for _ in range(tries)
        ]
        drawn = [row for row in drawn if permitted(row)]
        if drawn:
            best = max(drawn, key=lambda row: len(pairs(row) & missing))
            rows.append(best)
            missing -= pairs(best)
    return rows


def pairs(row: Row) -> set[tuple[str, object, str, object]]:
    return {(one, row[one], other, row[other]) for one, other in combinations(row, 2)}
