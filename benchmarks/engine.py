"""The native engine on trained runs: held against torch, timed beside CTranslate2, torch and the machine's limit.

    python benchmarks/engine.py --train                            train runs, hold all of them, time A, B and C
    python benchmarks/engine.py --train A=RUN                      the same with a run that is there
    python benchmarks/engine.py A=RUN B=RUN C=RUN inflection=RUN   these runs only
    python benchmarks/engine.py ... --set inflection=FILE          another test set than the run's own
    python benchmarks/engine.py ... --kinds held                   agreement only (held, speed)
    python benchmarks/engine.py ... --minutes 30                   begin no round that would end later; goes on later
    python benchmarks/engine.py ... --quick                        a few sentences, into FOLDER: does everything work?
    python benchmarks/engine.py ... --results benchmarks/engine_amx.json   another machine: docs/engine_speed_amx.md
    python benchmarks/engine.py --page                             only write docs/engine_speed.md from the record

A, B and C have the sizes of `benchmarks/speed.py`; others have no speeds to be compared with. Results are kept after
every run and round in benchmarks/engine.json: what was stopped goes on. Needs idle cores and the package ctranslate2.
"""

import argparse
import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from engines.agreement import held, natively, sample
from engines.limit import limit
from engines.page import page_of, write_page
from engines.speed import QUICK, Amount, Work, is_transformer, latency, turn
from engines.training import NAMES, train
from peers.record import Record, keep, machine, put
from peers.shapes import SHAPES

from regard.engine.library import available, kernels_here
from regard.recipe.describe import describe
from regard.run.model import Model

ROOT = Path(__file__).resolve().parent.parent
ROUNDS = 3
FEW = 12
"""Sentences of each run in --quick."""

TRACED = 100
"""Sentences whose trees are counted for the limit."""


def begin(options: argparse.Namespace) -> Record:
    """The record to go on with, or a new one. Other settings than before are not mixed with it."""
    import ctranslate2

    about = {
        "machine": machine(),
        "torch": torch.__version__,
        "ctranslate2": ctranslate2.__version__,
        "kernels": kernels_here()[0],
        "threads": options.threads,
        "quick": options.quick,
    }
    fresh: Record = {"format": 1, "about": about, "models": {}, "cells": {}, "limits": [], "latencies": []}
    if not options.results.exists():
        return fresh
    found: Record = json.loads(options.results.read_text(encoding="utf-8"))
    if found["about"] == about:
        return without(found, options.kinds) if options.again else found
    if not options.again:
        raise SystemExit(
            f"{options.results} has results of other settings; give --again, or another file with --results"
        )
    return fresh


def without(record: Record, kinds: Sequence[str]) -> Record:
    """What is not to be measured again."""
    kept = dict(record)
    if "held" in kinds:
        kept["models"] = {}
    if "speed" in kinds:
        kept |= {"cells": {}, "limits": [], "latencies": []}
    return kept


def hold(runs: Mapping[str, Path], sets: Mapping[str, str], record: Record, options: argparse.Namespace) -> None:
    """Agreement of every run that has none yet."""
    for name, run in runs.items():
        model = Model.load(run)
        section = model.recipe.model
        told = f"{describe(section.encoder)} and {describe(section.decoder)}, {model.parameters:,} parameters"
        one = record["models"].setdefault(name, {"told": told})
        if "held" in one or "held" not in options.kinds:
            continue
        examples = sample(model, [sets[name]] if name in sets else [], FEW if options.quick else options.sentences)
        print(f"{name}: {len(examples):,} sentences against torch", flush=True)
        one["held"] = held(
            model,
            examples,
            options.folder / name,
            workers=options.threads,
            resamples=20 if options.quick else 1000,
        )
        keep(record, options.results)


def race(runs: Mapping[str, Path], sets: Mapping[str, str], record: Record, options: argparse.Namespace) -> None:
    """Rounds of speeds, as far as they are not done and time allows."""
    amount = QUICK if options.quick else Amount()
    began, longest = time.monotonic(), 0.0
    ready = {name: prepared(name, runs[name], sets, options) for name in SHAPES if name in runs}
    for number in range(len(record["limits"]) + 1, options.rounds + 1):
        if options.minutes is not None and time.monotonic() - began + longest > 60 * options.minutes:
            print("the time is over; the same command goes on", flush=True)
            return
        start = time.monotonic()
        limits, latencies = {}, {}
        for name, (work, model, sources) in ready.items():
            print(f"round {number}: {name}", flush=True)
            for key, result in turn(work, work.cells(model), amount, threads=options.threads).items():
                put(record, key, number, result)
            latencies[name] = latency(work, amount, beam=5)
            if is_transformer(model):
                limits[name] = limit(model, sources, threads=options.threads, seconds=amount.seconds)
        record["limits"].append(limits)
        record["latencies"].append(latencies)
        keep(record, options.results)
        longest = max(longest, time.monotonic() - start)


def prepared(
    name: str, run: Path, sets: Mapping[str, str], options: argparse.Namespace
) -> tuple[Work, Model, Sequence[str]]:
    """What the programs read, and some sources for the limit."""
    model = Model.load(run)
    examples = sample(model, [sets[name]] if name in sets else [], FEW if options.quick else options.sentences)
    work = Work(name=name, run=run, folder=options.folder / name)
    natively(model, work.engine, int8=True)
    natively(model, work.whole, int8=False)
    work.write(model, examples)
    count = min(TRACED, len(examples))
    return work, model, [examples[place * len(examples) // count].source for place in range(count)]


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    parser.add_argument("runs", nargs="*", metavar="NAME=RUN", help="trained runs; A, B and C are timed, too")
    parser.add_argument("--train", action="store_true", help="train what is not named; 90 minutes, goes on later")
    parser.add_argument("--set", nargs="+", default=[], metavar="NAME=FILE", help="pairs for a run")
    parser.add_argument("--folder", type=Path, default=ROOT / "runs/engine", help="for engine files and exports")
    parser.add_argument("--results", type=Path, help="benchmarks/engine.json; in --quick FOLDER/engine.json")
    parser.add_argument("--kinds", nargs="+", choices=("held", "speed"), default=("held", "speed"))
    parser.add_argument("--sentences", type=int, help="of each set; all if left out")
    parser.add_argument("--rounds", type=int, help=f"of speeds; {ROUNDS}, in --quick 1")
    parser.add_argument("--threads", type=int, default=cores, help="as many as cores")
    parser.add_argument("--minutes", type=float, help="begin no round that would end later")
    parser.add_argument("--again", action="store_true", help="what --kinds asks for, whatever there is of it")
    parser.add_argument("--quick", action="store_true", help="a few sentences, to see that everything works")
    parser.add_argument("--page", action="store_true", help="only write the page again")
    options = parser.parse_args()
    options.rounds = options.rounds or (1 if options.quick else ROUNDS)
    options.folder = options.folder.resolve()
    usual = options.folder / "engine.json" if options.quick else ROOT / "benchmarks/engine.json"
    options.results = (options.results or usual).resolve()
    return options


def named(given: Sequence[str]) -> dict[str, str]:
    """NAME=VALUE by name."""
    wrong = [one for one in given if not all(one.partition("="))]
    if wrong:
        raise SystemExit(f"{wrong[0]}: must be NAME=PATH, say A=runs/a")
    return {name: value for name, _, value in (one.partition("=") for one in given)}


def main() -> None:
    options = read_options()
    pages = options.folder if options.quick else ROOT / "docs"
    if options.page:
        write_page(json.loads(options.results.read_text(encoding="utf-8")), pages, page_of(options.results))
        return
    if reason := available():
        raise SystemExit(f"the native engine cannot be measured: {reason}")
    runs = {name: Path(run).resolve() for name, run in named(options.runs).items()}
    if options.train:
        runs |= train([name for name in NAMES if name not in runs], options.folder, threads=options.threads)
    if not runs:
        raise SystemExit("name trained runs: A=RUN B=RUN ..., or give --train")
    sets = named(options.set)
    record = begin(options)
    hold(runs, sets, record, options)
    if "speed" in options.kinds:
        race(runs, sets, record, options)
    keep(record, options.results)
    write_page(record, pages, page_of(options.results))
    print(f"the page is {pages / page_of(options.results)}")


if __name__ == "__main__":
    main()
