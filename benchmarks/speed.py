"""regard beside its peers, on the same cores, the same data and the same segmentation: `make bench`.

    python benchmarks/speed.py                     install what is missing, measure three rounds, write the page
    python benchmarks/speed.py --only regard eole  some systems only
    python benchmarks/speed.py --kinds train       training only (start, limit, train, decode)
    python benchmarks/speed.py --quick             one round of a few steps, into runs/bench: does everything work?
    python benchmarks/speed.py --page              measure nothing, write docs/performance.md from benchmarks/speed.json

A round runs every cell (one program doing one thing) once, one after the other, so that what else the machine does
strikes all alike; figures are medians over rounds, and ratios are taken within a round. Results are kept after every
cell: a benchmark that was stopped goes on. Needs REGARD_DATA with mt/multi30k, about 5 GB of disk, and idle cores.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from peers import configs
from peers.cells import OURS, SYSTEMS, Cell, all_cells
from peers.corpus import make_corpus, train_recipe
from peers.driving import Bench, drive
from peers.install import SHARED, install_all
from peers.page import write_pages
from peers.processes import Failed
from peers.record import Record, begin, is_done, keep, machine, note_peers, put
from peers.shapes import SHAPES

ROOT = Path(__file__).resolve().parent.parent
ROUNDS = 3
STEPS = {"A": 60, "B": 40, "C": 40}
LEARNING = {"A": 800, "B": 250, "C": 250}
"""Steps of the models that are decoded with: enough to end sentences where they end."""

SENTENCES = {64: 1000, 1: 100}
LIMIT = 3600.0
"""Seconds that one program may take."""

FEW_SENTENCES = {64: 8, 1: 2}


def bench_of(options: argparse.Namespace) -> Bench:
    options.folder.mkdir(parents=True, exist_ok=True)
    return Bench(
        home=options.folder,
        folder=options.folder / ("quick" if options.quick else "full"),
        corpus=make_corpus(options.folder / "data"),
        threads=options.threads,
        steps=dict.fromkeys(STEPS, configs.REPORT) if options.quick else STEPS,
        sentences=FEW_SENTENCES if options.quick else SENTENCES,
        limit=LIMIT,
        quick=options.quick,
    )


def train_models(bench: Bench, models: Sequence[str], record: Record) -> None:
    """Our models for decoding, and what becomes of them in the layouts of others."""
    for name in models:
        folder = bench.model(name)
        if not (folder / "done").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            print(f"training model {name} for decoding", flush=True)
            steps = 2 if bench.quick else LEARNING[name]
            test = "few" if bench.quick else "test"
            recipe = configs.regard_recipe(SHAPES[name], bench.corpus, folder / "run", steps=steps, test=test)
            train_recipe(recipe, folder / "recipe.yaml")
            if SHAPES[name].family == "transformer":
                for layout in ("huggingface", "ctranslate2"):
                    command = [sys.executable, "-m", "regard", "export", str(folder / "run"), str(folder / layout)]
                    subprocess.run([*command, "--to", layout], check=True)
            (folder / "done").touch()
        record["models"][name] = told_of(folder / "run", name, 2 if bench.quick else LEARNING[name])


def told_of(run: Path, name: str, steps: int) -> dict[str, object]:
    """What the page says of a model that is decoded with."""
    metrics = json.loads((run / "metrics.json").read_text(encoding="utf-8"))["metrics"]
    return {"told": SHAPES[name].told, "steps": steps, "BLEU": metrics.get("BLEU", {}).get("value")}


def measure(
    cells: Sequence[Cell], bench: Bench, rounds: int, record: Record, results: Path, *, retry: bool = False
) -> None:
    """All rounds of all cells, as far as they are not done."""
    for number in range(1, rounds + 1):
        for cell in cells:
            if is_done(record, cell.key, number, retry=retry):
                continue
            fault = record["peers"].get(cell.system, {}).get("fault")
            began = time.perf_counter()
            try:
                result = {"fault": f"does not install: {fault}"} if fault else drive(cell, bench)
            except (Failed, ValueError, OSError) as error:
                result = {"fault": str(error)}
            put(record, cell.key, number, result)
            keep(record, results)
            told = str(result.get("fault", "")).splitlines()[-1:] or [f"{time.perf_counter() - began:.0f} s"]
            print(f"round {number}, {cell.key}: {told[0][-200:]}", flush=True)


def settings_of(options: argparse.Namespace, bench: Bench) -> dict[str, object]:
    """What results must have in common to stand in one record."""
    source, target = bench.corpus.lengths
    return {
        "machine": machine(),
        "torch": torch.__version__,
        "shared": list(SHARED),
        "threads": options.threads,
        "steps": dict(bench.steps),
        "sentences": {str(key): value for key, value in bench.sentences.items()},
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
    parser.add_argument("--kinds", nargs="+", choices=("start", "limit", "train", "decode"), help="what is measured")
    parser.add_argument("--models", nargs="+", choices=tuple(SHAPES), default=tuple(SHAPES), help="A, B, C")
    parser.add_argument("--quick", action="store_true", help="a few steps, to see that everything works")
    parser.add_argument("--again", action="store_true", help="begin anew, whatever there is")
    parser.add_argument("--retry", action="store_true", help="run again what has failed")
    parser.add_argument("--page", action="store_true", help="only write the page again")
    options = parser.parse_args()
    options.rounds = options.rounds or (1 if options.quick else ROUNDS)
    options.folder = options.folder.resolve()
    usual = options.folder / "quick/speed.json" if options.quick else ROOT / "benchmarks/speed.json"
    options.results = (options.results or usual).resolve()
    return options


def main() -> None:
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
    names = [name for name in SYSTEMS if name != OURS and any(cell.system == name for cell in cells)]
    note_peers(record, install_all(names, bench.home, ROOT))
    keep(record, options.results)
    train_models(bench, [name for name in SHAPES if any(c.kind == "decode" and c.model == name for c in cells)], record)
    keep(record, options.results)
    measure(cells, bench, options.rounds, record, options.results, retry=options.retry)
    write_pages(record, pages)
    print(f"the page is {pages / 'performance.md'}")


if __name__ == "__main__":
    main()
