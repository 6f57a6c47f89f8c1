"""Scores of systems out of who was preferred to whom.

Shapes: S systems; wins[i, j] says how often i was found better than j. Any axes may stand before these two.
"""

import numpy as np
import numpy.typing as npt

Wins = npt.NDArray[np.float64]


def expected_wins(wins: Wins) -> npt.NDArray[np.float64]:
    """The probability that a system beats another one that is drawn at random (Bojar et al. 2013).

    score(i) = mean over j ≠ i of wins(i, j) / (wins(i, j) + wins(j, i)). Ties do not count. Systems that were never
    told apart from i have no part in the mean; not a number where there is no other.
    """
    decided = wins + wins.swapaxes(-1, -2)  # (..., S, S)
    known = decided > 0
    shares = np.divide(wins, decided, out=np.zeros_like(wins), where=known)
    opponents = known.sum(axis=-1)  # (..., S)
    return np.divide(shares.sum(axis=-1), opponents, out=np.full(opponents.shape, np.nan), where=opponents > 0)


def bradley_terry(wins: Wins, ties: Wins, *, prior: float = 0.5) -> npt.NDArray[np.float64]:
    """Log-strengths b with p(i beats j) = 1 / (1 + exp(b_j − b_i)), which sum to 0 (Bradley and Terry 1952).

    A tie is half a win for both. `prior` is added to the wins of both sides of every pair, so that a system that never
    lost has a finite strength. Hunter's (2004) updates: p_i = w_i / Σ_j n_ij / (p_i + p_j).
    """
    count = len(wins)
    won = wins + ties / 2 + prior * (1 - np.eye(count))  # (S, S)
    met = won + won.T
    strength = np.ones(count)
    for _ in range(10_000):
        before = strength
        share = met / (strength[:, None] + strength[None, :])
        np.fill_diagonal(share, 0)
        strength = won.sum(axis=1) / share.sum(axis=1)
        strength = strength / np.exp(np.log(strength).mean())
        if np.abs(np.log(strength) - np.log(before)).max() < 1e-10:
            break
    return np.log(strength)
