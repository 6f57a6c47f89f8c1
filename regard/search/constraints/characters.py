"""Sets of characters as ranges of code points, and the classes that several sets divide all characters into.

An automaton over text has one column for each class of characters it cannot tell apart, not one for each of the 1.1
million code points.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

LAST = 0x10FFFF


@dataclass(frozen=True, slots=True)
class Characters:
    """A set of characters: ranges [low, high] in order, which neither touch nor overlap."""

    ranges: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, ranges: Iterable[tuple[int, int]]) -> "Characters":
        """The characters of any ranges."""
        joined: list[tuple[int, int]] = []
        for low, high in sorted(ranges):
            if joined and low <= joined[-1][1] + 1:
                joined[-1] = (joined[-1][0], max(joined[-1][1], high))
            else:
                joined.append((low, high))
        return cls(tuple(joined))

    @classmethod
    def one(cls, character: str) -> "Characters":
        return cls(((ord(character), ord(character)),))

    def join(self, other: "Characters") -> "Characters":
        return Characters.of((*self.ranges, *other.ranges))

    def others(self) -> "Characters":
        """All characters that are not in the set."""
        gaps, place = [], 0
        for low, high in self.ranges:
            if place < low:
                gaps.append((place, low - 1))
            place = high + 1
        if place <= LAST:
            gaps.append((place, LAST))
        return Characters(tuple(gaps))


@lru_cache(maxsize=8)
def characters_that(are: Callable[[str], bool]) -> Characters:
    """All characters with a property, such as `str.isalnum`."""
    return Characters.of((point, point) for point in range(LAST + 1) if are(chr(point)))


def is_word(character: str) -> bool:
    """Whether a character belongs to words: a letter, a digit or a low line."""
    return character.isalnum() or character == "_"


@dataclass(frozen=True, slots=True)
class Classes:
    """Characters divided into classes: from code point `starts[i]` on they are of class `numbers[i]`."""

    starts: tuple[int, ...]
    numbers: tuple[int, ...]
    widths: tuple[int, ...]  # of each class, the bytes of its shortest character

    @classmethod
    def divide(cls, sets: Sequence[Characters]) -> "tuple[Classes, list[list[int]]]":
        """The coarsest classes of which every set is made, and the classes of each set."""
        cuts = {0}
        for one in sets:
            for low, high in one.ranges:
                cuts |= {low, high + 1}
        starts = sorted(cut for cut in cuts if cut <= LAST)
        places = {cut: place for place, cut in enumerate(starts)}
        member = np.zeros((len(starts), len(sets)), dtype=bool)
        for column, one in enumerate(sets):
            for low, high in one.ranges:
                member[places[low] : places.get(high + 1, len(starts)), column] = True
        seen: dict[bytes, int] = {}
        numbers = [seen.setdefault(row.tobytes(), len(seen)) for row in member]
        firsts: dict[int, NDArray[np.bool_]] = {}
        for number, row in zip(numbers, member, strict=True):
            firsts.setdefault(number, row)
        parts = [[number for number, row in firsts.items() if row[column]] for column in range(len(sets))]
        return cls(tuple(starts), tuple(numbers), _widths(starts, numbers)), parts

    @property
    def count(self) -> int:
        return len(self.widths)

    def of(self, character: str) -> int:
        return self.numbers[bisect_right(self.starts, ord(character)) - 1]

    def refine(self, other: "Classes") -> "tuple[Classes, list[tuple[int, int]]]":
        """The classes that tell apart what either does, and for each the two that it is in."""
        starts = sorted({*self.starts, *other.starts})
        both = [(self.of(chr(start)), other.of(chr(start))) for start in starts]
        seen: dict[tuple[int, int], int] = {}
        numbers = [seen.setdefault(pair, len(seen)) for pair in both]
        return Classes(tuple(starts), tuple(numbers), _widths(starts, numbers)), list(seen)

    def samples(self, low: int, high: int) -> list[tuple[int, str]]:
        """The classes that characters between two code points have, with the first such character of each."""
        found: dict[int, str] = {}
        for place in range(bisect_right(self.starts, low) - 1, bisect_right(self.starts, high)):
            point = max(low, self.starts[place])
            if 0xD800 <= point <= 0xDFFF:  # surrogates are no characters
                point = 0xE000
            if point <= high and (place + 1 == len(self.starts) or point < self.starts[place + 1]):
                found.setdefault(self.numbers[place], chr(point))
        return list(found.items())


def _widths(starts: Sequence[int], numbers: Sequence[int]) -> tuple[int, ...]:
    widths: dict[int, int] = {}
    for start, number in zip(starts, numbers, strict=True):
        width = 1 + (start > 0x7F) + (start > 0x7FF) + (start > 0xFFFF)
        widths[number] = min(widths.get(number, 4), width)
    return tuple(widths[number] for number in range(len(widths)))
