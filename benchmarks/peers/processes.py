"""Runs a program and keeps an eye on it: how long, how much memory, what it said."""

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

TUNED = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "2147483647"}
"""What regard settles from inside the process, for programs that do not."""

PAUSE = 0.5
"""Seconds from one look at memory to the next."""

SHOWN = 1500


class Failed(Exception):
    """A program that ended with an error; the text is the end of what it said."""


@dataclass(frozen=True, slots=True)
class Ran:
    """A program that has run. `bytes` is the most that it and its children held at once."""

    seconds: float
    bytes: int
    output: str


def run(command: Sequence[str | Path], *, threads: int, further: Mapping[str, str], limit: float, folder: Path) -> Ran:
    """Run it with so many threads, at most `limit` seconds, in a folder."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "PYTHONUNBUFFERED": "1",
        "HF_HUB_OFFLINE": "1",
        "WANDB_MODE": "disabled",
        "TOKENIZERS_PARALLELISM": "false",
        **further,
    }
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        began = time.perf_counter()
        process = subprocess.Popen(
            [str(part) for part in command], env=environment, cwd=folder, stdout=output, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        try:
            most = watch(process, began + limit)
        finally:
            # Whoever stops the benchmark stops what it runs.
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        seconds = time.perf_counter() - began
        output.seek(0)
        text = output.read()
    if process.returncode:
        raise Failed(f"exit code {process.returncode} after {seconds:.0f} s: {text.strip()[-SHOWN:]}")
    return Ran(seconds=seconds, bytes=most, output=text)


def watch(process: "subprocess.Popen[bytes]", until: float) -> int:
    """Wait for a process and look at its memory on the way; beyond the time it is ended.

    A thread of its own looks, so that the end is seen when it comes: were it seen at the next look only, every time
    would be a multiple of the pause.
    """
    seen, over = [0], threading.Event()

    def look() -> None:
        while not over.is_set():
            seen.append(together(family(process.pid)))
            left = until - time.perf_counter()
            if not over.wait(max(0.0, min(PAUSE, left))) and left <= 0:
                # It may have ended just now.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                return

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    try:
        process.wait()
    finally:
        over.set()
        looking.join()
    return max(seen)


def together(pids: Sequence[int]) -> int:
    """What processes hold. Only where they are several are shared pages told apart: that makes the kernel walk them."""
    return highest(pids[0]) if len(pids) == 1 else sum(held(one) for one in pids)


def highest(pid: int) -> int:
    """The most resident bytes that a process had, as the kernel counts them."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)


def family(pid: int) -> list[int]:
    """A process and all its descendants."""
    found = [pid]
    for one in found:
        try:
            children = Path(f"/proc/{one}/task/{one}/children").read_text().split()
        except OSError:
            continue
        found.extend(map(int, children))
    return found


def held(pid: int) -> int:
    """Resident bytes of a process, pages that several share in equal parts."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)
