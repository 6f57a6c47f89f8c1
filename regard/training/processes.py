"""What a training needs of the other processes that take part in it, and how they meet.

One process, the main one, writes and judges; all of them learn. What they have to agree on passes through `Processes`
in the same order everywhere: numbers to be summed, a signal that came to one of them, what the main one found.
"""

import ctypes
import json
import os
import signal
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final

import torch
from torch import distributed
from torch._C._distributed_c10d import FileStore

from regard.errors import LostError
from regard.process import MEETING, SIGNALS, SUPERVISOR, cores, one_of_several

PATIENCE: Final = timedelta(days=1)
"""How long a process waits for the others. One that ends is noticed at once, for its connections close; one that
judges a model may take its time."""

_SET_DEATH_SIGNAL: Final = 1
_UNREACHABLE: Final = (
    "gloo",
    "nccl",
    "connection closed by peer",
    "connection reset by peer",
    "broken pipe",
    "timed out",
)


class Processes(ABC):
    """All processes of one training, seen from one of them."""

    rank: int = 0
    world: int = 1
    local_world: int = 1

    @property
    def main(self) -> bool:
        """Whether this is the one that writes."""
        return self.rank == 0

    @abstractmethod
    def sums(self, *numbers: float) -> list[float]:
        """Each number, summed over all processes."""

    @abstractmethod
    def largest(self, *numbers: float) -> list[float]:
        """Of each number the largest over all processes: a flag that is set anywhere is set."""

    @abstractmethod
    def told_by_main(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """What the main process says, as JSON can carry it; what the others bring is not read."""

    @contextmanager
    def main_first(self) -> Iterator[None]:
        """The main process goes through a block, then the others do; if it fails, they are lost."""
        yield

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Another process that ends becomes a `LostError` in this one."""
        yield

    @contextmanager
    def working_alone(self) -> Iterator[None]:
        """While the others wait, this process may use their cores."""
        yield


class Alone(Processes):
    """The only process there is."""

    def sums(self, *numbers: float) -> list[float]:
        return list(numbers)

    def largest(self, *numbers: float) -> list[float]:
        return list(numbers)

    def told_by_main(self, record: Mapping[str, Any]) -> dict[str, Any]:
        return dict(record)


class Together(Processes):
    """One of several, in torch's default process group."""

    def __init__(self) -> None:
        self.rank = distributed.get_rank()
        self.world = distributed.get_world_size()
        self.local_world = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))

    def sums(self, *numbers: float) -> list[float]:
        return self._reduced(numbers, distributed.ReduceOp.SUM)

    def largest(self, *numbers: float) -> list[float]:
        return self._reduced(numbers, distributed.ReduceOp.MAX)

    def _reduced(self, numbers: Sequence[float], operation: "distributed.ReduceOp.RedOpType") -> list[float]:
        with self.guarded():
            values = torch.tensor(numbers, dtype=torch.float64)
            distributed.all_reduce(values, op=operation)
            return values.tolist()

    def told_by_main(self, record: Mapping[str, Any]) -> dict[str, Any]:
        with self.guarded():
            text = json.dumps(record).encode() if self.main else b""
            size = torch.tensor([len(text)])
            distributed.broadcast(size, src=0)
            content = torch.tensor(list(text) if self.main else [0] * int(size), dtype=torch.uint8)
            distributed.broadcast(content, src=0)
            return dict(json.loads(bytes(content.tolist())))

    @contextmanager
    def main_first(self) -> Iterator[None]:
        if not self.main:
            if not self.told_by_main({})["done"]:
                raise LostError("the main process could not prepare the training")
            yield
            return
        try:
            yield
        except BaseException:
            self.told_by_main({"done": False})
            raise
        self.told_by_main({"done": True})

    @contextmanager
    def guarded(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            if not lost(error):
                raise
            raise LostError(
                f"process {self.rank} of {self.world} cannot reach the others any more ({_first_line(error)}). What "
                "was saved is intact: run the same command again to go on"
            ) from error

    @contextmanager
    def working_alone(self) -> Iterator[None]:
        if not self.main:
            yield
            return
        before = torch.get_num_threads()
        torch.set_num_threads(max(before, min(cores(), before * self.local_world)))
        try:
            yield
        finally:
            torch.set_num_threads(before)


def lost(error: RuntimeError) -> bool:
    """Whether an error says that other processes cannot be reached; torch has no type for all of them."""
    if isinstance(error, distributed.DistError):
        return True
    text = str(error).lower()
    return any(word in text for word in _UNREACHABLE)


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0][:200]


@contextmanager
def joined() -> Iterator[Processes]:
    """Meet the other processes, if this one was started as one of several."""
    if not one_of_several():
        yield Alone()
        return
    end_with_supervisor()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    with ended_by_signals():
        if meeting := os.environ.get(MEETING):
            store = FileStore(meeting, world)
            distributed.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=PATIENCE)
        else:
            distributed.init_process_group(backend, init_method="env://", timeout=PATIENCE)
    processes = Together()
    yield processes
    distributed.destroy_process_group()


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Let signals end the process at once, without Python.

    A process that waits for others inside of torch would heed them only when all have come, and one that was stopped
    before it came never does.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_DFL) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end_with_supervisor() -> None:
    """Be told to save and stop when the process that started this one ends, however it ends."""
    supervisor = os.environ.get(SUPERVISOR)
    if supervisor is None or not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, int(signal.SIGTERM))
    if os.getppid() != int(supervisor):
        raise LostError(f"the process {supervisor} that started this one has ended")
