"""What outputs must be like, in the terms of the engine: an automaton over tokens whose states it learns one by one.

The engine asks for a state when a search first comes to it, and never again: from then on there is no Python between
the steps of a search.
"""

import ctypes
import threading
import weakref
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from regard.engine.library import MESSAGE, ToldState, loaded
from regard.engine.runtime import address, error_of
from regard.errors import ModelError

ASK: Final = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.c_int64)


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

    def __init__(self, rules: EngineRules, *, vocabulary: int) -> None:
        native = loaded()
        if native.library is None:
            raise ModelError(f"the native engine cannot be used: {native.reason}")
        self.rules = rules
        self._library = native.library
        self._errors: list[BaseException] = []
        self._lock = threading.Lock()
        told = weakref.ref(self)  # the native side must not keep what keeps it

        def ask(state: int, left: int) -> int:
            here = told()
            return 1 if here is None else here.tell(state, left)

        self._ask = ASK(ask)
        self.handle = ctypes.c_void_p()
        message = ctypes.create_string_buffer(MESSAGE)
        status = self._library.regard_constraint_new(
            vocabulary, rules.goal, self._ask, ctypes.byref(self.handle), message
        )
        if status:
            raise error_of(status, message)
        weakref.finalize(self, self._library.regard_constraint_free, self.handle)

    def tell(self, state: int, left: int) -> int:
        """Answer the engine, which asks from any thread; 1 where that fails, and `fail` says why."""
        message = ctypes.create_string_buffer(MESSAGE)
        try:
            with self._lock:
                if left < 0:
                    known = self.rules.state(state)
                    told, _kept = _told(known)
                    status = self._library.regard_constraint_learn(self.handle, state, ctypes.byref(told), message)
                else:
                    ways = self.rules.open(state, left)
                    status = self._library.regard_constraint_open(self.handle, state, left, ways, len(ways), message)
            if status:
                raise error_of(status, message)
        except BaseException as error:  # nothing may be raised through native code
            self._errors.append(error)
            return 1
        return 0

    def fail(self) -> None:
        """Raise what went wrong when the engine asked, if anything did."""
        if self._errors:
            error = self._errors[0]
            self._errors.clear()
            raise error


def _told(state: EngineState) -> tuple[ToldState, tuple[object, ...]]:
    """A state as the library reads it, and what must be kept until then."""
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
    return told, (states, progresses, distances)
