"""regard beside its peers, on the same cores, the same data and the same segmentation: `make bench`.

    python benchmarks/speed.py                     install what is missing, measure three rounds, write the page
    python benchmarks/speed.py --prepare           install and train what is decoded with; measure nothing
    python benchmarks/speed.py --minutes 30        end after so long; the same command goes on later
    python benchmarks/speed.py --only regard eole  some systems only
    python benchmarks/speed.py --kinds train       training only (start, limit, train, memory, decode)
    python benchmarks/speed.py --redo 'start *'    measure cells of such names again, in all rounds
    python benchmarks/speed.py --quick             one round of a few steps, into runs/bench: does everything work?
    python benchmarks/speed.py --page              measure nothing, write docs/performance.md from benchmarks/speed.json

A round runs every cell (one program doing one thing) once, one after the other, so that what else the machine does
strikes all alike; figures are medians over rounds, and ratios are taken within a round. After the first round, peers
that are far behind are left out. Results are kept after every cell: a benchmark that was stopped goes on. Needs
REGARD_DATA with mt/multi30k, about 2 GB of disk, and idle cores for an hour.

After a change of code, `--redo` measures again what depends on it, in all rounds. Its patterns (`*`, `?`, `[AB]`) stand
for whole names of cells, which are the keys of `cells` in speed.json: "decode A regard float32". As ratios are taken
within a round, name what ours is compared with, too: `'decode A *'`, not `'decode A regard *'`. What is thrown away is
gone from speed.json when measuring begins, so `--redo` is given once; a benchmark that was stopped goes on without it.
With `--prepare`, nothing is thrown away, and the minutes that it would take are told.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import get_args

import torch
from peers import configs
from peers.cells import OURS, SYSTEMS, Cell, Kind, all_cells
from peers.configs import QUICK_STEPS, Learning, Steps
from peers.corpus import make_corpus, train_recipe
from peers.driving import Bench, drive
from peers.install import SHARED, install_all
from peers.page import write_pages
from peers.processes import Failed
from peers.record import Record, begin, forget, keep, machine, matching, note_peers, put
from peers.rounds import Budget, Turn, expected, minutes_left, turns
from peers.shapes import SHAPES

ROOT = Path(__file__).resolve().parent.parent
ROUNDS = 3
STEPS = {
    "A": Steps(warm=4, timed=12, window=4),
    "B": Steps(warm=2, timed=6, window=2),
    "C": Steps(warm=2, timed=6, window=2),
}
QUICK_LEARNING = 2
LEARNING = {
    "A": Learning(steps=500, rate=0.002),
    "B": Learning(steps=240, rate=0.0007),
    "C": Learning(steps=300, rate=0.001),
}
SENTENCES = {"A": {64: 1000, 1: 50}, "B": {64: 512, 1: 20}, "C": {64: 512, 1: 30}}
"""How many are decoded, in batches of 64 and one by one."""

FEW_SENTENCES = {64: 16, 1: 2}
LIMIT = 900.0
"""Seconds that one program may take."""


def bench_of(options: argparse.Namespace) -> Bench:
    options.folder.mkdir(parents=True, exist_ok=True)
    return Bench(
        home=options.folder,
        folder=options.folder / ("quick" if options.quick else "full"),
        corpus=make_corpus(options.folder / "data"),
        threads=options.threads,
        steps=dict.fromkeys(STEPS, QUICK_STEPS) if options.quick else STEPS,
        sentences=dict.fromkeys(SENTENCES, FEW_SENTENCES) if options.quick else SENTENCES,
        limit=LIMIT,
        quick=options.quick,
    )


def train_models(bench: Bench, models: Sequence[str], record: Record, learn_in: str) -> None:
    """Our models for decoding, and what becomes of them in the layouts of others."""
    for name in models:
        folder = bench.model(name)
        if not (folder / "done").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            print(f"training model {name} for decoding", flush=True)
            recipe = configs.regard_recipe(
                SHAPES[name],
                bench.corpus,
                folder / "run",
                steps=QUICK_LEARNING if bench.quick else LEARNING[name].steps,
                batch=bench.steps[name].batch,
                precision=learn_in,
                rate=LEARNING[name].rate,
                test="few" if bench.quick else "test",
            )
            train_recipe(recipe, folder / "recipe.yaml")
            subprocess.run([sys.executable, "-m", "regard", "prepare", str(folder / "run")], check=True)
            if SHAPES[name].family == "transformer":
                for layout in ("huggingface", "ctranslate2"):
                    command = [sys.executable, "-m", "regard", "export", str(folder / "run"), str(folder / layout)]
                    subprocess.run([*command, "--to", layout], check=True)
            (folder / "done").touch()
        record["models"][name] = told_of(folder / "run", name, QUICK_LEARNING if bench.quick else LEARNING[name].steps)


def told_of(run: Path, name: str, steps: int) -> dict[str, object]:
    """What the page says of a model that is decoded with."""
    metrics = json.loads((run / "metrics.json").read_text(encoding="utf-8"))["metrics"]
    return {"told": SHAPES[name].told, "steps": steps, "BLEU": metrics.get("BLEU", {}).get("value")}


def measure(cells: Sequence[Cell], bench: Bench, record: Record, options: argparse.Namespace) -> None:
    """All rounds of all cells, as far as they are not done and time allows."""
    budget = Budget(options.minutes, time.monotonic())
    tried: set[Turn] = set()
    while left := [turn for turn in turns(record, cells, options.rounds, retry=options.retry) if turn not in tried]:
        turn = left[0]
        tried.add(turn)
        rest = sum(expected(record, one.cell) for one in left) / 60
        if not budget.allows(expected(record, turn.cell)):
            same = "the same command without --redo" if options.redo else "the same command"
            print(f"the time is over; about {rest:.0f} min are left, {same} goes on with them", flush=True)
            return
        began = time.perf_counter()
        result = outcome(turn.cell, bench, record)
        took = time.perf_counter() - began
        put(record, turn.cell.key, turn.number, {**result, "took": took})
        keep(record, options.results)
        told = str(result.get("fault", "")).splitlines()[-1:] or [f"{took:.0f} s"]
        rest = max(0.0, rest - expected(record, turn.cell) / 60)
        print(f"round {turn.number}, {turn.cell.key}: {told[0][-200:]}; about {rest:.0f} min left", flush=True)


def outcome(cell: Cell, bench: Bench, record: Record) -> dict[str, object]:
    """What a cell measured, or why it did not."""
    if fault := record["peers"].get(cell.system, {}).get("fault"):
        return {"fault": f"does not install: {fault}"}
    try:
        return drive(cell, bench)
    except (Failed, ValueError, OSError) as error:
        return {"fault": str(error)}


def settings_of(options: argparse.Namespace, bench: Bench) -> dict[str, object]:
    """What results must have in common to stand in one record."""
    source, target = bench.corpus.lengths
    return {
        "machine": machine(),
        "torch": torch.__version__,
        "shared": list(SHARED),
        "threads": options.threads,
        "steps": {name: asdict(steps) for name, steps in bench.steps.items()},
        "sentences": {name: {str(size): count for size, count in one.items()} for name, one in bench.sentences.items()},
        "batch": configs.BATCH,
        "lengths": [round(source, 3), round(target, 3)],
        "quick": options.quick,
    }


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    parser.add_argument("--folder", type=Path, default=ROOT / "runs/bench", help="for environments, data and models")
    parser.add_argument("--results", type=Path, help="benchmarks/speed.json; in --quick FOLDER/quick/speed.json")
    parser.add_argument("--rounds", type=int, help=f"how often everything is run; {ROUNDS}, in --quick 1")
    parser.add_argument("--threads", type=int, default=cores, help="of every program; as many as cores")
    parser.add_argument("--only", nargs="+", choices=SYSTEMS, metavar="NAME", help=f"of {', '.join(SYSTEMS)}")
    parser.add_argument("--kinds", nargs="+", choices=get_args(Kind), help="what is measured")
    parser.add_argument("--models", nargs="+", choices=tuple(SHAPES), default=tuple(SHAPES), help="A, B, C")
    parser.add_argument("--quick", action="store_true", help="a few steps, to see that everything works")
    parser.add_argument(
        "--learn-in", choices=("float32", "bfloat16"), default="float32", help="precision of the models to decode with"
    )
    parser.add_argument("--prepare", action="store_true", help="only install the peers and train the models")
    parser.add_argument("--minutes", type=float, help="begin nothing that would end later than so")
    parser.add_argument("--again", action="store_true", help="begin anew, whatever there is")
    parser.add_argument("--redo", nargs="+", default=[], metavar="PATTERN", help="measure cells of such names again")
    parser.add_argument("--retry", action="store_true", help="run again what has failed")
    parser.add_argument("--page", action="store_true", help="only write the page again")
    options = parser.parse_args()
    options.rounds = options.rounds or (1 if options.quick else ROUNDS)
    options.folder = options.folder.resolve()
    usual = options.folder / "quick/speed.json" if options.quick else ROOT / "benchmarks/speed.json"
    options.results = (options.results or usual).resolve()
    return options


def main() -> None:
    # Who ends the benchmark ends the program that it runs, too.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    options = read_options()
    pages = options.results.parent if options.quick else ROOT / "docs"
    if options.page:
        write_pages(json.loads(options.results.read_text(encoding="utf-8")), pages)
        return
    bench = bench_of(options)
    record = begin(options.results, settings_of(options, bench), again=options.again)
    cells = [
        cell
        for cell in all_cells()
        if (not options.only or cell.system in options.only)
        and (not options.kinds or cell.kind in options.kinds)
        and (not cell.model or cell.model in options.models)
    ]
    anew = matching([cell.key for cell in cells], options.redo)
    names = [name for name in SYSTEMS if name != OURS and any(cell.system == name for cell in cells)]
    note_peers(record, install_all(names, bench.home, ROOT))
    keep(record, options.results)
    decoded = [name for name in SHAPES if any(c.kind == "decode" and c.model == name for c in cells)]
    train_models(bench, decoded, record, options.learn_in)
    keep(record, options.results)
    forget(record, anew)
    if options.prepare:
        left = minutes_left(record, cells, options.rounds, retry=options.retry)
        print(f"everything is there; the measurements take about {left:.0f} min")
        return
    keep(record, options.results)
    measure(cells, bench, record, options)
    write_pages(record, pages)
    print(f"the page is {pages / 'performance.md'}")


if __name__ == "__main__":
    main()
