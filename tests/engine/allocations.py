"""What the engine does when memory ends: its allocations fail one by one, alone and with all after them.

The first 50 of each work fail, and then one in seven; of sessions every one. Nothing but a `ResourceError` may come of
it, and what is asked next must be answered as if nothing had happened, by the same engine and session, too. Each is
tried with an engine that has searched nothing yet, so that it holds no room from before. Runs with failing.cpp loaded
before everything else; says what was wrong.
"""

import ctypes
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch

from regard.engine import Engine, EngineOptions, EngineReading, EngineRequest, Session
from regard.engine.constraints import EngineConstraint
from regard.engine.library import LIBRARY
from regard.engine.preparation import prepare
from regard.errors import ResourceError
from regard.special import END, START
from tests.engine.rules import Wanting
from tests.engine.searching import system_named

SOURCES = [[5, 6, 7, 9, 10, END], [8, END]]
FAR = 64
"""So many positions have room from the first on."""

Work = Callable[[], object]
Making = Callable[[], Work]


class Allocations:
    """Lets an allocation of the engine fail."""

    def __init__(self) -> None:
        self._hook = ctypes.CDLL(None)
        self._hook.fail_allocation.argtypes = [ctypes.c_size_t, ctypes.c_size_t, ctypes.c_long, ctypes.c_int]
        self._hook.allocations_met.restype = ctypes.c_long
        lines = Path("/proc/self/maps").read_text().splitlines()
        found = [line.split()[0].split("-") for line in lines if LIBRARY.name in line]
        self._first, self._last = int(found[0][0], 16), int(found[-1][1], 16)

    def failing(self, number: int, work: Work, *, onwards: bool) -> tuple[bool, object]:
        """Whether the allocation was reached, and what came out: a result, or the error."""
        self._hook.fail_allocation(self._first, self._last, number, onwards)
        try:
            found = work()
        except Exception as error:
            found = error
        reached = self._hook.allocations_met() > number
        self._hook.fail_allocation(0, 0, -1, 0)
        return reached, found


def works(path: Path) -> Iterator[tuple[str, Making]]:
    """What is tried, and what makes it ready: there nothing fails."""
    requests = [EngineRequest(ids=ids, limit=8) for ids in SOURCES]
    options = {
        "a beam": EngineOptions(beam=3, best=2),
        "samples": EngineOptions(sample=True, best=4, top_p=0.9),
    }
    if Engine(path).attention_heads:
        options["coverage"] = EngineOptions(beam=3, coverage_penalty=0.5)
        pairs = [(ids, [5, 6]) for ids in SOURCES]
        yield "attention", lambda: partial(Engine(path).attention, pairs, reading=EngineReading(), workers=1)
    for name, one in options.items():
        yield name, lambda one=one: partial(Engine(path).search, requests, options=one, workers=1)
    yield "threads", lambda: partial(Engine(path).search, requests * 4, options=EngineOptions(beam=3), workers=3)
    yield "constraints", lambda: partial(constrained, Engine(path))
    yield "a session", lambda: partial(whole_session, Engine(path))
    yield "opening", lambda: lambda: Engine(path).target_vocabulary


def constrained(engine: Engine) -> object:
    """A constraint is made and learned anew."""
    wanting = EngineConstraint(Wanting(engine.target_vocabulary, asked=True), vocabulary=engine.target_vocabulary)
    requests = [EngineRequest(ids=ids, limit=6, constraint=wanting) for ids in SOURCES]
    return engine.search(requests, options=EngineOptions(beam=3), workers=1)


def whole_session(engine: Engine) -> object:
    session, slot = started(engine)
    found = logits(session, slot, 0, 3)
    session.release(slot)
    return found


def tried(allocations: Allocations, name: str, making: Making) -> int:
    """How many allocations failed."""
    expected, count = making()(), 0
    for onwards in (False, True):
        number, reached = 0, True
        while reached:
            work = making()
            reached, found = allocations.failing(number, work, onwards=onwards)
            count += reached
            if not isinstance(found, ResourceError) and found != expected:
                sys.exit(f"{name}, without allocation {number}: {found!r} and not {expected!r}")
            if (again := work()) != expected:
                sys.exit(f"{name}, after a failed allocation {number}: {again!r} and not {expected!r}")
            number += 1 if number < 50 else 7
    return count


def logits(session: Session, slot: int, first: int, past: int) -> list[list[float]]:
    """Of the steps from `first` on, of one hypothesis."""
    found = []
    for position in range(first, past):
        row = [slot, 0 if position else -1, 0, 5 + position % 3 if position else START, position]
        found.append(session.step(np.array([row], dtype=np.int32))[0][0].tolist())
    return found


def tried_session(allocations: Allocations, name: str, engine: Engine) -> int:
    """A step that failed is none: the sentence begins again in the same session, and gets the same logits."""
    count = 0
    for before in (0, FAR):  # where there is no room for positions yet, and where it ends
        expected = logits(*started(engine), 0, before + 1)
        number, reached = 0, True
        while reached:
            begun = started(engine)
            logits(*begun, 0, before)
            reached, found = allocations.failing(number, partial(logits, *begun, before, before + 1), onwards=False)
            count += reached
            if not isinstance(found, ResourceError) and found != expected[before:]:
                sys.exit(f"{name}, a step without allocation {number}: {found!r} and not {expected[before:]!r}")
            if logits(*begun, 0, before + 1) != expected:
                sys.exit(f"{name}, steps after a failed allocation {number} differ")
            number += 1
    return count


def tried_release(allocations: Allocations, name: str, engine: Engine) -> int:
    """A sentence that could not be released is still there; another one can begin where it could."""
    count, reached = 0, True
    expected = logits(*started(engine), 0, FAR)
    while reached:
        session, slot = started(engine)
        logits(session, slot, 0, FAR)
        reached, found = allocations.failing(count, partial(session.release, slot), onwards=False)
        count += reached
        if not isinstance(found, ResourceError):
            (slot,) = session.start([SOURCES[0]])
        if logits(session, slot, 0, FAR) != expected:
            sys.exit(f"{name}, a sentence after a release without allocation {count}: differs")
    return count


def started(engine: Engine) -> tuple[Session, int]:
    session = Session(engine, slots=1, beam=1)
    return session, session.start([SOURCES[0]])[0]


def main() -> None:
    torch.set_num_threads(1)
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "engine.bin"
        for name in sys.argv[1:]:
            prepare(system_named(name), path, int8=True)
            engine = Engine(path)
            allocations = Allocations()
            count += tried_session(allocations, name, engine)
            count += tried_release(allocations, name, engine)
            for told, making in works(path):
                count += tried(allocations, f"{name}, {told}", making)
    sys.stdout.write(f"{count} allocations failed\n")


if __name__ == "__main__":
    main()
