"""Lines predicted by several processes that share the weights of this one.

They are forked after the model was loaded (`Child`), so they start at once and hold no weights of their own; each
searches with one thread, which in batches is faster than one process with several. `regard.run.crews` has them predict
shards. Here they predict a stream: this process reads lines, hands them out a part at a time, and gives back answers in
the order of the lines. What a process could not do is done here, so that an error is told as it would be without
others, behind the answers to all lines before it. Lines are read far ahead, so this is for files that are complete.
Only on Linux: elsewhere a process of many libraries is not safely forked.
"""

import os
import selectors
import signal
import socket
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final

import torch

from regard.process import cores
from regard.run.prediction import windows
from regard.run.reading import Faults, taken
from regard.run.shard_worker import answer_tasks
from regard.run.shards import Answer, Outcome, Task

FEWEST: Final = 8
"""Lines for which a process is worth starting."""

BATCH: Final = 64
MOST: Final = 1024
"""Lines that a process searches at a time: a batch at least, where there are enough, and alike lengths beside it."""

Predict = Callable[[Task], Answer]
"""What answers a task in this process; errors are raised."""


def can_fork() -> bool:
    return sys.platform.startswith("linux")


def usual_processes() -> int:
    """As many as cores, and no more than the threads that the environment permits; 1 where none can be forked."""
    if not can_fork():
        return 1
    permitted = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return max(1, min(cores(), int(permitted) if permitted.isdecimal() else cores()))


def cut_evenly(lines: Iterable[str], processes: int, faults: Faults | None = None) -> Iterator[Task]:
    """Lines as parts for so many processes, alike in size; they are read ahead no further than these need.

    Each part has the `faults` of its lines. An error of reading is raised behind the parts of all lines before it.
    """
    errors: list[Exception] = []
    number, first = 0, 1
    for block in windows(_readable(lines, errors), processes * MOST):
        shares = processes if len(block) <= processes * BATCH else 2 * processes
        size = max(FEWEST, -(-len(block) // shares))
        for start in range(0, len(block), size):
            texts = tuple(block[start : start + size])
            wrong = taken(faults or {}, first + start, len(texts))
            yield Task(number=number, file="", first=first + start, texts=texts, faults=wrong)
            number += 1
        first += len(block)
    if errors:
        raise errors[0]


def _readable(lines: Iterable[str], errors: list[Exception]) -> Iterator[str]:
    try:
        yield from lines
    except Exception as error:
        errors.append(error)


def answers(
    lines: Iterable[str], predict: Predict, processes: int, faults: Faults | None = None
) -> Generator[Answer, None, None]:
    """The answers to all lines, in order. Few of them are answered by this process alone.

    `faults` are filled while lines are read.
    """
    crew = _Forked(predict, processes)
    try:
        yield from crew.answers(cut_evenly(lines, processes, faults))
    finally:
        crew.end()


class _Forked:
    """Processes that answer tasks. A task of one that was lost, or had a fault, is done here."""

    def __init__(self, predict: Predict, processes: int) -> None:
        self.predict = predict
        self.most = processes
        self.ahead = 4 * processes
        self.children: list[Child] = []
        self.done: dict[int, Answer | Exception] = {}
        self.waiting: deque[Task] = deque()
        self.read = 0  # tasks so far
        self.over = False

    def answers(self, tasks: Iterator[Task]) -> Iterator[Answer]:
        """In order; an error is raised behind all answers to what stands before it.

        A single task is answered here. No child has more than two, and few are answered before one that is not.
        """
        self.waiting.extend(task for task in (self._read(tasks), self._read(tasks)) if task is not None)
        if self.over:
            self.most = 0
        told = 0
        while True:
            if self._has_room() and (task := self._read_next(tasks)) is not None:
                self._listen(0)
                self._hand_out(task)
            elif any(child.tasks for child in self.children):
                self._listen(None)
            elif not self.done:
                return
            while told in self.done:
                answer = self.done.pop(told)
                if isinstance(answer, Exception):
                    raise answer
                yield answer
                told += 1

    def _read_next(self, tasks: Iterator[Task]) -> Task | None:
        return self.waiting.popleft() if self.waiting else self._read(tasks)

    def _read(self, tasks: Iterator[Task]) -> Task | None:
        """The next task; where none can be read, the error stands in its place."""
        if self.over:
            return None
        try:
            task = next(tasks, None)
        except Exception as error:
            self.done[self.read] = error
            task = None
        if task is None:
            self.over = True
        else:
            self.read += 1
        return task

    def _has_room(self) -> bool:
        """Whether there is a use for another task."""
        if sum(len(child.tasks) for child in self.children) + len(self.done) >= self.ahead:
            return False
        return len(self.children) < self.most or min((len(child.tasks) for child in self.children), default=0) < 2

    def _hand_out(self, task: Task) -> None:
        """To the child with least to do. Another one is forked where none is idle, as long as there may be more."""
        if all(child.tasks for child in self.children) and len(self.children) < self.most:
            try:
                self.children.append(Child(self._attempt))
            except OSError:  # no more processes or files are permitted
                self.most = len(self.children)
        if self.children:
            min(self.children, key=lambda one: len(one.tasks)).submit(task)
        else:
            self._answer_here(task)

    def _attempt(self, task: Task) -> Outcome:
        """In a child. Of a fault only that there was one: this process does it again, and tells why it cannot."""
        try:
            return Outcome(self.predict(task))
        except Exception as error:
            return Outcome(fault=str(error))

    def _answer_here(self, task: Task) -> None:
        try:
            self.done[task.number] = self.predict(task)
        except Exception as error:
            self.done[task.number] = error
            self.over = True
            self.waiting.clear()

    def _listen(self, seconds: float | None) -> None:
        """Hear the children that have something to say; None waits for one."""
        for child in speaking(self.children, seconds):
            outcome = child.hear()
            if outcome is None:
                self.children.remove(child)
                self.most = len(self.children)
                child.end()
                for task in child.tasks:
                    self._answer_here(task)
                continue
            task = child.tasks.popleft()
            if outcome.answer is None:
                self._answer_here(task)
            else:
                self.done[task.number] = outcome.answer

    def end(self) -> None:
        for child in self.children:
            child.end()


class Child:
    """One forked process: a line of JSON in, a line out. It ends when this one does, however this one ends."""

    def __init__(self, attempt: Callable[[Task], Outcome]) -> None:
        self.socket, other = socket.socketpair()
        try:
            self.process = os.fork()
        except OSError:
            self.socket.close()
            other.close()
            raise
        if self.process == 0:
            try:
                _answer_all(attempt, other)
            finally:
                os._exit(1)
        other.close()
        self.tasks: deque[Task] = deque()
        self.replies: deque[bytes] = deque()
        self.begun: list[bytes] = []  # parts of a reply that is not whole

    def submit(self, task: Task) -> None:
        """Hand a task over. No signal tells that the child is lost: by default it would end this process."""
        self.tasks.append(task)
        with suppress(OSError):  # it is lost, which `hear` finds out
            self.socket.sendall(task.encode() + b"\n", socket.MSG_NOSIGNAL)

    def hear(self) -> Outcome | None:
        """The outcome of its first task; None if it was lost."""
        while not self.replies:
            try:
                part = self.socket.recv(1 << 20)
            except ConnectionError:
                return None
            if not part:
                return None
            first, *further = part.split(b"\n")
            self.begun.append(first)
            for beginning in further:
                self.replies.append(b"".join(self.begun))
                self.begun = [beginning]
        return Outcome.decode(self.replies.popleft())

    def end(self) -> int:
        """The code that it ended with, or minus the signal that ended it, which may be this call's."""
        with suppress(ProcessLookupError):
            os.kill(self.process, signal.SIGKILL)
        try:
            return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])
        except ChildProcessError:  # where children are not waited for, by the signals that were inherited
            return -signal.SIGKILL
        finally:
            self.socket.close()


def speaking(children: Sequence[Child], seconds: float | None) -> list[Child]:
    """The children that have something to say, or are lost; None waits for one."""
    if found := [child for child in children if child.replies]:
        return found
    with selectors.PollSelector() as selector:
        for child in children:
            if child.tasks:
                selector.register(child.socket, selectors.EVENT_READ, child)
        return [key.data for key, _ in selector.select(seconds)]


def _answer_all(attempt: Callable[[Task], Outcome], connection: socket.socket) -> None:
    """What a child does.

    No file of the other process stays open here, for a lock on one would outlive its holder; and what is printed goes
    through no object of that process, whose other threads may have held its lock.
    """
    os.closerange(3, connection.fileno())
    os.closerange(max(3, connection.fileno() + 1), os.sysconf("SC_OPEN_MAX"))
    with suppress(OSError):  # there may be no standard error
        sys.stdout = sys.stderr = os.fdopen(2, "w", 1, encoding="utf-8", errors="replace", closefd=False)
    torch.set_num_threads(1)  # also because the threads of the other process are not there
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a key is for the process that ends its children
    answer_tasks(connection.makefile("rb"), connection.makefile("wb"), lambda _: attempt)
