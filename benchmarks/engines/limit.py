"""What products of bytes alone would allow: how many sentences per second, on so many cores."""

import ctypes
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from peers.limit import product, timed
from peers.shapes import Call
from torch import nn

from regard.engine.container import packed_bytes
from regard.engine.library import kernels_here, loaded
from regard.models import EncoderDecoder
from regard.run.model import Model

ROWS = (80, 120, 1024)
"""Hypotheses that a worker continues together, with 16 and with 24 sentences; and what is more than enough."""

LONGEST = 100
"""Tokens of an output at most, as the drivers have it."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Matrix:
    """Weights that every item of a side is multiplied with: the source, or rows of the decoder."""

    side: str
    inner: int
    outer: int

    @property
    def operations(self) -> int:
        return 2 * self.inner * self.outer


def matrices(system: EncoderDecoder) -> Iterator[Matrix]:
    """Of a Transformer; keys and values of the memory are made once for each item of the source."""
    for name, part in system.named_modules():
        if isinstance(part, nn.Linear):
            source = name.startswith("encoder.") or name.endswith("cross.key_value")
            yield Matrix("source" if source else "target", part.in_features, part.out_features)


def rows_read(model: Model, sources: Sequence[str], *, beam: int) -> float:
    """Rows that a decoder reads for a sentence, on average: the start, and every hypothesis that is continued.

    The search is that which is timed, whatever the recipe says of limits and ends.
    """
    options = replace(model.options(beam=beam, trace=True), max_length=LONGEST, max_ratio=None, stopping="early")
    found = model.predict_many(sources, options=options)
    counts = [1 + sum(node.fate == "kept" for node in one.trace.nodes) for one in found if one.trace is not None]
    return statistics.mean(counts)


def product_speed(matrix: Matrix, rows: int, *, threads: int, seconds: float) -> float:
    """Operations per second of our best kernel, on so many threads at once."""
    library = loaded().library
    assert library is not None, loaded().reason
    kernels = kernels_here()[0].encode()
    draw = np.random.default_rng(0)
    packed = packed_bytes(draw.standard_normal((matrix.outer, matrix.inner)).astype(np.float32))
    stride = -(-matrix.inner // 4) * 4
    inputs = draw.integers(0, 255, (rows, stride)).astype(np.uint8)
    counts = [0] * threads
    until = time.perf_counter() + seconds

    def work(place: int) -> None:
        out = np.empty((rows, matrix.outer), dtype=np.int32)
        row, panels, shift, found = (_address(one) for one in (inputs, packed.panels, packed.shift, out))
        count, width, inner, outer = (ctypes.c_int64(one) for one in (rows, stride, matrix.inner, matrix.outer))
        while not counts[place] or time.perf_counter() < until:
            library.regard_try_int8(kernels, row, count, width, panels, shift, inner, outer, found)
            counts[place] += 1

    workers = [threading.Thread(target=work, args=(place,)) for place in range(threads)]
    began = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(counts) * matrix.operations * rows / (time.perf_counter() - began)


def torch_speed(matrix: Matrix, rows: int, *, threads: int, seconds: float) -> float:
    """Of torch's product of bytes; 0 where it has none."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        run = product(Call(rows, matrix.inner, matrix.outer), "int8")
        return matrix.operations * rows / timed(run, enough=seconds)
    except RuntimeError:
        return 0.0
    finally:
        torch.set_num_threads(before)


def limit(model: Model, sources: Sequence[str], *, threads: int, seconds: float, beam: int = 5) -> Json:
    """Sentences per second of a program that did nothing but products with weights, all as fast as the fastest.

    The fastest product of bytes that was seen, of any shape of the model and by any program, counts for all: what is
    stricter than the time that products of these shapes take.
    """
    system = model.system
    assert isinstance(system, EncoderDecoder)
    own = list(matrices(system))
    speeds: list[Json] = [
        {"inner": one.inner, "outer": one.outer, "rows": rows, "by": by, "speed": speed(one, rows)}
        for one in dict.fromkeys([Matrix("both", 1024, 1024), *(replace(one, side="both") for one in own)])
        for rows in ROWS
        for by, speed in (
            ("regard", partial(product_speed, threads=threads, seconds=seconds)),
            ("torch", partial(torch_speed, threads=threads, seconds=seconds)),
        )
    ]
    items = statistics.mean(len(model.texts.source.encode(source)) + 1 for source in sources)
    rows = rows_read(model, sources, beam=beam)
    operations = sum(one.operations * (items if one.side == "source" else rows) for one in own)
    fastest = max(one["speed"] for one in speeds)
    return {
        "beam": beam,
        "items": items,
        "rows": rows,
        "operations": operations,
        "fastest": fastest,
        "limit": fastest / operations,
        "products": speeds,
    }


def _address(values: NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(values.ctypes.data)
