"""Tests between systems against numbers of scipy 1.x, exact enumeration and closed forms; strengths and wins, too."""

import math
import random
from itertools import product

import numpy as np
import pytest

from regard.human.preferences import bradley_terry, expected_wins
from regard.human.significance import paired_bootstrap, rank_sum, sign_test


@pytest.mark.parametrize(
    ("first", "second", "p"),
    [
        ([1.2, 0.3, -0.5, 0.8, 0.3, 2.1], [-1.0, 0.3, -0.2, -0.7, 0.1], 0.05302739120252687),
        ([3, 4, 4, 5, 2, 5, 4], [2, 2, 3, 3, 1, 4, 2, 2], 0.02315095198524634),
        (list(range(30)), [each + 0.5 for each in range(5, 40)], 0.003134776151048507),
    ],
)
def test_rank_sum_as_scipy_has_it(first: list[float], second: list[float], p: float) -> None:
    """scipy.stats.mannwhitneyu(first, second, method="asymptotic")."""
    assert rank_sum(first, second) == pytest.approx(p, abs=1e-12)
    assert rank_sum(second, first) == pytest.approx(p, abs=1e-12)


def test_rank_sum_where_nothing_differs() -> None:
    assert rank_sum([], [1]) == rank_sum([2, 2], [2, 2, 2]) == rank_sum([1], []) == rank_sum([1, 2], [1, 2]) == 1


@pytest.mark.parametrize(("wins", "losses"), [(9, 3), (3, 0), (5, 5), (0, 0), (2, 9)])
def test_sign_test_is_what_coins_do(wins: int, losses: int) -> None:
    count = wins + losses
    balance = abs(wins - losses)
    throws = [abs(2 * sum(throw) - count) >= balance for throw in product((0, 1), repeat=count)]
    assert sign_test(wins, losses) == pytest.approx(sum(throws) / len(throws))


def test_paired_bootstrap() -> None:
    chance = random.Random(3)
    clear = [chance.gauss(1, 1) for _ in range(50)]
    none = [value for each in range(1, 26) for value in (each, -each)]
    assert paired_bootstrap(clear, resamples=1000, seed=1) < 0.01
    assert paired_bootstrap(none, resamples=1000, seed=1) > 0.9
    assert paired_bootstrap([], resamples=1000, seed=1) == paired_bootstrap([0, 0], resamples=1000, seed=1) == 1
    assert paired_bootstrap([-each for each in clear], resamples=1000, seed=1) < 0.01
    # Normal theory: p = erfc(|mean| / (s sqrt(2 / n))).
    middling = [each - 0.8 for each in clear]
    spread = float(np.std(middling)) / math.sqrt(len(middling))
    wanted = math.erfc(abs(float(np.mean(middling))) / spread / math.sqrt(2))
    assert paired_bootstrap(middling, resamples=20_000, seed=1) == pytest.approx(wanted, abs=0.03)


def test_expected_wins_by_hand() -> None:
    wins = np.array([[0.0, 3, 2], [1, 0, 0], [2, 4, 0]])
    assert expected_wins(wins) == pytest.approx([(3 / 4 + 2 / 4) / 2, (1 / 4 + 0 / 4) / 2, (2 / 4 + 4 / 4) / 2])
    many = np.stack([wins, np.zeros((3, 3))])
    assert expected_wins(many)[0] == pytest.approx(expected_wins(wins))
    assert np.isnan(expected_wins(many)[1]).all()
    apart = np.zeros((3, 3))
    apart[0, 1] = 5
    assert expected_wins(apart)[:2] == pytest.approx([1, 0])
    assert np.isnan(expected_wins(apart)[2])


def test_strengths_of_two_have_a_closed_form() -> None:
    wins, ties = np.array([[0.0, 6], [2, 0]]), np.array([[0.0, 4], [4, 0]])
    strength = bradley_terry(wins, ties, prior=0)
    assert strength == pytest.approx([math.log(8 / 4) / 2, -math.log(8 / 4) / 2])
    assert bradley_terry(np.array([[0.0, 5], [0, 0]]), np.zeros((2, 2)))[0] == pytest.approx(math.log(5.5 / 0.5) / 2)


def test_strengths_give_as_many_wins_as_there_were() -> None:
    """The likelihood is flat where Σ_j n_ij p(i beats j) = w_i for each i."""
    generator = np.random.default_rng(4)
    wins = generator.integers(0, 20, size=(5, 5)).astype(float)
    np.fill_diagonal(wins, 0)
    strength = bradley_terry(wins, np.zeros((5, 5)), prior=0)
    beats = 1 / (1 + np.exp(strength[None, :] - strength[:, None]))
    assert ((wins + wins.T) * beats).sum(axis=1) == pytest.approx(wins.sum(axis=1), abs=1e-6)
    assert strength.sum() == pytest.approx(0, abs=1e-9)
