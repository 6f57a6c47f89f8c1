"""How soon `regard-runtime` has answered a line, and how much memory it takes: python benchmarks/runtime.py RUN.

    make runtime-wheel
    python -m venv DIR && DIR/bin/pip install dist/regard_runtime-*.whl
    python benchmarks/runtime.py RUN --command DIR/bin/regard-runtime --lines FILE

RUN is prepared (`regard prepare RUN`). Processes are started one after the other, the first two of them for the caches;
figures are medians of the others, on the wall from the start to the end of the process. With --lines, also the most
memory that a process takes over a file, with a beam of 5 and two workers.
"""

import argparse
import os
import statistics
import subprocess
import time
from dataclasses import dataclass

LINE = b"a man sleeps .\n"
WARM = 2


@dataclass(frozen=True, slots=True)
class Started:
    """What a process took, in seconds and megabytes."""

    wall: float
    processors: float
    memory: float


def start(*command: str, given: bytes = b"") -> Started:
    """Run a command to its end and give it what it reads."""
    began = time.perf_counter()
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert child.stdin is not None
    child.stdin.write(given)
    child.stdin.close()
    _, status, usage = os.wait4(child.pid, 0)
    wall = time.perf_counter() - began
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{command[0]} ended with {child.returncode}")
    return Started(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", metavar="RUN", help="a prepared run")
    parser.add_argument("--command", default="regard-runtime", help="what is started; regard-runtime")
    parser.add_argument("--lines", metavar="FILE", help="a file to predict as well")
    parser.add_argument("--times", type=int, default=20, help="processes that count; 20")
    asked = parser.parse_args()
    found = [start(asked.command, asked.run, given=LINE) for _ in range(WARM + asked.times)][WARM:]
    wall, processors, memory = (
        statistics.median(one) for one in zip(*((one.wall, one.processors, one.memory) for one in found), strict=True)
    )
    most = max(one.wall for one in found)
    print(f"one line: {wall:.3f} s (at most {most:.3f}), {processors:.3f} s of processors, {memory:.0f} MB")
    if asked.lines:
        taken = start(asked.command, asked.run, asked.lines, "--beam", "5", "--workers", "2")
        print(f"{asked.lines}: {taken.wall:.2f} s, {taken.memory:.0f} MB")


if __name__ == "__main__":
    main()
