"""Signals set a flag; the loop looks at it between steps, saves, and leaves. The same signal again ends at once."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from regard.errors import RegardError

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)


class Interrupted(RegardError):
    """Training was asked to stop; its state is saved. Shells call an end by signal n an exit code of 128 + n."""

    def __init__(self, number: int, step: int) -> None:
        super().__init__(
            f"stopped by {signal.Signals(number).name} after step {step:,}; the state is saved. Run the same command "
            "again to go on"
        )
        self.exit_code = 128 + number


class Interrupt:
    """The flag."""

    def __init__(self) -> None:
        self.number: int | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self.number == number:
            os._exit(128 + number)
        self.number = self.number or number


@contextmanager
def heeding_signals() -> Iterator[Interrupt]:
    """Catch SIGINT, SIGTERM and SIGUSR1 for the length of a block; outside the main thread nothing is caught."""
    interrupt = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return
    before = {number: signal.signal(number, interrupt) for number in SIGNALS}
    try:
        yield interrupt
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
