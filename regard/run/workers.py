"""Several processes on one machine for one training, started again together when one of them is lost.

This is the process that starts them; it does not load torch. The workers of an attempt meet in a file of their own, so
that nothing of an earlier attempt is in their way, and speak over the loopback interface only.
"""

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final

import regard
from regard.errors import LostError
from regard.process import MEETING, SIGNALS, SUPERVISOR, cores, loopback

GRACE: Final = 15.0
"""Seconds that workers have to end by themselves when one of them is lost."""

STOPPING: Final = 600.0
"""Seconds that workers have to save and end when they are told to stop."""

BEGUN: Final = "begun"
_EVERY: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """What to start, how often, and whom to tell what happens.

    `first` are arguments that only count until training has begun: what they ask for is done then.
    """

    command: Sequence[str]
    first: Sequence[str] = ()
    workers: int
    max_restarts: int
    tell: Callable[[str], None]


def supervise(crew: Crew) -> int:
    """Run the workers to their end, and return the exit code for all of them."""
    if (there := cores()) < crew.workers:
        crew.tell(f"{crew.workers} workers share {there} cores: as many as cores would be faster")
    with tempfile.TemporaryDirectory(prefix="regard-workers-") as folder, _forwarding() as forwarding:
        for attempt in range(crew.max_restarts + 1):
            if forwarding.number is not None:
                return 128 + forwarding.number
            codes = _attempt(crew, Path(folder), attempt, forwarding)
            if (code := exit_code(codes, forwarding.number)) is not None:
                return code
            what = "; ".join(_lost(rank, code) for rank, code in enumerate(codes) if code < 0)
            what = what or "the workers lost each other"
            if attempt < crew.max_restarts:
                crew.tell(
                    f"{what}. All workers start again from the last checkpoint "
                    f"(restart {attempt + 1} of at most {crew.max_restarts})"
                )
    used = _times(crew.max_restarts)
    crew.tell(f"regard: {what}, and {used}. What was saved is intact: run the same command again to go on")
    return LostError.exit_code


def exit_code(codes: Sequence[int], signalled: int | None) -> int | None:
    """What all workers together end with; None if some were lost and nothing speaks against another attempt.

    An error that a worker could name comes first, for it would come again; then a stop that was asked for.
    """
    if not any(codes):
        return 0
    named = [code for code in codes if code > 0 and code != LostError.exit_code]
    errors = [code for code in named if code < 128]
    if errors:
        return errors[0]
    if signalled is not None:
        return 128 + signalled
    return named[0] if named else None


def _lost(rank: int, code: int) -> str:
    return f"worker {rank} was ended by {signal.Signals(-code).name}"


def _times(restarts: int) -> str:
    return "--max-restarts allows no restart" if not restarts else f"--max-restarts {restarts} are used up"


class _Forwarding:
    """Hands a signal on to the workers. They are in sessions of their own, so that each gets it once."""

    def __init__(self) -> None:
        self.number: int | None = None
        self.running: list[subprocess.Popen[bytes]] = []

    def __call__(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self.number = self.number or number
        for process in self.running:
            if process.poll() is None:
                process.send_signal(number)


@contextmanager
def _forwarding() -> Iterator[_Forwarding]:
    forwarding = _Forwarding()
    before = {number: signal.signal(number, forwarding) for number in SIGNALS}
    try:
        yield forwarding
    finally:
        for process in forwarding.running:
            process.kill()
            process.wait()
        for number, handler in before.items():
            signal.signal(number, handler)


def _attempt(crew: Crew, folder: Path, attempt: int, forwarding: _Forwarding) -> list[int]:
    """Start all workers and wait for all; returns their exit codes, -n where signal n ended one."""
    begun = folder / BEGUN
    command = [*crew.command, *(() if begun.exists() else crew.first)]
    forwarding.running = []
    for rank in range(crew.workers):
        process = subprocess.Popen(  # noqa: S603
            command,
            env=_environment(crew.workers, rank, folder / f"attempt-{attempt}"),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        forwarding.running.append(process)
        if forwarding.number is not None:  # it came while this one was started, and was not handed on to it
            process.send_signal(forwarding.number)
            break
    return _wait(forwarding)


def _wait(forwarding: _Forwarding) -> list[int]:
    deadline: float | None = None
    while True:
        codes = [process.poll() for process in forwarding.running]
        ended = [code for code in codes if code is not None]
        if len(ended) == len(codes):
            return ended
        if deadline is None and any(ended):
            stopping = all(code >= 128 for code in ended if code)
            deadline = time.monotonic() + (STOPPING if stopping else GRACE)
        if deadline is not None and time.monotonic() > deadline:
            for process in forwarding.running:
                process.kill()
        time.sleep(_EVERY)


def _environment(workers: int, rank: int, meeting: Path) -> dict[str, str]:
    """Of one worker: who it is, where to meet, and its part of the cores."""
    found = [str(Path(regard.__file__).parents[1])]
    if there := os.environ.get("PYTHONPATH"):
        found.append(there)
    return {
        "OMP_NUM_THREADS": str(max(1, cores() // workers)),
        "GLOO_SOCKET_IFNAME": loopback(),
        **os.environ,
        "PYTHONPATH": os.pathsep.join(found),
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(workers),
        "LOCAL_WORLD_SIZE": str(workers),
        MEETING: str(meeting),
        SUPERVISOR: str(os.getpid()),
    }
