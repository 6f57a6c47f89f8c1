"""Constraints on text, lifted to tokens: what may come next, where a row stands after it, and whether it may end.

Whatever is permitted can still be brought to a good end within the tokens that are left: `within` looks for a way
there, best first, and remembers what it learns. So a search under a constraint needs no luck: if any output satisfies
it within the limit, every row that goes on will.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from regard.search.constraints.automaton import Automaton
from regard.search.constraints.characters import LAST
from regard.search.constraints.literals import Literals
from regard.search.constraints.surfaces import Forest, Surfaces, points_between
from regard.search.constraints.table import FAR, Table
from regard.special import END

LATER, FRONT, HELD = 0, 1, 2
MOST_EXPANDED = 3_000
MOST_KEPT = 1 << 24
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


class Lift(Protocol):
    """An automaton over tokens."""

    @property
    def start(self) -> Hashable: ...

    @property
    def told(self) -> str: ...

    @property
    def goal(self) -> int: ...

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
        self._columns: dict[int, Ids] = {}

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
        place, phase, waiting = cast(State, state)
        found = _Found()
        found.add(self.surfaces.silent.tolist(), state)
        base: Hashable | None = place
        if phase == HELD:
            base = self.automaton.next(place, self.surfaces.back)
        if base is None:
            return found.follow()
        forest = self.surfaces.front if phase == FRONT else self.surfaces.later
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
        place, phase, waiting = cast(State, state)
        if not self.surfaces.plain:
            yield from ((one, 1) for one in self.follow(state).states)
            return
        if not waiting:
            yield from ((one, 1) for one in self.follow(state).states if not cast(State, one)[2])
        base = self.automaton.next(place, self.surfaces.back) if phase == HELD else place
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


class Joint:
    """Several constraints at once."""

    def __init__(self, parts: "Sequence[Lifted]") -> None:
        self.parts = tuple(parts)
        self.start = tuple(part.start for part in parts)
        self.told = ", and ".join(part.told for part in parts)
        self.goal = sum(part.goal for part in parts)

    def _each(self, state: Hashable) -> "list[tuple[Lifted, Hashable]]":
        return list(zip(self.parts, cast(tuple[Hashable, ...], state), strict=True))

    def may_end(self, state: Hashable) -> bool:
        return all(part.may_end(one) for part, one in self._each(state))

    def least(self, state: Hashable) -> int:
        return max(part.lift.least(one) for part, one in self._each(state))

    def enough(self, state: Hashable) -> int:
        del state
        return FAR

    def progress(self, state: Hashable) -> int:
        return sum(part.progress(one) for part, one in self._each(state))

    def ways(self, state: Hashable) -> Iterator[tuple[Hashable, int]]:
        each = self._each(state)
        lifts = [part.lift for part, _ in each]
        if not all(isinstance(lift, Single) and lift.surfaces.plain for lift in lifts):
            yield from ((one, 1) for one in self.follow(state).states)
            return
        singles = [
            (lift, cast(State, one)) for lift, (_, one) in zip(lifts, each, strict=True) if isinstance(lift, Single)
        ]
        waiting = singles[0][1][2]
        if not waiting:
            after = ((one, 1) for one in self.follow(state).states)
            yield from ((one, 1) for one, _ in after if not cast(State, cast(tuple[Hashable, ...], one)[0])[2])
        for character in sorted({sign for lift, one in singles for sign in lift.spelled(one)}):
            reached = [lift.automaton.next(one[0], character) for lift, one in singles]
            if None not in reached:
                yield tuple((one, LATER, b"") for one in reached), len(character.encode()) - len(waiting)

    def follow(self, state: Hashable) -> Follow:
        follows = [part.follow(one) for part, one in self._each(state)]
        tokens = follows[0].tokens
        for other in follows[1:]:
            tokens = np.intersect1d(tokens, other.tokens, assume_unique=True)
        keys = np.zeros(len(tokens), dtype=np.int64)
        for one in follows:
            keys = keys * len(one.states) + one.targets[np.searchsorted(one.tokens, tokens)]
        each, firsts, targets = np.unique(keys, return_index=True, return_inverse=True)
        places = [[int(one.targets[np.searchsorted(one.tokens, tokens[first])]) for one in follows] for first in firsts]
        del each
        states = [tuple(one.states[at] for one, at in zip(follows, place, strict=True)) for place in places]
        return Follow(tokens, targets.astype(np.int64), tuple(states))


class Lifted:
    """A constraint over the tokens of a vocabulary. What was found out about a state is kept."""

    def __init__(self, lift: Lift) -> None:
        self.lift = lift
        self.start = lift.start
        self.told = lift.told
        self.goal = lift.goal
        self._follows: dict[Hashable, Follow] = {}
        self._kept = 0
        self._enough: dict[Hashable, int] = {}
        self._too_few: dict[Hashable, int] = {}
        self._safe: dict[Hashable, int] = {}
        self.gave_up = False
        """Whether a search for a way was once broken off; then `within` may have said no too often."""

    def follow(self, state: Hashable) -> Follow:
        found = self._follows.get(state)
        if found is None:
            found = self.lift.follow(state)
            self._kept += len(found.tokens) + 100
            if self._kept > MOST_KEPT:
                self._follows.clear()
                self._kept = len(found.tokens)
            self._follows[state] = found
        return found

    def may_end(self, state: Hashable) -> bool:
        return self.lift.may_end(state)

    def progress(self, state: Hashable) -> int:
        return self.lift.progress(state)

    def advance(self, state: Hashable, token: int) -> Hashable | None:
        """The state after a token; None where it cannot come."""
        follow = self.follow(state)
        place = int(np.searchsorted(follow.tokens, token))
        if place == len(follow.tokens) or follow.tokens[place] != token:
            return None
        return follow.states[int(follow.targets[place])]

    def allowed(self, state: Hashable, left: int) -> Ids:
        """The tokens that may come next where so many tokens are left, the end not counted; END where it may end."""
        follow = self.follow(state)
        tokens = follow.tokens if left > 0 else follow.tokens[:0]
        if left > 0 and not self._is_safe(state, left):
            good = np.array([self.within(one, left - 1) for one in follow.states], dtype=bool)
            if good.all():
                self._safe[state] = max((self._enough.get(one, 0) + 1 for one in follow.states), default=0)
            else:
                tokens = tokens[good[follow.targets]]
        return np.append(tokens, END) if self.may_end(state) else tokens

    def _is_safe(self, state: Hashable, left: int) -> bool:
        return left > self.lift.enough(state) or left >= self._safe.get(state, FAR)

    def within(self, state: Hashable, tokens: int) -> bool:
        """Whether an output can go on from a state and be such that it may end, within so many tokens."""
        if self._enough.get(state, FAR) <= tokens:
            return True
        if self._too_few.get(state, -1) >= tokens:
            return False
        return self._look(state, tokens)

    def _look(self, state: Hashable, tokens: int) -> bool:
        """A best-first search that is complete within the bound, unless it is broken off."""
        number = count()
        depths: dict[Hashable, int] = {state: 0}
        before: dict[Hashable, Hashable] = {}
        heap: list[tuple[int, int, int, Hashable]] = [(0, 0, next(number), state)]
        expanded = 0
        while heap and expanded < MOST_EXPANDED:
            _, depth, _, place = heappop(heap)
            if depth > depths[place]:
                continue
            rest = 0 if self.may_end(place) else self._enough.get(place, FAR)
            if depth + rest <= tokens:
                self._learn(state, place, before, depths, depth + rest)
                return True
            expanded += 1
            for after, cost in self.lift.ways(place):
                least = self.lift.least(after)
                if depth + cost + least > tokens or depth + cost >= depths.get(after, FAR):
                    continue
                depths[after], before[after] = depth + cost, place
                heappush(heap, (self.goal - self.progress(after) + least, depth + cost, next(number), after))
        self.gave_up |= bool(heap)
        self._too_few[state] = max(tokens, self._too_few.get(state, -1))
        return False

    def _learn(
        self,
        state: Hashable,
        place: Hashable,
        before: dict[Hashable, Hashable],
        depths: dict[Hashable, int],
        whole: int,
    ) -> None:
        """Note for all states of a way how many tokens are enough."""
        while True:
            self._enough[place] = min(whole - depths[place], self._enough.get(place, FAR))
            if place == state:
                return
            place = before[place]


def lift_all(automata: Sequence[Automaton], surfaces: Surfaces) -> Lifted:
    """One constraint out of several, over the tokens of a vocabulary."""
    parts = [Lifted(Single(automaton, surfaces)) for automaton in automata]
    return parts[0] if len(parts) == 1 else Lifted(Joint(parts))
