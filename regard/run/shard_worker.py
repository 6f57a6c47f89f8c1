"""A process that predicts shards: `python -m regard.run.shard_worker`, a line of JSON in, a line out.

The first line says which run and what is asked; every further line is a task. When the input ends the process does,
also in the middle of a shard: whoever asked is gone.
"""

import os
import queue
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO

from regard.process import settle

if TYPE_CHECKING:
    from regard.run.shards import Outcome, Task


def answer_tasks(
    tasks: BinaryIO, replies: BinaryIO, begin: "Callable[[Callable[[], bytes]], Callable[[Task], Outcome]]"
) -> None:
    """Answer every task until there are no more; `begin` is handed what reads a further line."""
    from regard.run.shards import Task

    lines: queue.Queue[bytes] = queue.Queue()

    def read() -> None:
        try:
            for line in tasks:
                lines.put(line)
        finally:  # also where a socket says that whoever asked was killed before it had read a reply
            os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    attempt = begin(lines.get)
    while True:
        replies.write(attempt(Task.decode(lines.get())).encode() + b"\n")
        replies.flush()


def load_at_first(read: "Callable[[], bytes]") -> "Callable[[Task], Outcome]":
    """Who answers, by what the first line says; the model is loaded when the first task is there."""
    from regard.errors import RegardError
    from regard.run.shards import Beginning, Outcome, ShardPredictor, Task

    beginning = Beginning.decode(read())
    loaded: list[ShardPredictor] = []

    def attempt(task: Task) -> Outcome:
        try:
            if not loaded:
                loaded.append(beginning.predictor())
            return loaded[0].attempt(task)
        except RegardError as error:
            return Outcome(fault=str(error))

    return attempt


def main() -> None:
    """Keep standard output for replies only: what else is printed goes to standard error."""
    settle()
    import torch

    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    torch.set_num_threads(1)
    answer_tasks(sys.stdin.buffer, replies, load_at_first)


if __name__ == "__main__":
    main()
