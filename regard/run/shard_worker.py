"""A process that predicts shards: `python -m regard.run.shard_worker`, a line of JSON in, a line out.

The first line says which run and what is asked; every further line is a task. When the input ends the process does,
also in the middle of a shard: whoever asked is gone.
"""

import os
import queue
import sys
import threading
from typing import BinaryIO

import torch

from regard.errors import RegardError
from regard.run.shards import Beginning, Outcome, ShardPredictor, Task


def work(lines: "queue.Queue[bytes]", replies: BinaryIO) -> None:
    """Answer every task, for ever."""
    beginning = Beginning.decode(lines.get())
    predictor: ShardPredictor | None = None
    while True:
        task = Task.decode(lines.get())
        try:
            if predictor is None:
                predictor = beginning.predictor()
            outcome = predictor.attempt(task)
        except RegardError as error:
            outcome = Outcome(fault=str(error))
        replies.write(outcome.encode() + b"\n")
        replies.flush()


def main() -> None:
    """Keep standard output for replies only: what else is printed goes to standard error."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    torch.set_num_threads(1)
    lines: queue.Queue[bytes] = queue.Queue()

    def read() -> None:
        for line in sys.stdin.buffer:
            lines.put(line)
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    work(lines, replies)


if __name__ == "__main__":
    main()
