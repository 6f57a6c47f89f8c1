"""Constraints on text, lifted to tokens: what may come next, where a row stands after it, and whether it may end.

Whatever is permitted can still be brought to a good end within the tokens that are left, so a search under a
constraint needs no luck: if any output satisfies it within the limit, every row that goes on will. For automata with
few states the shortest way to an end is known from all of them at once; others know a bound, or a way is looked for,
best first. Such a search gives up after some time and then says no. What it says depends on the state and the tokens
that are left alone, never on what was asked before: other sentences change nothing.
"""

from collections.abc import Hashable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import count
from math import prod
from typing import cast

import numpy as np
from numpy.typing import NDArray

from regard.search.constraints.automaton import Automaton
from regard.search.constraints.lift import LATER, Follow, Ids, Lift, Single, State
from regard.search.constraints.surfaces import Surfaces
from regard.search.constraints.table import FAR
from regard.special import END

MOST_KEPT = 1 << 24
MOST_EXPLORED = 3_000
MOST_EXPANDED = 300
"""So many states are opened in a search for a way before it gives up."""
UNBOUNDED = 1 << 30


class Joint:
    """Several constraints at once."""

    def __init__(self, parts: "Sequence[Lifted]") -> None:
        self.parts = tuple(parts)
        self.start = tuple(part.start for part in parts)
        self.told = ", and ".join(part.told for part in parts)
        self.goal = sum(part.goal for part in parts)
        self.size = prod(part.lift.size for part in parts)
        self.loose = False

    def sure(self, state: Hashable, tokens: int) -> bool | None:
        """What one cannot do, all together cannot; of demanded parts only a bound is known, which proves nothing."""
        each = [part.lift.sure(one, tokens) for part, one in self._each(state) if not part.goal]
        return False if False in each else None

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
        self._first: dict[Hashable, int] = {}
        self._answers: dict[tuple[Hashable, int], bool] = {}
        self._unproven: set[tuple[Hashable, int]] = set()
        self._allowed: dict[tuple[Hashable, int], Ids] = {}
        self._distances: dict[Hashable, int] | None = None
        self._reach: dict[Hashable, Ids] = {}

    def follow(self, state: Hashable) -> Follow:
        found = self._follows.get(state)
        if found is None:
            found = self.lift.follow(state)
            self._kept += len(found.tokens) + 100
            self._follows[state] = found
            self._tidy()
        return found

    def _tidy(self) -> None:
        """Forget what can be found again, where it has become much."""
        if self._kept > MOST_KEPT:
            self._follows.clear()
            self._allowed.clear()
            self._kept = 0

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
        if left <= 0:
            return self._ending(state, follow.tokens[:0])
        if left > self.enough(state):
            return self._ending(state, follow.tokens)
        found = self._allowed.get((state, left))
        if found is None:
            found = self._ending(state, follow.tokens[self.open_ways(state, left)[follow.targets]])
            self._allowed[state, left] = found
            self._kept += len(found)
            self._tidy()
        return found

    def enough(self, state: Hashable) -> int:
        """Where more tokens are left, all that can follow may come."""
        return self.lift.enough(state)

    def open_ways(self, state: Hashable, left: int) -> NDArray[np.bool_]:
        """Of the states that can follow, which lead to an end where so many tokens are left."""
        distances = self.distances_after(state)
        if distances is not None:
            return distances < left
        return np.array([self.within(one, left - 1) for one in self.follow(state).states], dtype=bool)

    def _ending(self, state: Hashable, tokens: Ids) -> Ids:
        return np.append(tokens, END) if self.may_end(state) else tokens

    @property
    def _small(self) -> bool:
        return self.lift.size <= MOST_EXPLORED

    def distances_after(self, state: Hashable) -> Ids | None:
        """From each of the states that can follow, the least tokens to an end; None where they are not known."""
        if not self._small:
            return None
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

    def within(self, state: Hashable, tokens: int) -> bool:
        """Whether an output can go on from a state and be such that it may end, within so many tokens."""
        if self._small:
            return self._distance(state) <= tokens
        if self.may_end(state):
            return True
        sure = self.lift.sure(state, tokens)
        if sure is not None:
            if not sure and self.lift.loose and self.lift.least(state) <= tokens:
                self._unproven.add((state, tokens))
            return sure
        if state not in self._first:
            self._first[state] = self._look(state, UNBOUNDED)[0]
        if self._first[state] <= tokens:
            return True
        answer = self._answers.get((state, tokens))
        if answer is None:
            found, complete = self._look(state, tokens)
            answer = self._answers[state, tokens] = found <= tokens
            if not answer and not complete:
                self._unproven.add((state, tokens))
        return answer

    def disproves(self, state: Hashable, tokens: int) -> bool:
        """Whether there is no way within so many tokens for certain, and not only none that was found."""
        return not self.within(state, tokens) and (state, tokens) not in self._unproven

    def _look(self, state: Hashable, tokens: int) -> tuple[int, bool]:
        """The tokens of a way to an end within a bound, and whether all ways were looked at where there is none."""
        number = count()
        depths: dict[Hashable, int] = {state: 0}
        heap: list[tuple[int, int, int, Hashable]] = [(0, 0, next(number), state)]
        expanded = 0
        while heap:
            _, depth, _, place = heappop(heap)
            if depth > depths[place]:
                continue
            if self.may_end(place):
                return depth, True
            sure = None if tokens == UNBOUNDED else self.lift.sure(place, tokens - depth)
            if sure is True:
                return tokens, True
            if sure is False:
                continue
            if expanded == MOST_EXPANDED:
                return FAR, False
            expanded += 1
            for after, cost in self.lift.ways(place):
                least = self.lift.least(after)
                if depth + cost + least > tokens or depth + cost >= depths.get(after, FAR):
                    continue
                depths[after] = depth + cost
                heappush(heap, (self.goal - self.progress(after) + least, depth + cost, next(number), after))
        return FAR, True


def lift_all(automata: Sequence[Automaton], surfaces: Surfaces) -> Lifted:
    """One constraint out of several, over the tokens of a vocabulary."""
    parts = [Lifted(Single(automaton, surfaces)) for automaton in automata]
    return parts[0] if len(parts) == 1 else Lifted(Joint(parts))
