"""Signals: outside of updates they end the work at once, inside they set a flag that the loop looks at between steps.

A loop that is told to stop saves and leaves. The same signal again ends the process without waiting.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from regard.errors import RegardError
from regard.process import SIGNALS


class Interrupted(RegardError):
    """Training was asked to stop. Shells call an end by signal n an exit code of 128 + n."""

    def __init__(self, number: int, step: int | None = None) -> None:
        name = signal.Signals(number).name
        super().__init__(
            f"stopped by {name}; what was saved is intact. Run the same command again to go on"
            if step is None
            else f"stopped by {name} after step {step:,}; the state is saved. Run the same command again to go on"
        )
        self.number = number
        self.exit_code = 128 + number


class Interrupt:
    """The flag. Where it is not held, a signal raises `Interrupted`."""

    def __init__(self) -> None:
        self.number: int | None = None
        self.holding = False

    def __call__(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self.number == number:
            os._exit(128 + number)
        self.number = self.number or number
        if not self.holding:
            raise Interrupted(self.number)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Signals wait until the end of what must be whole; who looks for them in `number` is in time to save."""
        before, self.holding = self.holding, True
        try:
            yield
        finally:
            self.holding = before
        if self.number is not None and not before:
            raise Interrupted(self.number)

    @contextmanager
    def let_through(self) -> Iterator[None]:
        """Signals raise `Interrupted` in the midst of what can be left out; one that waits does so at once."""
        before, self.holding = self.holding, False
        try:
            if self.number is not None:
                raise Interrupted(self.number)
            yield
        finally:
            self.holding = before


@contextmanager
def heeding_signals() -> Iterator[Interrupt]:
    """Catch SIGINT, SIGTERM and SIGUSR1 for the length of a block; inside another one, share it.

    Outside the main thread nothing is caught.
    """
    outer = signal.getsignal(signal.SIGTERM)
    if isinstance(outer, Interrupt):
        yield outer
        return
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
