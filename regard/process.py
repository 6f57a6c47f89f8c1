"""What a process is told and settles before torch is loaded, and the memory it holds.

Settings and memory are about CPUs and Linux; elsewhere the settings do nothing and memory is not known. What a user has
set in the environment is kept. A process that is one of several finds in its environment which one it is.
"""

import ctypes
import os
import signal
import sys
from pathlib import Path
from typing import Final

SPINS: Final = "10000"
PROGRAMS: Final = "64"
"""Model A of benchmarks/speed.py holds 0.9 GB with so many, 1.8 GB and more with 1,024; no loss of speed showed."""

MEETING: Final = "REGARD_MEETING"
"""In the environment of a worker: the file in which the workers of one attempt find each other."""

SUPERVISOR: Final = "REGARD_SUPERVISOR"
"""In the environment of a worker: the process that started it."""

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
"""What a process may be asked to stop by: from a keyboard, by a system, by Slurm before time is over."""

RECLAIMED: Final = ("inactive_file", "active_file", "slab_reclaimable")
"""Parts of the memory of a container that are given back where they are needed."""

_IS_LOOPBACK: Final = 0x8
_NO_LIMIT: Final = 2**60
"""Version 1 of containers says a number beyond this where there is none."""

_ALLOCATOR: Final = ("MALLOC_MMAP_MAX_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_")
"""In the environment: how a user has set glibc's allocator."""

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_MAX: Final = -4


def settle() -> None:
    """All that a program of regard settles before it loads torch."""
    spin_shortly()
    keep_heap()


def spin_shortly() -> None:
    """Let threads that wait for each other sleep soon, so that a training is steady beside other programs.

    By default they spin for milliseconds. Another program on the same cores then holds up every step:
    `benchmarks/process.py` measures it, and what a short spin costs on idle cores.
    """
    os.environ.setdefault("GOMP_SPINCOUNT", SPINS)


def keep_heap() -> None:
    """Take large tensors from the heap and keep it, instead of mapping and unmapping memory at every step.

    It would work later, too, but it is a setting of the whole process: where torch is loaded already, the process is
    somebody else's and stays as it is.
    """
    chosen = any(name in os.environ for name in _ALLOCATOR) or "malloc" in os.environ.get("GLIBC_TUNABLES", "")
    if chosen or "torch" in sys.modules or not sys.platform.startswith("linux"):
        return
    try:
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(_M_MMAP_MAX, 0)
        libc.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
    except (OSError, AttributeError):  # not glibc
        return


def keep_few_programs() -> None:
    """Let oneDNN forget programs of products that have not been used for a while; said before the first of them.

    It makes one for each number of rows, of half a megabyte and more, and would keep 1,024 of them in each of two
    places. Batches of text hardly ever have the same number again, so that training in half precision only grows. In
    single precision there are few such products, and LSTMs would pay for being forgotten.
    """
    for name in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        os.environ.setdefault(name, PROGRAMS)


def memory_now() -> int:
    """Bytes that are held in memory, 0 where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def memory_peak() -> int:
    """Most bytes that were ever held in memory, 0 where the system does not tell."""
    try:
        import resource
    except ImportError:  # not Unix
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def memory_free() -> int | None:
    """Bytes that this process may still take, by the system and by the limit of its container; None if not told."""
    found = [free for free in (_available(), _left_in_container()) if free is not None]
    return min(found, default=None)


def swap_free() -> int:
    """Bytes that may be moved to disk, by the system and by the limit of the container; 0 where it is not told."""
    here, left = _told("SwapFree") or 0, _swap_in_container()
    return here if left is None else min(here, left)


def _available() -> int | None:
    return _told("MemAvailable")


def _told(name: str, source: Path = Path("/proc/meminfo")) -> int | None:
    try:
        lines = source.read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))
    except (OSError, ValueError, IndexError, StopIteration):
        return None


def _left_in_container(folder: Path = Path("/sys/fs/cgroup")) -> int | None:
    """What the limit of a container leaves. What is kept of files can be taken back at any time, and is left.

    So is what the kernel says it can give back of its own tables. Version 1 counts the groups below in `total_*`.
    """
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        try:
            left = _number(folder / limit) - _number(folder / used)
            stat = dict(line.split() for line in (folder / used).with_name("memory.stat").read_text().splitlines())
            back = sum(int(stat.get(f"total_{name}", stat.get(name, 0))) for name in RECLAIMED)
        except (OSError, ValueError):  # no limit, or no container
            continue
        return max(0, left + back)
    return None


def _swap_in_container(folder: Path = Path("/sys/fs/cgroup")) -> int | None:
    """What the limit of a container leaves of swap; version 1 has a limit of memory and swap together."""
    try:
        return max(0, _number(folder / "memory.swap.max") - _number(folder / "memory.swap.current"))
    except (OSError, ValueError):
        pass
    first = folder / "memory"
    try:
        both = _number(first / "memory.memsw.limit_in_bytes") - _number(first / "memory.memsw.usage_in_bytes")
        memory = _number(first / "memory.limit_in_bytes") - _number(first / "memory.usage_in_bytes")
    except (OSError, ValueError):
        return None
    return max(0, both - memory) if both < _NO_LIMIT else None


def _number(path: Path) -> int:
    return int(path.read_text())


def keep_torch_quiet() -> None:
    """Let the C++ side of torch tell of errors only: what it warns of in each of several processes is known."""
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")


def cores() -> int:
    """Cores that this process may use, by the system and by the limit of its container."""
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    permitted = _cores_of_container()
    return there if permitted is None else min(there, permitted)


def _cores_of_container(folder: Path = Path("/sys/fs/cgroup")) -> int | None:
    """The time that a container may take of a period, as whole cores, rounded up; None where there is no limit."""
    for names in (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")):
        try:
            quota, period = (int(number) for name in names for number in (folder / name).read_text().split())
        except (OSError, ValueError):  # no limit ("max"), or no container
            continue
        if quota > 0 and period > 0:  # -1 is no limit
            return -(-quota // period)
    return None


def one_of_several() -> bool:
    """Whether this process was started as one of several, by `--workers` or by torchrun."""
    named = {"RANK", "WORLD_SIZE"} <= os.environ.keys()
    met = MEETING in os.environ or {"MASTER_ADDR", "MASTER_PORT"} <= os.environ.keys()
    return named and met and int(os.environ["WORLD_SIZE"]) > 1


def loopback() -> str:
    """The name of the network interface that no other machine can reach."""
    for path in sorted(Path("/sys/class/net").glob("*/flags")):
        try:
            if int(path.read_text(), 16) & _IS_LOOPBACK:
                return path.parent.name
        except (OSError, ValueError):
            continue
    return "lo"
