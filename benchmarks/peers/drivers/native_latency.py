"""Seconds for each output token, one sentence after the other on one thread of our native engine.

A sentence's seconds, Python's part included, divided by its tokens and its end. One pass over all sentences goes before
what is measured: a service runs long, and what its first sentences cost is no tail of what the others do.

python native_latency.py ENGINE PAIRS BEAM SENTENCES REPEATS
"""

import sys
import time

from measuring import END, LONGEST, chosen, read_pairs, tell

from regard.engine import Engine, EngineOptions, EngineRequest


def main(path: str, pairs: str, beam: int, sentences: int, repeats: int) -> None:
    engine, options = Engine(path), EngineOptions(beam=beam, stopping="early")
    rows = chosen([source for source, _ in read_pairs(pairs)], sentences)
    asked = [EngineRequest(ids=[*row, END], limit=LONGEST) for row in rows]
    taken: list[list[float]] = [[] for _ in asked]
    for request in asked:
        engine.search([request], options=options, workers=1)
    for _ in range(repeats):
        for place, request in enumerate(asked):
            began = time.perf_counter()
            ((found, *_),) = engine.search([request], options=options, workers=1)
            taken[place].append((time.perf_counter() - began) / (len(found.tokens) + found.complete))
    tell(beam=beam, taken=taken)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6]))
