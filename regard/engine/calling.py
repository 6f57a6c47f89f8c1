"""Calls of the native library that take long: ended by Ctrl-C, by a flag, and before Python itself ends."""

import atexit
import ctypes
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

SHORT: Final = 4096
"""A call for no more tokens is over before anyone could end it, and is not worth a thread of its own."""


class StopFlag:
    """Ends a search, or a pass for attention, from another thread."""

    def __init__(self) -> None:
        self._value = ctypes.c_int32(0)

    @property
    def address(self) -> int:
        return ctypes.addressof(self._value)

    def stop(self) -> None:
        """The search that has this flag raises `CancelledError` at its next step."""
        self._value.value = 1


_flags: list[StopFlag] = []
"""Of calls under way."""

_changed = threading.Condition()


def called(function: Callable[[], int], flag: StopFlag, *, short: bool) -> int:
    """The status of a call. On the main thread one that is not short runs beside it: Ctrl-C is heard and ends it."""
    if short or threading.current_thread() is not threading.main_thread():
        return _under_way(function, flag)
    status: list[int] = []
    ended = threading.Event()  # an interrupted `Thread.join` takes a thread for ended that is not (bpo-45274)

    def call() -> None:
        try:
            status.append(_under_way(function, flag))
        finally:
            ended.set()

    worker = threading.Thread(target=call)
    try:
        worker.start()
        ended.wait()
    except RuntimeError:  # there is no room for one more
        return _under_way(function, flag)
    except BaseException:
        flag.stop()
        while worker.ident is not None and not ended.is_set():  # whoever is in a hurry waits, too
            with suppress(KeyboardInterrupt):
                ended.wait()
        raise
    return status[0]


def _under_way(function: Callable[[], int], flag: StopFlag) -> int:
    """A call that is ended before Python is."""
    with _changed:
        _flags.append(flag)
    try:
        return function()
    finally:
        with _changed:
            _flags.remove(flag)
            _changed.notify_all()


def end_before_python() -> None:
    """From now on, calls are ended before what was registered until now frees what they read, and who they ask is gone.

    Daemon threads may still search when Python ends.
    """
    atexit.unregister(_end_all)
    atexit.register(_end_all)


def _end_all() -> None:
    with _changed:
        while _flags:
            for flag in _flags:
                flag.stop()
            _changed.wait()


def _forget() -> None:
    """A process that was forked has none of the threads whose calls were under way."""
    global _changed
    _changed = threading.Condition()
    _flags.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
