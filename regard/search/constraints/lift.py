"""Automata over tokens: one automaton over text, read through the surfaces of a vocabulary."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from regard.search.constraints.automaton import Automaton
from regard.search.constraints.characters import LAST
from regard.search.constraints.literals import Literals
from regard.search.constraints.surfaces import Forest, Surfaces, points_between
from regard.search.constraints.table import FAR, Table

LATER, FRONT, HELD = 0, 1, 2
FEW = 8

Ids = NDArray[np.int64]
State = tuple[Hashable, int, bytes]
"""Where the automaton stands, where in the text, and the bytes of a character that is not whole yet."""


@dataclass(frozen=True, slots=True)
class Follow:
    """The tokens that can come next, in order, and for each which of the states it leads to."""

    tokens: Ids
    targets: Ids
    states: tuple[Hashable, ...]


_NONE: Ids = np.zeros(0, dtype=np.int64)


class Lift(Protocol):
    """An automaton over tokens."""

    @property
    def start(self) -> Hashable: ...

    @property
    def told(self) -> str: ...

    @property
    def goal(self) -> int: ...

    @property
    def size(self) -> int:
        """About how many states there are."""
        ...

    def rest(self, state: Hashable) -> int | None:
        """The tokens to an end, where only one text can follow: at least so many; None where several can."""
        ...

    def follow(self, state: Hashable) -> Follow: ...

    def may_end(self, state: Hashable) -> bool: ...

    def least(self, state: Hashable) -> int:
        """A lower bound of the tokens that must still come."""
        ...

    def enough(self, state: Hashable) -> int:
        """So many tokens are enough to come to an end, from here and from all that can follow."""
        ...

    def progress(self, state: Hashable) -> int: ...

    def ways(self, state: Hashable) -> Iterable[tuple[Hashable, int]]:
        """States that can be reached, with the tokens it takes; enough of them to find the shortest way to an end."""
        ...


class Single:
    """One automaton over the surfaces of a vocabulary."""

    def __init__(self, automaton: Automaton, surfaces: Surfaces) -> None:
        self.automaton = automaton
        self.surfaces = surfaces
        self.told = automaton.told
        self.goal = automaton.goal
        self.start: State = (automaton.start, FRONT if surfaces.has_front else LATER, b"")
        self.size = automaton.size
        self._columns: dict[int, Ids] = {}
        self._by_row: dict[tuple[int, int, bytes], Follow] = {}

    def rest(self, state: Hashable) -> int | None:
        place, phase, waiting = cast(State, state)
        if phase == FRONT or waiting or not isinstance(self.automaton, Literals):
            return None
        text = self.automaton.only(place)
        return None if text is None else self._segments(text, phase)

    def _segments(self, text: str, phase: int) -> int:
        """The least tokens that spell a text to its end."""
        forest, back = self.surfaces.later, self.surfaces.back
        if phase == HELD and text:
            if text[0] != back:
                return FAR
            text = text[1:]
        reached = [FAR] * (len(text) + 1)
        reached[0] = 0
        for start in range(len(text)):
            if reached[start] == FAR:
                continue
            node = 0
            for end in range(start, len(text)):
                if self.surfaces.spells and end == start:
                    width = len(text[start].encode())
                    reached[start + 1] = min(reached[start + 1], reached[start] + width)
                after = forest.children[node].get(text[end])
                if after is None:
                    break
                node = after
                for at in forest.ends.get(node, ()):
                    held = bool(forest.held[at])
                    if held and end + 1 < len(text) and text[end + 1] == back:
                        reached[end + 2] = min(reached[end + 2], reached[start] + 1)
                    if not held or end + 1 == len(text):
                        reached[end + 1] = min(reached[end + 1], reached[start] + 1)
        return reached[-1]

    def may_end(self, state: Hashable) -> bool:
        place, _, waiting = cast(State, state)
        return not waiting and self.automaton.accepts(place)

    def least(self, state: Hashable) -> int:
        place, _, waiting = cast(State, state)
        return max(-(-self.automaton.least(place) // self.surfaces.longest), bool(waiting))

    def enough(self, state: Hashable) -> int:
        if not self.surfaces.spells or not isinstance(self.automaton, Table):
            return FAR
        return self.automaton.most(cast(State, state)[0]) + 4  # a space in front, or three bytes of a character

    def progress(self, state: Hashable) -> int:
        return self.automaton.progress(cast(State, state)[0])

    def follow(self, state: Hashable) -> Follow:
        _, phase, waiting = cast(State, state)
        base = self.base(state)
        found = Follow(_NONE, _NONE, ())
        if base is not None:
            forest = self.surfaces.front if phase == FRONT else self.surfaces.later
            found = self._follow_marked(base, forest, waiting)
        silent = self.surfaces.silent
        if not len(silent):
            return found
        tokens = np.concatenate((found.tokens, silent))
        targets = np.concatenate((found.targets, np.full(len(silent), len(found.states))))
        order = tokens.argsort()
        return Follow(tokens[order], targets[order], (*found.states, state))

    def base(self, state: Hashable) -> Hashable | None:
        """Where the automaton stands when something follows: a space that was held back is read then."""
        place, phase, _ = cast(State, state)
        return self.automaton.next(place, self.surfaces.back) if phase == HELD else place

    def _follow_marked(self, base: Hashable, forest: Forest, waiting: bytes) -> Follow:
        """Rows of a table lead to the same rows whatever the marks, so they are followed once for all marks."""
        if not isinstance(self.automaton, Table) or not self.automaton.lengths:
            return self._follow(base, forest, waiting)
        row, marks = cast(tuple[int, int], base)
        key = (row, id(forest), waiting)
        found = self._by_row.get(key)
        if found is None:
            found = self._by_row[key] = self._follow((row, 0), forest, waiting)
        states = [cast(State, one) for one in found.states]
        marked = [((row, marks | more), phase, rest) for (row, more), phase, rest in cast(list[Any], states)]
        return Follow(found.tokens, found.targets, tuple(marked))

    def _follow(self, base: Hashable, forest: Forest, waiting: bytes) -> Follow:
        found = _Found()
        if not waiting:
            if isinstance(self.automaton, Table):
                self._read_table(self.automaton, forest, cast(tuple[int, int], base), found)
            else:
                self._read(forest, base, found)
        for part in forest.parts(waiting):
            after = self._through(base, part.text)
            if after is not None and (not part.rest or self.automaton.takes(after, *points_between(part.rest))):
                found.add([part.token], (after, HELD if part.held else LATER, part.rest))
        return found.follow()

    def ways(self, state: Hashable) -> Iterator[tuple[Hashable, int]]:
        """Where only single bytes are parts of characters, a whole character is one way: its bytes are many states."""
        waiting = cast(State, state)[2]
        if not self.surfaces.plain:
            yield from ((one, 1) for one in self.follow(state).states)
            return
        if not waiting:
            yield from ((one, 1) for one in self.follow(state).states if not cast(State, one)[2])
        base = self.base(state)
        if base is not None:
            for character in self.spelled(state):
                after = self.automaton.next(base, character)
                if after is not None:
                    yield (after, LATER, b""), len(character.encode()) - len(waiting)

    def spelled(self, state: Hashable) -> list[str]:
        """Characters of several bytes that can come next."""
        place, _, waiting = cast(State, state)
        return self.automaton.characters_between(place, *(points_between(waiting) if waiting else (0x80, LAST)))

    def _through(self, place: Hashable | None, text: str) -> Hashable | None:
        for character in text:
            if place is None:
                return None
            place = self.automaton.next(place, character)
        return place

    def _read(self, forest: Forest, place: Hashable, found: "_Found") -> None:
        """All tokens, one branch after the other."""
        left: list[tuple[int, Hashable]] = [(0, place)]
        while left:
            node, place = left.pop()
            for at in forest.ends.get(node, ()):
                phase = HELD if forest.held[at] else LATER
                found.add([int(forest.tokens[at])], (place, phase, b""))
            children = forest.children[node]
            few = self.automaton.characters(place, FEW) if isinstance(self.automaton, Literals) else None
            for character in children if few is None else few & children.keys():
                after = self.automaton.next(place, character)
                if after is not None:
                    left.append((children[character], after))

    def _read_table(self, table: Table, forest: Forest, place: tuple[int, int], found: "_Found") -> None:
        """All tokens, one level of the forest after the other."""
        columns = self._columns.get(id(forest))
        if columns is None:
            signs = np.array([table.classes.of(sign) for sign in forest.signs], dtype=np.int64)
            columns = self._columns[id(forest)] = signs[forest.read] if len(signs) else forest.read
        rows = np.zeros(len(forest.read), dtype=np.int64)
        marks = np.full(len(rows), place[1], dtype=np.int64)
        rows[0] = place[0]
        for low, high in zip(forest.levels[1:], forest.levels[2:], strict=False):
            parents, read = forest.parents[low:high], columns[low:high]
            before = rows[parents]
            rows[low:high] = table.following[before, read]
            if table.lengths:
                marks[low:high] = marks[parents] | table.marks[before, read]
        ends = rows[forest.nodes]
        live = ends > 0
        kinds, numbers = np.unique(marks[forest.nodes][live], return_inverse=True)
        keys = (ends[live] * len(kinds) + numbers) * 2 + forest.held[live]
        tokens = forest.tokens[live]
        each, which = np.unique(keys, return_inverse=True)
        states = [
            ((int(key) // 2 // len(kinds), int(kinds[int(key) // 2 % len(kinds)])), HELD if key % 2 else LATER, b"")
            for key in each
        ]
        found.add_many(tokens, which, states)


class _Found:
    """Collects tokens by where they lead to."""

    def __init__(self) -> None:
        self.states: dict[Hashable, int] = {}
        self.tokens: list[Ids] = []
        self.targets: list[Ids] = []
        self.few: list[tuple[int, int]] = []

    def add(self, tokens: Sequence[int], state: Hashable) -> None:
        if tokens:
            number = self.states.setdefault(state, len(self.states))
            self.few += [(token, number) for token in tokens]

    def add_many(self, tokens: Ids, which: Ids, states: Sequence[Hashable]) -> None:
        numbers = np.array([self.states.setdefault(state, len(self.states)) for state in states], dtype=np.int64)
        self.tokens.append(tokens)
        self.targets.append(numbers[which])

    def follow(self) -> Follow:
        few = np.array(self.few, dtype=np.int64).reshape(-1, 2)
        tokens = np.concatenate((*self.tokens, few[:, 0]))
        order = tokens.argsort()
        return Follow(tokens[order], np.concatenate((*self.targets, few[:, 1]))[order], tuple(self.states))
