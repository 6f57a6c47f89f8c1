"""What outputs must be like, in the terms of the engine: an automaton over tokens whose states it learns one by one.

The engine asks for a state when a search first comes to it and keeps what it is told, as long as there is room. Where
lengths are not known (`EngineState.distances`) it asks again for each number of tokens that are left.
"""

import ctypes
import weakref
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from regard.engine.library import MESSAGE, ToldState, loaded
from regard.engine.runtime import address, error_of
from regard.errors import ModelError

ASK: Final = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)

ROOM: Final = 1 << 27
"""Bytes of what the engine is told; beyond that it forgets, and asks again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineState:
    """Tokens that can come next do so by several ways, each of which leads to another state."""

    tokens: "array[int]"
    """Of 32 bits each, in order; END is not among them."""

    ways: "array[int]"
    """Of each token, by which way it comes."""

    states: Sequence[int]
    """Where each way leads to."""

    progresses: Sequence[int]
    """How much of what is demanded is there then."""

    distances: Sequence[int] | None
    """How many tokens an end is away from there; None where that is not known, and `EngineRules.open` says more."""

    may_end: bool
    progress: int
    enough: int
    """Where more tokens are left, every way can be taken."""


class EngineRules(Protocol):
    """A constraint whose states have numbers."""

    @property
    def start(self) -> int: ...

    @property
    def goal(self) -> int:
        """The largest progress, where parts of the text are demanded; 0 where nothing is."""
        ...

    def state(self, number: int) -> EngineState: ...

    def open(self, number: int, left: int) -> bytes:
        """Of each way of a state, 1 where an end can be reached if so many tokens are left, else 0."""
        ...


class EngineConstraint:
    """Rules as engines of one vocabulary know them. Many searches may use one at a time, and learn from each other."""

    def __init__(self, rules: EngineRules, *, vocabulary: int, room: int = ROOM) -> None:
        native = loaded()
        if native.library is None:
            raise ModelError(f"the native engine cannot be used: {native.reason}")
        self.rules = rules
        self._library = native.library
        self.handle = ctypes.c_void_p()
        message = ctypes.create_string_buffer(MESSAGE)
        status = self._library.regard_constraint_new(vocabulary, rules.goal, room, ctypes.byref(self.handle), message)
        if status:
            raise error_of(status, message)
        weakref.finalize(self, self._library.regard_constraint_free, self.handle)

    def tell(self, state: int, left: int) -> None:
        """Answer the engine, which asks once at a time."""
        message = ctypes.create_string_buffer(MESSAGE)
        if left < 0:
            told, _kept = _told(self.rules.state(state))
            status = self._library.regard_constraint_learn(self.handle, state, ctypes.byref(told), message)
        else:
            ways = self.rules.open(state, left)
            status = self._library.regard_constraint_open(self.handle, state, left, ways, len(ways), message)
        if status:
            raise error_of(status, message)


class Asking:
    """Who answers the engine during one search, from any of its threads; what goes wrong is for who has searched.

    Never on the main thread: a KeyboardInterrupt is raised before the first line of what is called, where nobody could
    catch it, and ctypes would only print it.
    """

    def __init__(self, constraints: Iterable[EngineConstraint]) -> None:
        by_handle = {one.handle.value: one for one in constraints}
        errors: list[BaseException] = []

        def ask(handle: int, state: int, left: int) -> int:
            try:
                by_handle[handle].tell(state, left)
            except BaseException as error:  # nothing may be raised through native code
                errors.append(error)
                return 1
            return 0

        self.errors = errors
        self._callback = ASK(ask)
        self.address = ctypes.cast(self._callback, ctypes.c_void_p).value


def _told(state: EngineState) -> tuple[ToldState, tuple[object, ...]]:
    """A state as the library reads it, and what must be kept until then."""
    ways = {len(state.states), len(state.progresses)}
    if state.distances is not None:
        ways.add(len(state.distances))
    if len(ways) > 1 or len(state.tokens) != len(state.ways) or {state.tokens.itemsize, state.ways.itemsize} != {4}:
        raise ModelError("a state of a constraint tells different numbers of tokens or ways")
    states, progresses = array("i", state.states), array("q", state.progresses)
    distances = None if state.distances is None else array("q", state.distances)
    told = ToldState(
        count=len(state.tokens),
        tokens=address(state.tokens),
        ways=address(state.ways),
        way_count=len(states),
        states=address(states),
        progresses=address(progresses),
        distances=None if distances is None else address(distances),
        may_end=state.may_end,
        progress=state.progress,
        enough=state.enough,
    )
    return told, (state, states, progresses, distances)
