"""Who predicts shards: this process, or processes of one thread each on this machine, forked from it where they can be.

A crew takes tasks and gives back outcomes, in whatever order they are ready. A fault is an outcome, too: whoever asked
decides what is tried again.
"""

import os
import queue
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self

from regard.run.forks import Child, speaking
from regard.run.shards import Asked, Beginning, Outcome, ShardPredictor, Task

SIGNALLED: Final = "the worker was ended by signal {}; out of memory is the usual reason"


class Crew(Protocol):
    """Takes up to `size` tasks at once. A context: the workers end with it."""

    @property
    def size(self) -> int: ...

    @property
    def place(self) -> str:
        """Where shards are predicted, for people."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def submit(self, task: Task) -> None: ...

    def next(self) -> tuple[Task, Outcome]:
        """Wait for one task that was submitted."""
        ...


class Here:
    """This process, one shard after the other."""

    size = 1
    place = "in this process"

    def __init__(self, predictor: ShardPredictor) -> None:
        self.predictor = predictor
        self._task: Task | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._task = None

    def submit(self, task: Task) -> None:
        assert self._task is None
        self._task = task

    def next(self) -> tuple[Task, Outcome]:
        assert self._task is not None
        task, self._task = self._task, None
        return task, self.predictor.attempt(task)


class Forks:
    """Processes of one thread each that share the weights of this one; only where `regard.run.forks.can_fork`."""

    def __init__(self, predictor: ShardPredictor, *, workers: int) -> None:
        self.size = workers
        self.place = _processes(workers)
        self._predictor = predictor
        self._children: list[Child] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for child in self._children:
            child.end()

    def submit(self, task: Task) -> None:
        child = next((child for child in self._children if not child.tasks), None)
        if child is None:
            child = Child(self._predictor.attempt)
            self._children.append(child)
        child.submit(task)

    def next(self) -> tuple[Task, Outcome]:
        child = speaking(self._children, None)[0]
        outcome = child.hear()
        if outcome is None:
            self._children.remove(child)
            outcome = _lost(child.end())
        return child.tasks.popleft(), outcome


class Processes:
    """Processes of one thread each, which load the run themselves: for systems where none can be forked.

    They end when this one does, however it ends: their input is closed then.
    """

    def __init__(self, run: Path, asked: Asked, *, files: Mapping[str, str], workers: int) -> None:
        self.size = workers
        self.place = _processes(workers)
        self._run, self._asked, self._files = run, asked, files
        self._workers: list[_Worker] = []
        self._idle: list[_Worker] = []
        self._outcomes: queue.Queue[tuple[_Worker, Task, Outcome]] = queue.Queue()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._workers:
            worker.end()

    def submit(self, task: Task) -> None:
        worker = self._idle.pop() if self._idle else self._new()
        threading.Thread(target=lambda: self._outcomes.put((worker, task, worker.ask(task))), daemon=True).start()

    def next(self) -> tuple[Task, Outcome]:
        worker, task, outcome = self._outcomes.get()
        if worker.alive:
            self._idle.append(worker)
        else:
            worker.end()
            self._workers.remove(worker)
        return task, outcome

    def _new(self) -> "_Worker":
        worker = _Worker(self._run, self._asked, self._files)
        self._workers.append(worker)
        return worker


class _Worker:
    """One process (`regard.run.shard_worker`), asked a line of JSON at a time."""

    def __init__(self, run: Path, asked: Asked, files: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "regard.run.shard_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": module_paths()},
            start_new_session=True,  # an interrupt at the keyboard is for this process, which ends its workers
        )
        self._beginning = Beginning(run=str(run), files=dict(files), asked=asked).encode() + b"\n"

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, task: Task) -> Outcome:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(self._beginning + task.encode() + b"\n")
            self._process.stdin.flush()
            self._beginning = b""
            reply = self._process.stdout.readline()
        except (OSError, ValueError):  # it has ended, or `end` closed its pipes
            reply = b""
        if reply.endswith(b"\n"):
            return Outcome.decode(reply)
        return _lost(self._process.wait())

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except OSError:
                continue


def _processes(workers: int) -> str:
    return f"in {workers} process{'' if workers == 1 else 'es'} of one thread"


def _lost(code: int) -> Outcome:
    """What comes of a task whose worker ended with a code, or minus a signal."""
    fault = SIGNALLED.format(-code) if code < 0 else f"the worker ended with code {code}"
    return Outcome(fault=fault, lost=True)


def module_paths() -> str:
    """PYTHONPATH for a process that must find this package, from wherever it was imported."""
    home = str(Path(__file__).parents[2])
    paths = [] if home == sysconfig.get_paths()["purelib"] else [home]
    return os.pathsep.join([*paths, *filter(None, [os.environ.get("PYTHONPATH")])])
