"""Numbers drawn by a key: even, without memory, and the same for the same key."""

import math

import numpy as np
import pytest

from regard.search.chance import uniform, words

PARTS = ("seed", "request", "sample", "step")


def along(part: str, count: int, at: int = 0) -> np.ndarray:
    """Numbers for keys that differ in one part only."""
    key = [words([at])] * len(PARTS)
    key[PARTS.index(part)] = np.arange(count)
    return uniform(*key)


def splitmix(state: int) -> int:
    """The finaliser of SplitMix64 in plain integers."""
    word = 2**64 - 1
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & word
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & word
    return state ^ (state >> 31)


def test_the_finaliser_is_that_of_splitmix64() -> None:
    """The first numbers of the reference generator with the seed 1234567."""
    golden = 0x9E3779B97F4A7C15
    states = [(1234567 + step * golden) % 2**64 for step in (1, 2, 3)]
    assert [splitmix(state) for state in states] == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@pytest.mark.parametrize("key", [(0, 0, 0, 0), (1, 2, 3, 4), (2**64 - 1, 2**70 + 5, 7, 1000), (0, -1, 0, 0)])
def test_numbers_follow_the_definition(key: tuple[int, ...]) -> None:
    state = 0
    for part in key:
        state = splitmix(state ^ splitmix((part + 0x9E3779B97F4A7C15) % 2**64))
    assert uniform(*(words([part]) for part in key)).tolist() == [(state >> 11) / 2**53]


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("at", [0, 12345])
def test_keys_that_differ_in_one_part_give_even_numbers_without_memory(part: str, at: int) -> None:
    count, cells = 40_000, 16
    drawn = along(part, count, at)
    assert drawn.min() >= 0
    assert drawn.max() < 1
    bound = cells * cells + 4 * math.sqrt(2 * cells * cells)
    first = (drawn * cells).astype(int)
    for gap in (1, 2, 16):  # pairs of neighbours fill the square evenly
        pairs = np.bincount(first[:-gap] * cells + first[gap:], minlength=cells * cells)
        expected = (count - gap) / cells**2
        assert ((pairs - expected) ** 2 / expected).sum() < bound
    last = (drawn * 2**20 % 1 * cells).astype(int)  # lower bits are as even as the upper ones
    counts = np.bincount(last, minlength=cells)
    assert ((counts - count / cells) ** 2 / (count / cells)).sum() < cells + 4 * math.sqrt(2 * cells)


def test_parts_of_a_key_are_not_confused() -> None:
    small = np.arange(6)
    drawn = uniform(small[:, None, None, None], small[:, None, None], small[:, None], small)
    assert drawn.shape == (6, 6, 6, 6)
    assert len(np.unique(drawn)) == 6**4
