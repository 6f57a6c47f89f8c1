"""A finite automaton over classes of characters, as a table.

A state is a row of the table and a set of marks. Transitions can leave marks (a phrase was read), and a text is over
only with all marks it needs. Marks are bits beside the row, because a table with a row for each subset of k phrases
would be 2^k times as large.

Shapes: R rows, C classes of characters, B marks.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from regard.search.constraints.characters import Classes

FAR = 1 << 40
MOST_MARKS = 62
MOST_EXACT = 5
"""Of so many missing marks all subsets are looked at."""
MOST_ROWS = 5_000
"""Of two tables that are made one."""

State = tuple[int, int]


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """Row 0 is where nothing comes back from; row 1 is the start. What leads only to row 0 is made it."""

    told: str
    classes: Classes
    following: NDArray[np.int32]  # (R, C) the next row
    marks: NDArray[np.int64]  # (R, C) bits left on the way there
    last_marks: NDArray[np.int64]  # (R,) bits left if the text is over here
    accepting: NDArray[np.bool_]  # (R,)
    lengths: tuple[int, ...] = ()  # (B,) of what each mark stands for
    accept_distances: NDArray[np.int64] = field(init=False)  # (R,) least bytes to a row that accepts
    mark_distances: NDArray[np.int64] = field(init=False)  # (B, R) the same to each mark
    _whole: dict[int, NDArray[np.int64]] = field(default_factory=dict)
    _samples: dict[tuple[int, int], list[tuple[int, str]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        distances = self._distances(np.where(self.accepting, 0, FAR))
        object.__setattr__(self, "accept_distances", distances)
        object.__setattr__(self, "following", np.where(distances[self.following] < FAR, self.following, 0))
        each = [self._mark_distances(1 << bit) for bit in range(len(self.lengths))]
        object.__setattr__(self, "mark_distances", np.array(each, dtype=np.int64).reshape(len(each), len(distances)))

    def _mark_distances(self, bit: int) -> NDArray[np.int64]:
        here = np.where((self.marks & bit) > 0, self.classes.widths, FAR).min(1)
        return self._distances(np.where((self.last_marks & bit) > 0, 0, here))

    def _distances(self, distances: NDArray[np.int64]) -> NDArray[np.int64]:
        """Shortest ways to where `distances` is known, by relaxation."""
        distances = distances.astype(np.int64)
        distances[0] = FAR
        while True:
            nearer = np.minimum(distances, (distances[self.following] + self.classes.widths).min(1))
            nearer[0] = FAR
            if (nearer == distances).all():
                return distances
            distances = nearer

    @property
    def start(self) -> State:
        return (1, 0)

    @property
    def needed(self) -> int:
        """All marks."""
        return (1 << len(self.lengths)) - 1

    @property
    def goal(self) -> int:
        return sum(self.lengths)

    @property
    def size(self) -> int:
        return len(self.accepting) << len(self.lengths)

    def next(self, state: Hashable, character: str) -> State | None:
        row, marks = cast(State, state)
        column = self.classes.of(character)
        after = int(self.following[row, column]), marks | int(self.marks[row, column])
        return after if after[0] else None

    def accepts(self, state: Hashable) -> bool:
        row, marks = cast(State, state)
        return bool(self.accepting[row]) and (marks | int(self.last_marks[row])) == self.needed

    def least(self, state: Hashable) -> int:
        row, marks = cast(State, state)
        missing = self._missing(marks)
        if len(missing) <= MOST_EXACT:
            return int(self._distances_with(marks)[row])
        return max(int(self.accept_distances[row]), *(int(self.mark_distances[bit, row]) for bit in missing))

    def _distances_with(self, marks: int) -> NDArray[np.int64]:
        """Least bytes to an end from each row, with some marks there already."""
        if marks == self.needed:
            return self.accept_distances
        found = self._whole.get(marks)
        if found is None:
            here = np.where(self.accepting & (marks | self.last_marks == self.needed), 0, FAR)
            gained = marks | self.marks
            for more in np.unique(gained[gained != marks]).tolist():
                ways = np.where(gained == more, self._distances_with(more)[self.following] + self.classes.widths, FAR)
                here = np.minimum(here, ways.min(1))
            found = self._whole[marks] = self._distances(here)
        return found

    def most(self, state: Hashable) -> int:
        """So many bytes are enough to bring a text to its end: one demanded part after the other.

        A mark that counts only at the end of a text costs one more character where others are still to come.
        """
        live = self.accept_distances < FAR
        _, marks = cast(State, state)
        ways = [self.mark_distances[bit] for bit in self._missing(marks)]
        if not live.any():
            return FAR
        return int(self.accept_distances[live].max()) + sum(int(way[live].max()) + 4 for way in ways)

    def progress(self, state: Hashable) -> int:
        row, marks = cast(State, state)
        left = (min(self.lengths[bit], int(self.mark_distances[bit, row])) for bit in self._missing(marks))
        return self.goal - sum(left)

    def _missing(self, marks: int) -> list[int]:
        return [bit for bit in range(len(self.lengths)) if not marks >> bit & 1]

    def takes(self, state: Hashable, low: int, high: int) -> bool:
        row, _ = cast(State, state)
        return any(self.following[row, column] for column, _ in self._classes_between(low, high))

    def characters_between(self, state: Hashable, low: int, high: int) -> list[str]:
        """Of characters between two code points that can come next, the first of each class."""
        row, _ = cast(State, state)
        return [sample for column, sample in self._classes_between(low, high) if self.following[row, column]]

    def _classes_between(self, low: int, high: int) -> list[tuple[int, str]]:
        found = self._samples.get((low, high))
        if found is None:
            found = self._samples[low, high] = self.classes.samples(low, high)
        return found


class Rows:
    """Builds a table row by row from states of any kind, which are numbered as they are met."""

    def __init__(self, start: Hashable) -> None:
        self.numbers: dict[Hashable, int] = {None: 0, start: 1}
        self.states: list[Any] = [None, start]

    def number(self, state: Hashable) -> int:
        """The row of a state; None has row 0."""
        if state not in self.numbers:
            self.numbers[state] = len(self.states)
            self.states.append(state)
        return self.numbers[state]


def intersect(one: Table, other: Table) -> Table | None:
    """What both tables accept, as one table; None where it would be too large."""
    if len(one.lengths) + len(other.lengths) > MOST_MARKS:
        return None
    classes, pairs = one.classes.refine(other.classes)
    columns, others = (np.array(each) for each in zip(*pairs, strict=True))
    rows = Rows((1, 1))
    place = 1
    following = [np.zeros(classes.count, dtype=np.int32)]
    while place < len(rows.states):
        if len(rows.states) > MOST_ROWS:
            return None
        first, second = rows.states[place]
        to = zip(one.following[first, columns].tolist(), other.following[second, others].tolist(), strict=True)
        following.append(np.array([rows.number(both) if all(both) else 0 for both in to], dtype=np.int32))
        place += 1
    firsts = np.array([0, *(state[0] for state in rows.states[1:])])
    seconds = np.array([0, *(state[1] for state in rows.states[1:])])
    shift = len(one.lengths)
    return Table(
        told=f"{one.told}, and {other.told}",
        classes=classes,
        following=np.stack(following),
        marks=one.marks[firsts][:, columns] | other.marks[seconds][:, others] << shift,
        last_marks=one.last_marks[firsts] | other.last_marks[seconds] << shift,
        accepting=one.accepting[firsts] & other.accepting[seconds],
        lengths=(*one.lengths, *other.lengths),
    )
