"""Settings of the process that must be made before torch is loaded: about CPUs and Linux, elsewhere they do nothing.

What a user has set in the environment is kept.
"""

import ctypes
import os
import sys
from typing import Final

SPINS: Final = "10000"
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_MAX: Final = -4


def spin_shortly() -> None:
    """Let threads that wait for each other sleep soon, so that a training is steady beside other programs.

    By default they spin for milliseconds. Another program on the same cores then holds up every step:
    `benchmarks/process.py` measures it, and what a short spin costs on idle cores.
    """
    os.environ.setdefault("GOMP_SPINCOUNT", SPINS)


def keep_heap() -> None:
    """Take large tensors from the heap and keep it, instead of mapping and unmapping memory at every training step."""
    if "torch" in sys.modules or not sys.platform.startswith("linux"):
        return
    try:
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(_M_MMAP_MAX, 0)
        libc.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
    except (OSError, AttributeError):  # not glibc
        return
