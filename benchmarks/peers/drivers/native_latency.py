"""Seconds until the first output token and between tokens, one sentence after the other on one thread of our engine.

The engine notes the clock after each step of its search, in which every hypothesis gets one more token; the first step
has the encoder in it. Beside it the seconds of a whole search, Python's part included, divided by the tokens of the
output and its end. One pass over all sentences goes before what is measured: a service runs long, and what its first
sentences cost is no tail of what the others do.

python native_latency.py ENGINE PAIRS BEAM SENTENCES REPEATS
"""

import ctypes
import sys
import time
from array import array
from itertools import pairwise

from measuring import END, LONGEST, chosen, read_pairs, tell

from regard.engine import Engine, EngineOptions, EngineRequest
from regard.engine.library import MESSAGE
from regard.engine.runtime import address, error_of


def steps(engine: Engine, ids: list[int], beam: int) -> list[float]:
    """The seconds of each step."""
    source, times, count = array("i", ids), (ctypes.c_double * (LONGEST + 1))(), ctypes.c_int64()
    message = ctypes.create_string_buffer(MESSAGE)
    length, rows, capacity, limit = (ctypes.c_int64(one) for one in (len(ids), beam, engine.capacity, LONGEST))
    place = ctypes.c_void_p(address(source))
    status = engine.library.regard_try_steps(
        engine.handle, place, length, rows, capacity, limit, times, ctypes.byref(count), message
    )
    if status:
        raise error_of(status, message)
    return [later - before for before, later in pairwise(times[: count.value])]


def taken(engine: Engine, ids: list[int], beam: int) -> float:
    """The seconds of a search, for each token of its output and its end."""
    began = time.perf_counter()
    asked, options = EngineRequest(ids=ids, limit=LONGEST), EngineOptions(beam=beam, stopping="early")
    ((found, *_),) = engine.search([asked], options=options, workers=1)
    return (time.perf_counter() - began) / (len(found.tokens) + found.complete)


def main(path: str, pairs: str, beam: int, sentences: int, repeats: int) -> None:
    engine = Engine(path)
    asked = [[*row, END] for row in chosen([source for source, _ in read_pairs(pairs)], sentences)]
    for ids in asked:
        steps(engine, ids, beam)
        taken(engine, ids, beam)
    stepped = [[steps(engine, ids, beam) for ids in asked] for _ in range(repeats)]
    tell(beam=beam, steps=stepped, taken=[taken(engine, ids, beam) for _ in range(repeats) for ids in asked])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6]))
