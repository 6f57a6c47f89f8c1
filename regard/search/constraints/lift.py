"""Automata over tokens: one automaton over text, read through the surfaces of a vocabulary."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from regard.search.constraints.automaton import Automaton
from regard.search.constraints.characters import LAST
from regard.search.constraints.literals import Literals
from regard.search.constraints.surfaces import Forest, Surfaces, points_between, segments
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

    @property
    def loose(self) -> bool:
        """Whether `sure` goes by a bound, so that its no is no proof."""
        ...

    def sure(self, state: Hashable, tokens: int) -> bool | None:
        """Whether there is a way to an end within so many tokens, where that can be said without a search."""
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
        self.loose = automaton.goal > 0
        self._columns: dict[int, Ids] = {}
        self._by_row: dict[tuple[int, int, bytes], Follow] = {}
        self._spelled: dict[tuple[str, int], int] = {}

    def sure(self, state: Hashable, tokens: int) -> bool | None:
        """Of lines, one of those that are left must be short enough; of marks, one after the other must fit."""
        place, phase, waiting = cast(State, state)
        if isinstance(self.automaton, Literals):
            known = phase != FRONT and not waiting and (self.surfaces.plain or not self.surfaces.later.broken)
            left = self.automaton.texts_left(place) if known else None
            if left is None:
                return None
            least = self.surfaces.longest * tokens
            return any(len(text) <= least and self._segments(text, phase) <= tokens for text in left)
        if isinstance(self.automaton, Table) and self.automaton.lengths:
            return self.legs.enough(state) <= tokens
        return None

    @cached_property
    def legs(self) -> "Legs":
        return Legs(self)

    def _segments(self, text: str, phase: int) -> int:
        """The least tokens that spell a text to its end."""
        key = (text, phase)
        found = self._spelled.get(key)
        if found is None:
            found = self._spelled[key] = segments(text, self.surfaces, held=phase == HELD)
        return found

    def may_end(self, state: Hashable) -> bool:
        place, _, waiting = cast(State, state)
        return not waiting and self.automaton.accepts(place)

    def least(self, state: Hashable) -> int:
        place, _, waiting = cast(State, state)
        missing = max(0, self.automaton.least(place) - len(waiting))
        return max(-(-missing // self.surfaces.longest), bool(waiting))

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


class Legs:
    """How many tokens are enough where marks are missing: one leg to each, then one to an end.

    U(row, M) = min_{b ∈ M} (T_b(row) + Σ_{c ∈ M, c ≠ b} max T_c) + max T_end, with the least tokens T_b from a row to a
    transition that leaves mark b. On the shortest way to b the bound falls by one with each token, and it does not rise
    when b is there. So whoever goes only where the bound is kept comes to an end, though a shorter way may exist.
    """

    def __init__(self, single: Single) -> None:
        assert isinstance(single.automaton, Table)
        self.table = single.automaton
        first = _unmarked(single.start)
        before: dict[State, list[tuple[State, int, int]]] = {first: []}
        left = [first]
        while left:
            place = left.pop()
            for after, cost in single.ways(place):
                reached, gained = _unmarked(after), cast(tuple[int, int], cast(State, after)[0])[1]
                if reached not in before:
                    before[reached] = []
                    left.append(reached)
                before[reached].append((place, cost, gained))
        accepting = [one for one in before if not one[2] and self.table.accepting[cast(tuple[int, int], one[0])[0]]]
        self.to_end = _nearest(before, dict.fromkeys(accepting, 0))
        self.to_marks = []
        for bit in range(len(self.table.lengths)):
            last: dict[State, int] = {}
            for edges in before.values():
                for place, cost, gained in edges:
                    if gained >> bit & 1:
                        last[place] = min(cost, last.get(place, FAR))
            self.to_marks.append(_nearest(before, last))
        self.most_to_end = max(self.to_end.values(), default=FAR) if len(self.to_end) == len(before) else FAR
        self.most = [max(one.values()) if len(one) == len(before) else FAR for one in self.to_marks]
        self.ways = single.ways

    def enough(self, state: Hashable) -> int:
        """So many tokens are enough; more than there ever are where that cannot be said."""
        place = _unmarked(state)
        if place not in self.to_end:  # inside a character
            return min((cost + self.enough(after) for after, cost in self.ways(state)), default=FAR)
        marks = cast(tuple[int, int], cast(State, state)[0])[1]
        missing = [bit for bit in range(len(self.most)) if not marks >> bit & 1]
        if not missing:
            return self.to_end[place]
        whole = sum(self.most[bit] for bit in missing) + self.most_to_end
        return min(self.to_marks[bit].get(place, FAR) - self.most[bit] for bit in missing) + whole


def _unmarked(state: Hashable) -> State:
    (row, _), phase, waiting = cast(Any, state)
    return ((row, 0), phase, waiting)


def _nearest(before: Mapping[State, list[tuple[State, int, int]]], known: dict[State, int]) -> dict[State, int]:
    """The least tokens to where they are known, from everywhere (Dijkstra 1959)."""
    number = count()
    distances = dict(known)
    heap = [(distance, next(number), one) for one, distance in known.items()]
    heapify(heap)
    while heap:
        distance, _, place = heappop(heap)
        if distance > distances[place]:
            continue
        for earlier, cost, _ in before[place]:
            if distance + cost < distances.get(earlier, FAR):
                distances[earlier] = distance + cost
                heappush(heap, (distance + cost, next(number), earlier))
    return distances


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
