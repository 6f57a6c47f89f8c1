"""Decoding step by step, for searches that are made in Python: rows that read a token go in, logits come out.

Sentences live in slots. A row of a step is (slot, row of the step before that it continues or -1, place among the rows
of its sentence, token, position); rows of a sentence stand together. One thread at a time.
"""

import ctypes
import weakref
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from regard.engine.library import MESSAGE
from regard.engine.runtime import Engine, address, error_of, joined


class Session:
    """Rows of one search. `beam` is the most rows of a sentence, `slots` the most sentences at a time."""

    def __init__(self, engine: Engine, *, slots: int, beam: int) -> None:
        self.engine = engine
        self._library = engine.library
        self._message = ctypes.create_string_buffer(MESSAGE)
        self._handle = ctypes.c_void_p()
        self._check(
            self._library.regard_session_open(engine.handle, slots, beam, ctypes.byref(self._handle), self._message)
        )
        weakref.finalize(self, _close, engine, self._handle)

    def start(self, sources: Sequence[Sequence[int]]) -> list[int]:
        """The slots of new sentences."""
        ids, starts = joined(sources)
        slots = np.zeros(len(sources), dtype=np.int32)
        count = len(sources)
        arguments = count, address(ids), address(starts), slots.ctypes.data
        self._check(self._library.regard_session_start(self._handle, *arguments, self._message))
        return [int(slot) for slot in slots]

    def release(self, slot: int) -> None:
        """Forget a sentence."""
        self._check(self._library.regard_session_release(self._handle, slot, self._message))

    def step(self, rows: NDArray[np.int32], *, longest: int = 0) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Logits (rows, vocabulary) of what comes next, and weights of attention (rows, longest) to the source.

        The weights are the mean of the heads of the last layer; without `longest` they are not asked for.
        """
        read = np.ascontiguousarray(rows, dtype=np.int32)
        logits = np.empty((len(read), self.engine.target_vocabulary), dtype=np.float32)
        weights = np.zeros((len(read), longest), dtype=np.float32)
        where = weights.ctypes.data if longest else None
        arguments = len(read), read.ctypes.data, logits.ctypes.data, where, longest
        self._check(self._library.regard_session_step(self._handle, *arguments, self._message))
        return logits, weights

    def _check(self, status: int) -> None:
        if status:
            raise error_of(status, self._message)


def _close(engine: Engine, handle: ctypes.c_void_p) -> None:
    engine.library.regard_session_close(handle)  # the engine is kept until then
