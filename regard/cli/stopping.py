"""Signals before a training heeds them, and after it is done: there is nothing to save, so the process ends at once."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from regard.process import SIGNALS


@contextmanager
def stopping_at_once() -> Iterator[None]:
    """Leave with a sentence and the code of the signal, as training does.

    Not by an exception: one that is raised in the midst of an import can be taken for a missing module, and is lost.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _stop) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    name = signal.Signals(number).name
    text = f"regard: stopped by {name}; nothing was left to save. Run the same command again to go on\n"
    with suppress(OSError, AttributeError):
        os.write(sys.stderr.fileno(), text.encode())
    os._exit(128 + number)
