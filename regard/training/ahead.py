"""The next things are made while the last one is used: a thread runs an iterator a few steps ahead.

Making a batch takes Python; an update spends most of its time in torch, which lets Python go on. What comes out and in
which order is what the iterator alone would give, and so is an error: it comes when its turn has come.
"""

from collections.abc import Generator, Iterator
from contextlib import suppress
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import Final, TypeVar

Made = TypeVar("Made")

DEPTH: Final = 2
"""So many things wait at most, and one more is being made."""

PAUSE: Final = 0.1
"""Seconds after which a thread that waits looks whether anybody wants what it has."""


class _End:
    """Behind the last thing."""


def ahead(things: Iterator[Made], depth: int = DEPTH) -> Generator[Made]:
    """The same things; whoever closes this generator ends its thread."""
    waiting: Queue[Made | BaseException | _End] = Queue(depth)
    unwanted = Event()

    def put(one: Made | BaseException | _End) -> None:
        while not unwanted.is_set():
            try:
                waiting.put(one, timeout=PAUSE)
            except Full:
                continue
            return

    def make() -> None:
        try:
            for one in things:
                put(one)
                if unwanted.is_set():
                    return
            put(_End())
        except BaseException as error:  # it is the caller's, whatever it is
            put(error)

    thread = Thread(target=make, name="batches", daemon=True)
    thread.start()
    try:
        while not isinstance(one := waiting.get(), _End):
            if isinstance(one, BaseException):
                raise one
            yield one
    finally:
        unwanted.set()
        with suppress(Empty):
            waiting.get_nowait()  # so that the thread need not wait to see it
        thread.join()
