"""Several threads that search with one engine, each with several workers or in a session, for the thread sanitizer.

`python -m tests.engine.threads FOLDER` ends with 0 if all of them found the same, and a search that another thread
stops has ended.
"""

import sys
import threading
from concurrent.futures import CancelledError
from pathlib import Path

import numpy as np

from regard.engine import Engine, EngineOptions, EngineReading, EngineRequest, Found, Session, StopFlag
from regard.engine.constraints import EngineConstraint
from regard.special import END, START
from tests.engine.rules import Wanting


def run(path: Path) -> bool:
    engine = Engine(path)
    sources = [[4 + (number * 7 + item) % 60 for item in range(number % 9 + 1)] for number in range(40)]
    vocabulary = engine.target_vocabulary
    one, other = (EngineConstraint(Wanting(vocabulary, asked=asked), vocabulary=vocabulary) for asked in (False, True))
    requests = [
        EngineRequest(ids=ids, limit=8, constraint=(None, one, other)[number % 3]) for number, ids in enumerate(sources)
    ]
    reading = EngineReading() if engine.attention_heads else None
    searches = [
        EngineOptions(beam=3, best=2, attention=reading, coverage_penalty=0.0 if reading is None else 0.5),
        EngineOptions(sample=True, best=4, top_p=0.9),
    ]
    found: list[list[list[tuple[Found, ...]]]] = []

    def search(workers: int) -> None:
        found.append([engine.search(requests, options=options, workers=workers, capacity=3) for options in searches])

    logits: list[list[bytes]] = []

    def walk() -> None:
        logits.append(walked(engine))

    stopped: list[bool] = []
    flag = StopFlag()

    def be_stopped() -> None:
        try:
            engine.answer(requests * 50, options=EngineOptions(beam=3), workers=2, stop=flag)
        except CancelledError:
            stopped.append(True)

    targets = [*(lambda workers=workers: search(workers) for workers in (1, 3, 4)), walk, walk, be_stopped]
    threads = [threading.Thread(target=target) for target in targets]
    for thread in threads:
        thread.start()
    flag.stop()
    for thread in threads:
        thread.join()
    alike = len(found) == 3 and found[0] == found[1] == found[2]
    return alike and len(logits) == 2 and logits[0] == logits[1] and stopped == [True]


def walked(engine: Engine) -> list[bytes]:
    """Logits of a few steps of two sentences in a session."""
    session = Session(engine, slots=2, beam=1)
    slots = session.start([[5, 6, 7, END], [9, END]])
    steps = []
    for position in range(4):
        before = [-1, -1] if position == 0 else [0, 1]
        rows = [[slot, before[index], 0, 7 if position else START, position] for index, slot in enumerate(slots)]
        steps.append(session.step(np.array(rows, dtype=np.int32))[0].tobytes())
    return steps


if __name__ == "__main__":
    sys.exit(0 if all(run(path) for path in sorted(Path(sys.argv[1]).glob("*.bin"))) else 1)
