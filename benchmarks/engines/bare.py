"""What a machine does to even work: a loop of a known length that touches nothing, timed as often as tokens are.

A virtual machine is interrupted by its host, whatever runs in it. The tail of this loop is the least that anything of
the same length has here.
"""

import gc
import time
from typing import Final

SECONDS: Final = 2.0
"""That all pieces take together, about."""

INTERRUPTED: Final = 2_000
"""Nanoseconds between two looks at the clock that no loop needs by itself."""


def bare(length: float, *, seconds: float = SECONDS) -> list[float]:
    """Seconds that each of many equal pieces of work took, `length` seconds each where nothing comes between."""
    clock, worth, taken = time.perf_counter_ns, int(length * 1e9), list[float]()
    collects = gc.isenabled()
    gc.disable()
    try:
        for _ in range(max(2, int(seconds / length)) if length > 0 else 0):
            begun = last = clock()
            worked = 0
            while worked < worth:
                now = clock()
                if now - last < INTERRUPTED:
                    worked += now - last
                last = now
            taken.append((last - begun) / 1e9)
    finally:
        if collects:
            gc.enable()
    return taken
