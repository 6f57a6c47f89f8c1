"""Time and memory against the size of corpus, sequences, vocabulary, beam and model, with fitted exponents.

    python benchmarks/growth.py             measure (at most eight minutes), write growth.json, docs/growth.md, picture
    python benchmarks/growth.py --quick     the smallest sizes only, printed and not written
    python benchmarks/growth_page.py        only write page and picture again, from growth.json

As in complexity.py one thread is used and its CPU time taken, and memory is the peak of what torch allocates; of a
corpus, which torch does not hold, it is the peak of what Python does. Batches have the same number of target tokens
whatever their length, as in training.
"""

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
import tracemalloc
import weakref
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from complexity import machine, peak_bytes
from growth_page import write_page

from regard.data.batch import make_batch
from regard.data.batches import plan_epoch
from regard.models import EncoderDecoder, System
from regard.recipe.build import build_system
from regard.recipe.read import recipe_from
from regard.recipe.schema import ModelSection
from regard.run.folder import RunFolder
from regard.run.preparation import prepare_run
from regard.search import Request, Search, SearchOptions

HERE = Path(__file__).resolve().parent
FIGURES = HERE / "growth.json"
DOCS = HERE.parent / "docs"
TOKENS, WIDTH, LENGTH, VOCABULARY = 1024, 128, 16, 1024
BASE = {"width": 512, "layers": 6, "heads": 8, "vocabulary": 37_000, "tokens": 1024, "length": 32}
"""Transformer base (Vaswani et al. 2017), and the batch that one pass of it is timed with."""

ROUNDS, ENOUGH = 3, 4.0
"""Each pass is timed ROUNDS times, but no longer once it has taken ENOUGH seconds."""

Pass = Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Something that grows with `what`, measured at `sizes`; `make` gives the work for a size."""

    what: str
    name: str
    sizes: tuple[int, ...]
    make: Callable[[int], Pass]
    in_torch: bool = True

    @property
    def key(self) -> str:
        return f"{self.what}: {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """What was found for one case."""

    what: str
    name: str
    sizes: list[int]
    seconds: list[float]
    bytes: list[int]


def system_of(
    kind: str, *, width: int = WIDTH, vocabulary: int = VOCABULARY, layers: int = 2, heads: int = 4, inner: int = 2
) -> System:
    torch.manual_seed(1)
    transformer = {"heads": heads, "feedforward": inner * width}
    side = {"kind": kind} | (transformer if kind == "transformer" else {"wiring": "luong", "score": "dot"})
    encoder = side if kind == "transformer" else {"kind": "rnn", "two_way": False}
    section = ModelSection.model_validate(
        {
            "width": width,
            "layers": layers,
            "dropout": 0.1,
            "tie": "all" if kind == "transformer" else "target",
            "encoder": encoder,
            "decoder": side,
        }
    )
    return build_system(section, source_vocabulary=vocabulary, target_vocabulary=vocabulary)


def rows_of(count: int, length: int, vocabulary: int) -> list[list[int]]:
    return torch.randint(4, vocabulary, (count, length)).tolist()


def training(system: System, *, tokens: int, length: int, vocabulary: int) -> Pass:
    """Loss and gradients of a batch of so many target tokens."""
    rows = max(1, tokens // length)
    batch = make_batch(rows_of(rows, length, vocabulary), rows_of(rows, length - 1, vocabulary))
    system.train()

    def run() -> None:
        system.zero_grad()
        loss = system.loss(batch)
        (loss.sum / loss.count).backward()

    return run


def by_length(kind: str) -> Callable[[int], Pass]:
    return lambda length: training(system_of(kind), tokens=TOKENS, length=length, vocabulary=VOCABULARY)


def by_vocabulary(kind: str) -> Callable[[int], Pass]:
    return lambda size: training(system_of(kind, vocabulary=size), tokens=TOKENS, length=LENGTH, vocabulary=size)


def by_width(kind: str) -> Callable[[int], Pass]:
    return lambda width: training(system_of(kind, width=width), tokens=TOKENS, length=LENGTH, vocabulary=VOCABULARY)


def by_beam(kind: str) -> Callable[[int], Pass]:
    """Search of 8 sentences, each to the same length."""

    def make(beam: int) -> Pass:
        system = system_of(kind).eval()
        assert isinstance(system, EncoderDecoder)
        rows = rows_of(8, LENGTH, VOCABULARY)
        options = SearchOptions(beam=beam, min_length=LENGTH, max_length=LENGTH, max_ratio=10.0)

        def run() -> None:
            search = Search(system, capacity=8)
            sources = [make_batch([row], [row]).sources for row in rows]
            search.add(Request(number, source, LENGTH, options) for number, source in enumerate(sources))
            with torch.no_grad():
                while search.busy:
                    search.step()

        return run

    return make


def sentences(count: int) -> list[tuple[str, str]]:
    draw = random.Random(count)
    words = [f"w{number}" for number in range(VOCABULARY)]
    return [tuple(" ".join(draw.choices(words, k=draw.randint(5, 25))) for _ in range(2)) for _ in range(count)]  # type: ignore[misc]


def preparing(count: int) -> Pass:
    """Read, split off, learn the words, encode, store: what a training does with its pairs before it begins."""
    home = tempfile.mkdtemp()
    path = Path(home) / "pairs.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in sentences(count)), encoding="utf-8")
    recipe = recipe_from({"data": {"train": str(path)}, "text": {"unit": "word", "size": VOCABULARY}}, name="growth")

    def run() -> None:
        with (
            tempfile.TemporaryDirectory(dir=home) as place,
            patch.dict(os.environ, REGARD_CACHE=str(Path(place) / "cache")),
        ):
            prepare_run(recipe, RunFolder(Path(place)))

    weakref.finalize(run, shutil.rmtree, home)
    return run


def planning(count: int) -> Pass:
    """The batches of an epoch."""
    lengths = torch.randint(5, 25, (count, 2), generator=torch.Generator().manual_seed(1)).numpy()

    def run() -> None:
        plan_epoch(lengths, tokens=4096, seed=1, epoch=0)

    return run


def doubled(first: int, count: int) -> tuple[int, ...]:
    return tuple(first * 2**number for number in range(count))


FAMILIES = (("Transformer", "transformer"), ("RNN, Luong", "rnn"))
CASES: list[Case] = [
    Case(what="corpus", name="preparing pairs", sizes=doubled(4096, 5), make=preparing, in_torch=False),
    Case(what="corpus", name="planning an epoch", sizes=doubled(16_384, 6), make=planning, in_torch=False),
    *(Case(what="length", name=name, sizes=doubled(8, 8), make=by_length(kind)) for name, kind in FAMILIES),
    *(Case(what="vocabulary", name=name, sizes=doubled(1024, 6), make=by_vocabulary(kind)) for name, kind in FAMILIES),
    *(Case(what="beam", name=name, sizes=doubled(1, 6), make=by_beam(kind)) for name, kind in FAMILIES),
    *(Case(what="width", name=name, sizes=doubled(32, 5), make=by_width(kind)) for name, kind in FAMILIES),
]


def peak_of(case: Case, run: Pass) -> int:
    """The most memory that a pass holds at once."""
    if case.in_torch:
        return peak_bytes(run)
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def seconds_of(run: Pass) -> float:
    """The median CPU time of a few passes."""
    times: list[float] = []
    while len(times) < ROUNDS and sum(times) < ENOUGH:
        began = time.process_time()
        run()
        times.append(time.process_time() - began)
    return sorted(times)[len(times) // 2]


def measure(cases: Sequence[Case], *, most: int | None = None) -> list[Growth]:
    """Every case at its sizes, or at the `most` smallest of them; the pass for memory also warms up."""
    found = []
    for case in cases:
        sizes = list(case.sizes[:most])
        seconds, peaks = [], []
        for size in sizes:
            run = case.make(size)
            run()
            peaks.append(peak_of(case, run))
            seconds.append(seconds_of(run))
            print(f"{case.key}, {size:,}: {seconds[-1]:.3g} s, {peaks[-1] / 1e6:.1f} MB", file=sys.stderr, flush=True)
        found.append(Growth(what=case.what, name=case.name, sizes=sizes, seconds=seconds, bytes=peaks))
    return found


def base_pass(settings: dict[str, int]) -> dict[str, Any]:
    """One pass of Transformer base: what the page carries to WMT."""
    system = system_of(
        "transformer",
        width=settings["width"],
        vocabulary=settings["vocabulary"],
        layers=settings["layers"],
        heads=settings["heads"],
        inner=4,
    )
    tokens, length = settings["tokens"], settings["length"]
    run = training(system, tokens=tokens, length=length, vocabulary=settings["vocabulary"])
    run()
    parameters = sum(parameter.numel() for parameter in system.parameters())
    return {**settings, "parameters": parameters, "seconds": seconds_of(run), "bytes": peak_bytes(run)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="three sizes of each, printed only")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    began = time.monotonic()
    measures = [asdict(growth) for growth in measure(CASES, most=3 if arguments.quick else None)]
    base = base_pass({**BASE, "layers": 1, "tokens": 64} if arguments.quick else BASE)
    minutes = round((time.monotonic() - began) / 60, 1)
    record = {"machine": machine(), "minutes": minutes, "tokens": TOKENS, "base": base, "measures": measures}
    if arguments.quick:
        print(json.dumps(record, indent=1))
        return
    FIGURES.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    write_page(record, DOCS)


if __name__ == "__main__":
    main()
