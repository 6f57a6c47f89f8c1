"""Several threads that search with one engine, each with several workers, for the thread sanitizer.

`python -m tests.engine.threads FOLDER` ends with 0 if all of them found the same.
"""

import sys
import threading
from pathlib import Path

from regard.engine import Engine, EngineOptions, EngineReading, EngineRequest, Found
from regard.engine.constraints import EngineConstraint
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

    threads = [threading.Thread(target=search, args=(workers,)) for workers in (1, 3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(found) == 3 and found[0] == found[1] == found[2]


if __name__ == "__main__":
    sys.exit(0 if all(run(path) for path in sorted(Path(sys.argv[1]).glob("*.bin"))) else 1)
