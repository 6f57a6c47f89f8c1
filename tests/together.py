"""Several processes for the tests of training together: forked after torch is loaded, they meet in a file."""

import json
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from regard.process import MEETING, loopback
from regard.training.processes import Processes, joined

Work = Callable[[Processes], Mapping[str, Any]]


def together(
    folder: Path, world: int, work: Work, *, leave: bool = False, killed: int | None = None
) -> list[dict[str, Any]]:
    """Let so many processes do the same work; returns what each found, by rank. None may fail or hang.

    With `leave` each ends as soon as its work is done, as one that has met an error does. One may be killed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    children = []
    for rank in range(world):
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            _be_one(folder, world, rank, work, leave=leave)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    errors = [(folder / f"error-{rank}").read_text() for rank in range(world) if (folder / f"error-{rank}").exists()]
    assert codes == [-9 if rank == killed else 0 for rank in range(world)], "\n".join(errors)
    return [json.loads((folder / f"found-{rank}").read_text()) for rank in range(world) if rank != killed]


def _be_one(folder: Path, world: int, rank: int, work: Work, *, leave: bool) -> None:
    """The whole life of a child; it never returns into the test."""
    code = 1
    try:
        os.environ.update(
            {
                "RANK": str(rank),
                "WORLD_SIZE": str(world),
                "LOCAL_WORLD_SIZE": str(world),
                "GLOO_SOCKET_IFNAME": loopback(),
                MEETING: str(folder / "meeting"),
            }
        )
        torch.set_num_threads(1)
        warnings.simplefilter("error")
        with joined() as processes:
            found = work(processes)
            (folder / f"found-{rank}").write_text(json.dumps(found))
            if leave:
                os._exit(0)
        code = 0
    except BaseException:
        (folder / f"error-{rank}").write_text(traceback.format_exc())
    finally:
        os._exit(code)
