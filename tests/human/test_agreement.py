"""Agreement against published examples, hand-worked numbers, and the definitions written as loops."""

import math
import random
from itertools import permutations

import pytest

from regard.human.agreement import Level, cohen_kappa, krippendorff_alpha, pearson, ranks, weighted_kappa

NOTHING = None
KRIPPENDORFF = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, NOTHING, NOTHING, NOTHING],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NOTHING, 3],
    [NOTHING, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NOTHING],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NOTHING],
]
"""Four observers, twelve units: the example of Krippendorff (2011), Computing Krippendorff's alpha-reliability."""


@pytest.mark.parametrize(("level", "value"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_alpha_of_the_published_example(level: Level, value: float) -> None:
    units = [[answer for answer in unit if answer is not None] for unit in zip(*KRIPPENDORFF, strict=True)]
    assert krippendorff_alpha(units, level=level) == pytest.approx(value, abs=5e-4)


def alpha_by_loops(units: list[list[float]]) -> float:
    """Interval alpha as two means of squared differences: within units, and between all answers."""
    units = [unit for unit in units if len(unit) > 1]
    everything = [value for unit in units for value in unit]
    count = len(everything)
    within = sum(sum((a - b) ** 2 for a, b in permutations(unit, 2)) / (len(unit) - 1) for unit in units) / count
    overall = sum((a - b) ** 2 for a, b in permutations(everything, 2)) / (count * (count - 1))
    return 1 - within / overall


def test_alpha_is_what_its_definition_says() -> None:
    chance = random.Random(1)
    for _ in range(20):
        units = [[chance.randrange(101) / 7 for _ in range(chance.randrange(1, 5))] for _ in range(12)]
        assert krippendorff_alpha(units, level="interval") == pytest.approx(alpha_by_loops(units))


def test_kappa_of_a_table_worked_by_hand() -> None:
    pairs = [("yes", "yes")] * 20 + [("yes", "no")] * 5 + [("no", "yes")] * 10 + [("no", "no")] * 15
    assert cohen_kappa(pairs) == pytest.approx((0.7 - 0.5) / (1 - 0.5))
    assert cohen_kappa([("a", "a"), ("b", "b"), ("c", "c")]) == 1
    assert cohen_kappa([("a", "b"), ("b", "a")]) == -1


def weighted_by_loops(pairs: list[tuple[int, int]]) -> float:
    observed = sum((a - b) ** 2 for a, b in pairs) / len(pairs)
    expected = sum((a - b) ** 2 for a, _ in pairs for _, b in pairs) / len(pairs) ** 2
    return 1 - observed / expected


def test_weighted_kappa_is_what_its_definition_says() -> None:
    chance = random.Random(2)
    for _ in range(20):
        first = [chance.randint(1, 5) for _ in range(30)]
        pairs = [(one, min(5, max(1, one + chance.randint(-1, 1)))) for one in first]
        assert weighted_kappa(pairs, least=1, most=5) == pytest.approx(weighted_by_loops(pairs))
    # Two scores of 1 and 2 that are swapped once: O = 2/4, E = (0 + 1 + 1 + 0) * 2 * 2 / 16 = 1/2.
    assert weighted_kappa([(1, 1), (2, 2), (1, 2), (2, 1)], least=1, most=5) == pytest.approx(0)


def test_where_nothing_can_be_said() -> None:
    assert math.isnan(cohen_kappa([]))
    assert math.isnan(cohen_kappa([("a", "a")] * 5))
    assert math.isnan(weighted_kappa([(3, 3)] * 5, least=1, most=5))
    assert math.isnan(krippendorff_alpha([], level="nominal"))
    assert math.isnan(krippendorff_alpha([[1, 1], [1, 1]], level="interval"))
    assert math.isnan(krippendorff_alpha([[1], [2]], level="ordinal"))
    assert math.isnan(pearson([(1, 2)]))
    assert math.isnan(pearson([(1, 2), (1, 3)]))


def test_pearson_and_ranks() -> None:
    assert pearson([(1, 3), (2, 5), (4, 9)]) == pytest.approx(1)
    assert pearson([(1, 1), (2, 3), (3, 2)]) == pytest.approx(0.5)
    assert ranks([10, 20, 10, 5]).tolist() == [2.5, 4, 2.5, 1]
