"""Constraints on text, lifted to tokens: what may come next, where a row stands after it, and whether it may end.

Whatever is permitted can still be brought to a good end within the tokens that are left, so a search under a
constraint needs no luck: if any output satisfies it within the limit, every row that goes on will. For automata with
few states the shortest way to an end is known from all of them at once; for others `within` looks for one, best first,
and remembers what it learns. It gives up after some time, and then says no.
"""

from collections.abc import Hashable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import count
from math import prod
from typing import cast

import numpy as np

from regard.search.constraints.automaton import Automaton
from regard.search.constraints.lift import LATER, Follow, Ids, Lift, Single, State
from regard.search.constraints.surfaces import Surfaces
from regard.search.constraints.table import FAR
from regard.special import END

MOST_KEPT = 1 << 24
MOST_EXPLORED = 3_000
MOST_EXPANDED = 300
LEAST_EXPANDED = 40
PATIENCE = 1_000
"""So many states are opened in all searches for a way before each gets only the least."""


class Joint:
    """Several constraints at once."""

    def __init__(self, parts: "Sequence[Lifted]") -> None:
        self.parts = tuple(parts)
        self.start = tuple(part.start for part in parts)
        self.told = ", and ".join(part.told for part in parts)
        self.goal = sum(part.goal for part in parts)
        self.size = prod(part.lift.size for part in parts)

    def rest(self, state: Hashable) -> int | None:
        """What one part needs, all together need at least; it is exact only where the others let it through."""
        del state
        return None

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
            reached = [
                None if (base := lift.base(one)) is None else lift.automaton.next(base, character)
                for lift, one in singles
            ]
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
        self._distances: dict[Hashable, int] | None = None
        self._reach: dict[Hashable, Ids] = {}
        self._expanded = 0
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
            if self._small:
                return self._ending(state, tokens[(self._distances_after(state) < left)[follow.targets]])
            good = np.array([self.within(one, left - 1) for one in follow.states], dtype=bool)
            if good.all():
                self._safe[state] = max((self._enough.get(one, 0) + 1 for one in follow.states), default=0)
            else:
                tokens = tokens[good[follow.targets]]
        return self._ending(state, tokens)

    def _ending(self, state: Hashable, tokens: Ids) -> Ids:
        return np.append(tokens, END) if self.may_end(state) else tokens

    @property
    def _small(self) -> bool:
        return self.lift.size <= MOST_EXPLORED

    def _distances_after(self, state: Hashable) -> Ids:
        found = self._reach.get(state)
        if found is None:
            each = [self._distance(one) for one in self.follow(state).states]
            found = self._reach[state] = np.array(each, dtype=np.int64)
        return found

    def _distance(self, state: Hashable) -> int:
        """The least tokens from a state to one where the text may be over."""
        if self._distances is None:
            self._distances = self._explore()
        found = self._distances.get(state)
        if found is None:  # inside a character
            each = (cost + self._distances.get(after, FAR) for after, cost in self.lift.ways(state))
            found = self._distances[state] = min(each, default=FAR)
        return found

    def _explore(self) -> dict[Hashable, int]:
        """Shortest ways from all states, from the ends backwards."""
        before: dict[Hashable, list[tuple[Hashable, int]]] = {self.start: []}
        left = [self.start]
        while left:
            place = left.pop()
            for after, cost in self.lift.ways(place):
                if after not in before:
                    before[after] = []
                    left.append(after)
                before[after].append((place, cost))
        number = count()
        distances = dict.fromkeys(before, FAR) | {one: 0 for one in before if self.may_end(one)}
        heap = [(0, next(number), one) for one, distance in distances.items() if distance == 0]
        while heap:
            distance, _, place = heappop(heap)
            if distance > distances[place]:
                continue
            for earlier, cost in before[place]:
                if distance + cost < distances[earlier]:
                    distances[earlier] = distance + cost
                    heappush(heap, (distance + cost, next(number), earlier))
        return distances

    def _is_safe(self, state: Hashable, left: int) -> bool:
        return left > self.lift.enough(state) or left >= self._safe.get(state, FAR)

    def within(self, state: Hashable, tokens: int) -> bool:
        """Whether an output can go on from a state and be such that it may end, within so many tokens."""
        if self._small:
            return self._distance(state) <= tokens
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
        most = MOST_EXPANDED if self._expanded < PATIENCE else LEAST_EXPANDED
        while heap and expanded < most:
            _, depth, _, place = heappop(heap)
            if depth > depths[place]:
                continue
            only = self.lift.rest(place)
            rest = 0 if self.may_end(place) else self._enough.get(place, FAR) if only is None else only
            if depth + rest <= tokens:
                self._learn(state, place, before, depths, depth + rest)
                return True
            if only is not None:
                continue
            expanded += 1
            self._expanded += 1
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
