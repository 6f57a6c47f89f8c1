"""Hostile engine files: mutations of whole ones with a right checksum, opened and searched.

Run by tests in processes of their own: `python -m tests.engine.fuzz FOLDER COUNT SEED` ends with 0 if every file was
refused with a reason or answered.
"""

import random
import struct
import sys
from pathlib import Path

import numpy as np

from regard.engine import Engine, EngineOptions, EngineReading, EngineRequest, Session
from regard.engine.constraints import EngineConstraint
from regard.engine.container import sealed
from regard.errors import RegardError
from tests.engine.rules import Wanting

ODD = (0, 1, 2, 3, 63, 64, 65, 255, 1 << 16, 1 << 31, (1 << 32) - 1, 1 << 40, (1 << 63) - 1, (1 << 64) - 1)
NUMBERS = (0.0, 1.0, 2.0, 3.0, -1.0, 0.5, 64.0, 4096.0, 1e9, 1e300, float("inf"), float("nan"))


def mutated(content: bytes, draw: random.Random) -> bytes:
    """A few changes, most of them in the tables: there they have the strangest consequences."""
    changed = bytearray(content)
    settings, tensors = struct.unpack_from("<II", content, 12)
    tables = 64 + 64 * settings + 128 * tensors
    for _ in range(draw.randint(1, 3)):
        match draw.randrange(6):
            case 0:
                changed[draw.randrange(len(changed))] = draw.randrange(256)
            case 1:
                changed[draw.randrange(tables)] = draw.randrange(256)
            case 2:
                struct.pack_into("<d", changed, 64 + 64 * draw.randrange(settings) + 48, draw.choice(NUMBERS))
            case 3:
                field = 64 + 64 * settings + 128 * draw.randrange(tensors) + draw.choice((64, 72, 80, 88, 96, 104, 112))
                struct.pack_into("<Q", changed, field, draw.choice(ODD))
            case 4:
                place = draw.randrange(tables, len(changed) - 4) // 4 * 4
                struct.pack_into("<f", changed, place, draw.choice((0.0, 1e38, -1e38, float("nan"), float("inf"))))
            case 5:
                struct.pack_into("<I", changed, draw.choice((8, 12, 16, 24)), draw.choice(ODD) & 0xFFFFFFFF)
    if draw.randrange(8) == 0:
        changed = changed[: draw.randrange(len(changed) + 1)]
        if len(changed) >= 32:
            struct.pack_into("<Q", changed, 24, len(changed))
    return sealed(bytes(changed)) if len(changed) >= 36 else bytes(changed)


def step_twice(engine: Engine) -> None:
    session = Session(engine, slots=2, beam=2)
    first, second = session.start([[5, 6, 3], [7, 3]])
    session.step(np.array([[first, -1, 0, 2, 0], [second, -1, 0, 2, 0]], dtype=np.int32))
    session.release(second)
    session.step(np.array([[first, 0, 0, 5, 1], [first, 0, 1, 6, 1]], dtype=np.int32))
    session.step(np.array([[first, 1, 0, 5, 2]], dtype=np.int32), longest=3)


def attend(engine: Engine) -> None:
    for layer, heads in enumerate(engine.attention_heads[:3]):
        for head in (None, heads - 1):
            reading = EngineReading(layer=layer, head=head)
            engine.attention([([5, 6, 3], [7]), ([8, 3], [5, 6])], reading=reading, workers=1, capacity=2)


def cover_and_draw(engine: Engine, requests: list[EngineRequest]) -> None:
    searches = [
        EngineOptions(sample=True, best=3, seed=5),
        EngineOptions(sample=True, best=2, temperature=0.5, top_k=9, top_p=0.9, min_p=0.01, typical=0.8),
        EngineOptions(sample=True, best=2, top_p=0.6),
        EngineOptions(sample=True, best=2, typical=0.6),
    ]
    if engine.attention_heads:
        searches.append(EngineOptions(beam=3, best=2, coverage_penalty=0.5))
    for options in searches:
        engine.search(requests, options=options, workers=1, capacity=2)


def constrain(engine: Engine) -> None:
    vocabulary = engine.target_vocabulary
    for asked in (False, True):
        constraint = EngineConstraint(Wanting(vocabulary, asked=asked), vocabulary=vocabulary)
        requests = [
            EngineRequest(ids=[5, 6, 7, 3], limit=4, prefix=[6], constraint=constraint),
            EngineRequest(ids=[8, 3], limit=6),
            EngineRequest(ids=[9, 3], limit=6, constraint=constraint),
        ]
        for options in (EngineOptions(beam=3, best=2), EngineOptions(sample=True, best=3)):
            engine.search(requests, options=options, workers=1, capacity=2)


def run(folder: Path, count: int, seed: int) -> tuple[int, int]:
    """How many were refused, and how many answered."""
    draw = random.Random(seed)
    wholes = [path.read_bytes() for path in sorted(folder.glob("*.bin"))]
    refused = answered = 0
    path = folder / f"mutated{seed}"
    requests = [EngineRequest(ids=[5, 6, 7, 3], limit=4, prefix=[6]), EngineRequest(ids=[8, 3], limit=6)]
    for _ in range(count):
        path.write_bytes(mutated(draw.choice(wholes), draw))
        try:
            engine = Engine(path)
            engine.search(requests, options=EngineOptions(beam=3, best=2), workers=1, capacity=2)
            cover_and_draw(engine, requests)
            constrain(engine)
            attend(engine)
            step_twice(engine)
            answered += 1
        except RegardError:
            refused += 1
    return refused, answered


if __name__ == "__main__":
    results = run(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
    sys.stdout.write("{} refused, {} answered\n".format(*results))
