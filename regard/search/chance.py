"""Random numbers that are a function of what they are for, not of what was drawn before.

A counter-based generator: the words of a key go one by one through the finaliser of SplitMix64 (Steele, Lea & Flood
2014), a bijection of 64 bits in which every bit of the input moves about half of the output's.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def words(numbers: Iterable[int]) -> NDArray[np.uint64]:
    """The last 64 bits of numbers."""
    return np.array([number & 0xFFFFFFFFFFFFFFFF for number in numbers], dtype=np.uint64)


def uniform(*key: NDArray[Any]) -> NDArray[np.float64]:
    """Numbers in [0, 1), one for each key; the parts of a key are integers, and are broadcast."""
    state = np.zeros(1, dtype=np.uint64)
    for part in key:
        state = _mix(state ^ _mix(part.astype(np.uint64) + _GOLDEN))
    return (state >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mix(word: NDArray[np.uint64]) -> NDArray[np.uint64]:
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))
