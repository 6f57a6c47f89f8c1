"""What is free in the heap is given back where it has grown, and not before."""

import subprocess
import sys

import pytest

from regard.training import heap
from regard.training.events import Saved, Stepped
from regard.training.heap import HeapWatch
from regard.training.progress import Progress


def stepped(memory):
    return Stepped(
        progress=Progress(),
        loss=1.0,
        likelihood=1.0,
        learning_rate=0.1,
        gradient_norm=1.0,
        tokens_per_second=1.0,
        memory=memory,
    )


@pytest.mark.parametrize(
    ("held", "given_back_after"),
    [
        ([100, 120, 149, 150], []),
        ([100, 120, 151, 110, 160, 166], [2, 5]),  # 110 is what is usual from then on
        ([100, 200, 200, 200], [1]),  # it was needed: 200 is usual
        ([0, 0, 0], []),  # not known
    ],
)
def test_memory_is_given_back_where_it_has_grown_by_half(monkeypatch, held, given_back_after):
    given = []
    monkeypatch.setattr(heap, "give_back", lambda: given.append(True))
    watch, found = HeapWatch(), []
    for place, memory in enumerate(held):
        before = len(given)
        watch(Saved(Progress()))
        watch(stepped(memory))
        found += [place] * (len(given) - before)
    assert found == given_back_after


def test_what_is_free_can_be_given_back():
    """In a process of its own, whose heap is kept: a hole of 64 MB below a tensor that stays."""
    program = """
from regard.process import give_back, keep_heap, memory_now
keep_heap()
import ctypes
libc = ctypes.CDLL("libc.so.6")
libc.malloc.restype = ctypes.c_void_p
hole, stays = libc.malloc(64_000_000), libc.malloc(1_000_000)
ctypes.memset(hole, 1, 64_000_000)
libc.free(ctypes.c_void_p(hole))
before = memory_now()
give_back()
print(before - memory_now())
"""
    if not sys.platform.startswith("linux"):
        pytest.skip("only glibc gives back")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 60_000_000
