"""Time and memory against the length of the sequences, and the exponents with which they grow.

    python benchmarks/complexity.py         measure, then write complexity.json, docs/complexity.md and its picture
    python benchmarks/complexity_page.py    only write page and picture again, from complexity.json

What is measured is one training pass (loss and gradients) over sources and targets of n items each, or a part of it;
for search, one step after a source of n items. One thread is used and its CPU time taken, so that other programs
disturb little and no exponent bends where a second thread sets in. Memory is the peak of what torch allocates during a
pass, as its profiler reports each allocation; a fresh process checks it against the growth of its resident memory.
"""

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # read when torch is loaded: the profiler is to be silent

import torch
from complexity_page import write_page
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from regard.data.batch import make_batch
from regard.models import EncoderDecoder
from regard.nn import Attention, Site, watching
from regard.nn.scores import ScoreName
from regard.recipe.build import build_system
from regard.recipe.schema import ModelSection

HERE = Path(__file__).resolve().parent
FIGURES = HERE / "complexity.json"
DOCS = HERE.parent / "docs"
ROWS, WIDTH, VOCABULARY = 2, 64, 16
SHORTEST = 64
ROUNDS, FEWEST, ENOUGH = 5, 3, 1.5
"""Each pass is timed ROUNDS times; from FEWEST on no longer once it has taken ENOUGH seconds."""

Pass = Callable[[], None]
Side = Mapping[str, object]


class Explicit:
    """Watches every attention, so that its weights are made; keeps none."""

    def watches(self, site: Site) -> bool:
        return site.kind in ("self", "cross")

    def visit(self, site: Site, value: Tensor) -> Tensor:  # noqa: ARG002
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Something whose cost is measured up to a length; `order` is the textbook's."""

    group: str
    name: str
    order: str
    longest: int
    make: Callable[[int], Pass]

    @property
    def key(self) -> str:
        return f"{self.group}: {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What was found for one case; `resident` is the growth of a fresh process at the greatest length."""

    group: str
    name: str
    order: str
    lengths: list[int]
    seconds: list[float]
    bytes: list[int]
    resident: int | None


def path(*, explicit: bool) -> AbstractContextManager[None]:
    """The path that attention takes inside a block."""
    return watching(Explicit()) if explicit else nullcontext()


def rows_of(length: int) -> list[list[int]]:
    """Random tokens; with the mark of the end a target has `length` items."""
    return torch.randint(4, VOCABULARY, (ROWS, length)).tolist()


def system_of(encoder: Side, decoder: Side) -> EncoderDecoder:
    torch.manual_seed(1)
    settings = {"width": WIDTH, "layers": 1, "dropout": 0.0, "encoder": encoder, "decoder": decoder}
    section = ModelSection.model_validate(settings)
    system = build_system(section, source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY)
    assert isinstance(system, EncoderDecoder)
    return system


def training(encoder: Side, decoder: Side, *, explicit: bool = False) -> Callable[[int], Pass]:
    """Loss and gradients of an encoder-decoder."""

    def make(length: int) -> Pass:
        system = system_of(encoder, decoder).train()
        batch = make_batch(rows_of(length), rows_of(length - 1))

        def run() -> None:
            system.zero_grad()
            with path(explicit=explicit):
                loss = system.loss(batch)
            (loss.sum / loss.count).backward()

        return run

    return make


def encoding(*, explicit: bool) -> Callable[[int], Pass]:
    """States of a Transformer encoder, and gradients."""

    def make(length: int) -> Pass:
        system = system_of(TRANSFORMER, TRANSFORMER).train()
        rows = rows_of(length)
        source = make_batch(rows, rows).sources["source"]

        def run() -> None:
            system.zero_grad()
            with path(explicit=explicit):
                memory = system.encoder.encode(source)
            memory.states.sum().backward()

        return run

    return make


def attending(score: ScoreName, *, explicit: bool) -> Callable[[int], Pass]:
    """Attention without projections from n queries to n keys, and gradients: nothing but what grows with n · n."""

    def make(length: int) -> Pass:
        torch.manual_seed(1)
        attention = Attention(
            query_width=WIDTH,
            memory_width=WIDTH,
            score=score,
            projections="none",
            site=Site("decoder", "cross"),
        )
        queries, states = (torch.randn(ROWS, length, WIDTH, requires_grad=True) for _ in range(2))

        def run() -> None:
            attention.zero_grad()
            queries.grad = states.grad = None
            with path(explicit=explicit):
                context = attention.attend(queries, attention.prepare(states), None)
            context.sum().backward()

        return run

    return make


def stepping(encoder: Side, decoder: Side) -> Callable[[int], Pass]:
    """The first step of search, after the source was read."""

    def make(length: int) -> Pass:
        system = system_of(encoder, decoder).eval()
        rows = rows_of(length)
        tokens = torch.full((ROWS, 1), 5)
        with torch.no_grad():
            state = system.start(make_batch(rows, rows).sources)

        def run() -> None:
            with torch.no_grad():
                system.step(tokens, state)

        return run

    return make


RNN = {"kind": "rnn", "two_way": False}
TRANSFORMER = {"kind": "transformer", "heads": 1}
PLAIN = {"kind": "rnn", "wiring": "initial"}
BAHDANAU = {"kind": "rnn", "wiring": "bahdanau"}
LUONG = {"kind": "rnn", "wiring": "luong", "score": "dot", "input_feeding": False}

CASES = [
    Case(group="training", name="GRU, no attention", order="n + m", longest=2048, make=training(RNN, PLAIN)),
    Case(group="training", name="GRU, Bahdanau", order="n · m", longest=2048, make=training(RNN, BAHDANAU)),
    Case(group="training", name="GRU, Luong, fused", order="n · m", longest=2048, make=training(RNN, LUONG)),
    Case(
        group="training",
        name="GRU, Luong, explicit",
        order="n · m",
        longest=2048,
        make=training(RNN, LUONG, explicit=True),
    ),
    Case(
        group="training",
        name="Transformer, fused",
        order="n² + n · m + m²",
        longest=4096,
        make=training(TRANSFORMER, TRANSFORMER),
    ),
    Case(
        group="training",
        name="Transformer, explicit",
        order="n² + n · m + m²",
        longest=4096,
        make=training(TRANSFORMER, TRANSFORMER, explicit=True),
    ),
    Case(group="part", name="Transformer encoder, fused", order="n²", longest=4096, make=encoding(explicit=False)),
    Case(group="part", name="Transformer encoder, explicit", order="n²", longest=4096, make=encoding(explicit=True)),
    Case(group="part", name="dot attention, fused", order="n²", longest=4096, make=attending("dot", explicit=False)),
    Case(group="part", name="dot attention, explicit", order="n²", longest=4096, make=attending("dot", explicit=True)),
    Case(group="part", name="additive attention", order="n²", longest=1024, make=attending("additive", explicit=True)),
    Case(group="step", name="GRU, no attention", order="1", longest=8192, make=stepping(RNN, PLAIN)),
    Case(group="step", name="GRU, Bahdanau", order="n", longest=8192, make=stepping(RNN, BAHDANAU)),
    Case(group="step", name="GRU, Luong, fused", order="n", longest=8192, make=stepping(RNN, LUONG)),
    Case(group="step", name="Transformer, fused", order="n", longest=8192, make=stepping(TRANSFORMER, TRANSFORMER)),
]


def lengths_to(longest: int) -> list[int]:
    """SHORTEST, doubled up to `longest`."""
    return [SHORTEST * 2**power for power in range(int(math.log2(longest / SHORTEST)) + 1)]


def peak_bytes(run: Pass) -> int:
    """The most that torch held at once of what it allocated during a pass."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        run()
    inner = profiler.profiler
    assert inner is not None
    assert inner.kineto_results is not None
    changes = [event for event in inner.kineto_results.events() if event.name() == "[memory]"]
    held = most = 0
    for change in sorted(changes, key=lambda event: event.start_ns()):
        held += change.nbytes()
        most = max(most, held)
    return most


def seconds_of(run: Pass, *, times: int) -> float:
    began = time.process_time()
    for _ in range(times):
        run()
    return (time.process_time() - began) / times


def timed(runs: Mapping[tuple[str, int], Pass]) -> dict[tuple[str, int], float]:
    """The median CPU seconds of each pass; all passes in turn, so that a slow minute falls on all alike."""
    found: dict[tuple[str, int], list[float]] = {place: [] for place in runs}
    for number in range(ROUNDS):
        for place, run in runs.items():
            if number < FEWEST or sum(found[place]) < ENOUGH:
                found[place].append(seconds_of(run, times=10 if place[0].startswith("step") else 1))
    return {place: statistics.median(values) for place, values in found.items()}


def status(field: str) -> int | None:
    """A field of /proc/self/status in bytes; None where there is no such file."""
    path = Path("/proc/self/status")
    if not path.exists():
        return None
    lines = path.read_text(encoding="utf-8").splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:")), None)


def resident_growth(key: str, length: int) -> int | None:
    """By how much a pass raises the highest resident memory of this process, after a short pass to load everything."""
    case = next(case for case in CASES if case.key == key)
    case.make(SHORTEST)()
    run = case.make(length)
    before = status("VmRSS")
    run()
    after = status("VmHWM")
    return None if before is None or after is None else after - before


def in_fresh_process(case: Case) -> int | None:
    command = [sys.executable, str(Path(__file__).resolve()), "--resident", case.key, str(case.longest)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: int | None = json.loads(done.stdout)
    return found


def measure(cases: Sequence[Case], *, resident: bool = True) -> list[Figures]:
    """Memory of every case and length, which also warms up; then the times; then resident memory."""
    runs = {(case.key, length): case.make(length) for case in cases for length in lengths_to(case.longest)}
    peaks = {}
    for (key, length), run in runs.items():
        run()
        peaks[key, length] = 0 if key.startswith("step") else peak_bytes(run)
        print(f"{key}, {length}: {peaks[key, length] / 1e6:.1f} MB", file=sys.stderr)
    times = timed(runs)
    return [
        Figures(
            group=case.group,
            name=case.name,
            order=case.order,
            lengths=lengths_to(case.longest),
            seconds=[times[case.key, length] for length in lengths_to(case.longest)],
            bytes=[peaks[case.key, length] for length in lengths_to(case.longest)],
            resident=in_fresh_process(case) if resident and case.group != "step" else None,
        )
        for case in cases
    ]


def machine() -> str:
    return f"{platform.machine()}, Python {platform.python_version()}, torch {torch.__version__}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--resident", nargs=2, metavar=("CASE", "LENGTH"), help="print the growth of resident memory")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.resident:
        print(json.dumps(resident_growth(arguments.resident[0], int(arguments.resident[1]))))
        return
    began = time.monotonic()
    measures = [asdict(figures) for figures in measure(CASES)]
    minutes = round((time.monotonic() - began) / 60, 1)
    record = {"machine": machine(), "rows": ROWS, "width": WIDTH, "minutes": minutes, "measures": measures}
    FIGURES.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    write_page(record, DOCS)


if __name__ == "__main__":
    main()
