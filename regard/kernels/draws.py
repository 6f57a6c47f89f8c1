"""Where random numbers of training come from: torch's own generator, or one of this thread alone.

Threads that compute at the same time must not draw from one generator, for who comes first is chance.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import numpy as np
import torch

_of_thread = threading.local()


def generator() -> torch.Generator | None:
    """What this thread draws from, as torch takes it: None is torch's own."""
    found: torch.Generator | None = getattr(_of_thread, "generator", None)
    return found


@contextmanager
def drawing_from(own: torch.Generator) -> Iterator[None]:
    """Let this thread draw from a generator of its own, which must be one for CPUs."""
    before = generator()
    _of_thread.generator = own
    try:
        yield
    finally:
        _of_thread.generator = before


def seed_all(seed: int) -> None:
    """As `torch.manual_seed`, which notes the stack for each kind of device that is not there: much for one step."""
    if _beside_cpu():
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


@cache
def _beside_cpu() -> bool:
    """Whether there are devices with generators of their own."""
    return torch.accelerator.is_available()


def step_seed(seed: int, step: int, *place: int) -> int:
    """What random numbers follow from in one update: the same whatever came before it."""
    return int(np.random.SeedSequence((seed, step, *place)).generate_state(1, np.uint64)[0])


def step_chances(seed: int, step: int, lanes: int) -> list[torch.Generator]:
    """What each lane of an update draws from."""
    return [torch.Generator().manual_seed(step_seed(seed, step, 0, 1 + lane)) for lane in range(lanes)]
