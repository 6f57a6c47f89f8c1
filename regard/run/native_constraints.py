"""Constraints of `regard.search` for the native engine, which learns their states one by one."""

from array import array
from collections.abc import Hashable
from weakref import WeakKeyDictionary, ref

import numpy as np

from regard.engine.constraints import EngineConstraint, EngineState
from regard.search.constraints import Lifted
from regard.search.constraints.table import FAR

_known: WeakKeyDictionary[Lifted, dict[int, EngineConstraint]] = WeakKeyDictionary()


class LiftedRules:
    """A lifted constraint whose states have numbers, in the order in which they are met.

    It does not keep the constraint, which keeps it: whoever searches does. Numbers stay with their states, also where
    the engine has forgotten them.
    """

    def __init__(self, lifted: Lifted) -> None:
        self._lifted = ref(lifted)
        self.goal = lifted.goal
        self.start = 0
        self._states: list[Hashable] = [lifted.start]
        self._numbers: dict[Hashable, int] = {lifted.start: 0}

    @property
    def lifted(self) -> Lifted:
        found = self._lifted()
        assert found is not None, "who searches must keep the constraint"
        return found

    def state(self, number: int) -> EngineState:
        """What `Lifted` knows of a state."""
        lifted, place = self.lifted, self._states[number]
        follow, distances = lifted.follow(place), lifted.distances_after(place)
        return EngineState(
            tokens=array("i", follow.tokens.astype(np.int32).tobytes()),
            ways=array("i", follow.targets.astype(np.int32).tobytes()),
            states=[self._number(after) for after in follow.states],
            progresses=[lifted.progress(after) for after in follow.states],
            distances=None if distances is None else distances.tolist(),
            may_end=lifted.may_end(place),
            progress=lifted.progress(place),
            enough=min(lifted.enough(place), FAR),
        )

    def open(self, number: int, left: int) -> bytes:
        """The ways from which an end can be reached."""
        return self.lifted.open_ways(self._states[number], left).astype(np.uint8).tobytes()

    def _number(self, state: Hashable) -> int:
        found = self._numbers.get(state)
        if found is None:
            found = self._numbers[state] = len(self._states)
            self._states.append(state)
        return found


def engine_constraint(lifted: Lifted, *, vocabulary: int) -> EngineConstraint:
    """What engines of a vocabulary know of a constraint; it lives as long as that, and whoever searches keeps it."""
    by_size = _known.setdefault(lifted, {})
    if vocabulary not in by_size:
        by_size[vocabulary] = EngineConstraint(LiftedRules(lifted), vocabulary=vocabulary)
    return by_size[vocabulary]
