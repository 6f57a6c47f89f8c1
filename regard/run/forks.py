"""Lines predicted by several processes that share the weights of this one.

They are forked after the model was loaded, so they start at once and hold no weights of their own; each searches with
one thread, which in batches is faster than one process with several. This process reads lines, hands them out a part at
a time, and gives back answers in the order of the lines. What a process could not do is done here, so that an error is
told as it would be without others. Only on Linux: elsewhere a process of many libraries is not safely forked.
"""

import os
import selectors
import signal
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

import torch

from regard.process import cores
from regard.run.prediction import windows
from regard.run.shard_worker import answer_tasks
from regard.run.shards import Answer, Outcome, Task

FEWEST: Final = 8
"""Lines for which a process is worth starting."""

BATCH: Final = 64
MOST: Final = 1024
"""Lines that a process searches at a time: a batch at least, where there are enough, and alike lengths beside it."""

Predict = Callable[[Task], Answer]
"""What answers a task in this process; errors are raised."""


def usual_processes() -> int:
    """As many as cores, and no more than the threads that the environment permits; 1 where none can be forked."""
    if not sys.platform.startswith("linux"):
        return 1
    permitted = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    return max(1, min(cores(), int(permitted) if permitted.isdecimal() else cores()))


def cut_evenly(lines: Iterable[str], processes: int) -> Iterator[Task]:
    """Lines as parts for so many processes, alike in size; they are read ahead no further than these need."""
    number, first = 0, 1
    for block in windows(lines, processes * MOST):
        shares = processes if len(block) <= processes * BATCH else 2 * processes
        size = max(FEWEST, -(-len(block) // shares))
        for start in range(0, len(block), size):
            yield Task(number=number, file="", first=first + start, texts=tuple(block[start : start + size]))
            number += 1
        first += len(block)


def answers(lines: Iterable[str], predict: Predict, processes: int) -> Generator[Answer, None, None]:
    """The answers to all lines, in order. Few of them are answered by this process alone."""
    tasks = cut_evenly(lines, processes)
    first = [task for _, task in zip(range(2), tasks, strict=False)]
    every = chain(first, tasks)
    if len(first) < 2:
        yield from map(predict, every)
        return
    crew = _Forked(predict, processes)
    try:
        yield from crew.answers(every)
    finally:
        crew.end()


class _Forked:
    """Processes that answer tasks. A task of one that was lost, or had a fault, is done here."""

    def __init__(self, predict: Predict, processes: int) -> None:
        self.predict = predict
        self.children: list[_Child] = []
        for _ in range(processes):
            self.children.append(_Child(predict, self.children))

    def answers(self, tasks: Iterator[Task]) -> Iterator[Answer]:
        """In order. No child has more than two tasks, and few are answered before one that is not."""
        done: dict[int, Answer] = {}
        told = 0
        ahead = 4 * len(self.children)
        while True:
            while self._fewest() < 2 and sum(len(one.tasks) for one in self.children) + len(done) < ahead:
                if (task := next(tasks, None)) is None:
                    break
                min(self.children, key=lambda one: len(one.tasks)).submit(task)
            if any(child.tasks for child in self.children):
                done.update((task.number, answer) for task, answer in self._next())
            elif not done:
                yield from map(self.predict, tasks)  # nothing is left, unless all children are lost
                return
            while told in done:
                yield done.pop(told)
                told += 1

    def _fewest(self) -> int:
        return min((len(one.tasks) for one in self.children), default=2)

    def _next(self) -> Iterator[tuple[Task, Answer]]:
        """Wait for children that have something to say."""
        found = [child for child in self.children if child.replied]
        if not found:
            with selectors.DefaultSelector() as selector:
                for child in self.children:
                    if child.tasks:
                        selector.register(child.replies, selectors.EVENT_READ, child)
                found = [key.data for key, _ in selector.select()]
        for child in found:
            outcome = child.hear()
            if outcome is None:
                self.children.remove(child)
                child.end()
                left = list(child.tasks)
            else:
                left = [child.tasks.popleft()]
            for task in left:
                answer = None if outcome is None else outcome.answer
                yield task, self.predict(task) if answer is None else answer

    def end(self) -> None:
        for child in self.children:
            child.end()


class _Child:
    """One forked process: a line of JSON in, a line out. It ends when this one does, however this one ends."""

    descriptors: tuple[int, int]

    def __init__(self, predict: Predict, before: "Sequence[_Child]") -> None:
        asked, asking = os.pipe()
        replied, replying = os.pipe()

        def attempt(task: Task) -> Outcome:
            try:
                return Outcome(predict(task))
            except Exception as error:  # the other process does it again, and tells why it cannot be done
                return Outcome(fault=str(error))

        self.process = os.fork()
        if self.process == 0:
            try:
                for descriptor in (asking, replied, *(each for one in before for each in one.descriptors)):
                    os.close(descriptor)
                torch.set_num_threads(1)  # also because the threads of the other process are not there
                signal.signal(signal.SIGINT, signal.SIG_IGN)  # a key is for the process that ends its children
                answer_tasks(os.fdopen(asked, "rb"), os.fdopen(replying, "wb"), lambda _: attempt)
            finally:
                os._exit(1)
        os.close(asked)
        os.close(replying)
        self.descriptors = asking, replied
        self.requests, self.replies = os.fdopen(asking, "wb"), os.fdopen(replied, "rb")
        self.tasks: deque[Task] = deque()
        self.heard = b""

    def submit(self, task: Task) -> None:
        self.tasks.append(task)
        try:
            self.requests.write(task.encode() + b"\n")
            self.requests.flush()
        except BrokenPipeError:
            return  # it is lost, which `hear` finds out

    @property
    def replied(self) -> bool:
        """Whether a reply was read already, together with the one before it."""
        return b"\n" in self.heard

    def hear(self) -> Outcome | None:
        """The outcome of its first task; None if it was lost."""
        while not self.replied:
            if not (part := os.read(self.replies.fileno(), 1 << 20)):
                return None
            self.heard += part
        reply, _, self.heard = self.heard.partition(b"\n")
        return Outcome.decode(reply)

    def end(self) -> None:
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)
        for pipe in (self.requests, self.replies):
            try:
                pipe.close()
            except BrokenPipeError:
                continue
