"""How well `regard estimate` tells time and memory: five recipes, one of them also in half precision, are estimated and
then trained.

    python benchmarks/estimate.py            15 minutes on two idle cores; writes docs/performance_growth.md
    python benchmarks/estimate.py --cpu      CPU seconds on one thread instead of wall time, for a busy machine
    python benchmarks/estimate.py acceptor   these recipes only; of others what was measured last is shown
    python benchmarks/estimate.py --page     only write the table again, from estimate.json

Recipes are those of recipes/, cut to about two minutes each by their number of steps, and trials are
short beside that. Estimate and training run in a fresh
process each, as the commands do, and in the same folder with the same cache.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
FIGURES = HERE / "estimate.json"
PAGE = ROOT / "docs/performance_growth.md"
STEPS = {
    "vaswani2017_tiny": 1200,
    "vaswani2017_tiny:bfloat16": 3000,
    "bahdanau2015": 1500,
    "luong2015_dot": 4000,
    "gpt_tiny": 2500,
    "acceptor": 8000,
}
"""By recipe, and the precision behind a colon where it is another than the recipe's."""

BOUND = 0.2


def overrides(precision: str, steps: int, threads: int) -> list[str]:
    """Settings that cut a recipe short."""
    settings = {"steps": steps, "epochs": "null", "patience": "null", "threads": threads}
    settings |= {"precision": precision} if precision else {}
    return [f"training.{name}={value}" for name, value in settings.items()]


def child(what: str, recipe: str, steps: int, *, seconds: float, cpu: bool, threads: int) -> dict[str, float]:
    """One estimate or one training, in this process: seconds and bytes."""
    if cpu:
        time.perf_counter = time.process_time
    from regard.process import memory_peak, settle

    settle()
    from regard.recipe import load_recipe
    from regard.run.estimating import estimate
    from regard.run.training import train

    name, _, precision = recipe.partition(":")
    settings = [*overrides(precision, steps, threads), f"run=runs/estimate/{name}{precision}"]
    loaded = load_recipe(Path("recipes") / f"{name}.yaml", settings)
    if what == "estimate":
        found = estimate(loaded, seconds=seconds)
        learning = found.training_seconds + found.validations * found.validation_seconds
        parts = {"trial": found.trial_seconds, "learning": learning, "evaluation": found.evaluation_seconds}
        return {"seconds": found.total_seconds, "memory": found.memory, **parts}
    began = time.perf_counter()
    trained = train(loaded, overwrite=True)
    whole, learning = time.perf_counter() - began, trained.outcome.progress.seconds
    return {"seconds": whole, "memory": memory_peak(), "learning": learning}


def run_child(what: str, recipe: str, options: argparse.Namespace) -> dict[str, float]:
    command = [sys.executable, str(Path(__file__).resolve()), "--child", what, recipe, str(options.steps[recipe])]
    command += [
        "--seconds",
        str(options.seconds),
        "--threads",
        str(options.threads),
        *(["--cpu"] if options.cpu else []),
    ]
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": str(options.threads),
        "PYTHONPATH": str(ROOT),
        "REGARD_CACHE": str(options.folder / "cache"),
    }
    done = subprocess.run(command, cwd=options.folder, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(options: argparse.Namespace) -> list[dict[str, Any]]:
    """All recipes, each estimated and trained."""
    sys.path.insert(0, str(HERE))
    from published.training import make_data

    (options.folder / "recipes").mkdir(parents=True, exist_ok=True)
    rows, made = [], set[tuple[str, ...]]()
    for recipe in options.recipes:
        name = recipe.partition(":")[0]
        text = (ROOT / f"recipes/{name}.yaml").read_text(encoding="utf-8")
        (options.folder / f"recipes/{name}.yaml").write_text(text, encoding="utf-8")
        make_data(text, options.folder, made, again=False)
        estimated, trained = (run_child(what, recipe, options) for what in ("estimate", "train"))
        rows.append({"recipe": recipe, "steps": options.steps[recipe], "estimated": estimated, "trained": trained})
        print(told(rows[-1]), rows[-1], flush=True)
    return rows


def with_others(rows: Sequence[dict[str, Any]], about: Mapping[str, Any]) -> list[dict[str, Any]]:
    """These, and of recipes that were not measured now what was measured before in the same way."""
    before: Mapping[str, Any] = json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.exists() else {}
    known = before["rows"] if all(before.get(name) == value for name, value in about.items()) else []
    found = {row["recipe"]: row for row in (*known, *rows)}
    return [found[name] for name in (*STEPS, *(name for name in found if name not in STEPS)) if name in found]


def ratio(row: Mapping[str, Any], what: str) -> float:
    """Of the estimate to what it was."""
    return float(row["estimated"][what] / row["trained"][what])


def told(row: Mapping[str, Any]) -> str:
    """One row of the table."""
    name, _, precision = row["recipe"].partition(":")
    cells = [f"`{name}`{f', {precision}' if precision else ''}", f"{row['steps']:,}"]
    cells.append(f"{row['estimated']['trial']:,.0f} s")
    for what, unit, label in (("seconds", 1.0, "s"), ("memory", 1e6, "MB")):
        cells += [f"{row[side][what] / unit:,.0f} {label}" for side in ("estimated", "trained")]
        cells.append(f"{ratio(row, what) - 1:+.0%}")
    return "| " + " | ".join(cells) + " |"


def table(record: Mapping[str, Any]) -> str:
    """What the page shows."""
    rows: Sequence[Mapping[str, Any]] = record["rows"]
    off = max(abs(ratio(row, what) - 1) for row in rows for what in ("seconds", "memory"))
    kind = "CPU seconds of one thread" if record["cpu"] else f"wall time on {record['threads']} thread(s)"
    lines = [
        f"Measured by `python benchmarks/estimate.py`: {kind}, trials of at most {record['seconds']:g} s, "
        f"{record['machine']}. The estimate that is furthest off is off by {off:.0%}; the bound is {BOUND:.0%}.",
        "",
        "| recipe | steps | trial | time estimated | time taken | off by | memory estimated | memory taken | off by |",
        "|---|---|---|---|---|---|---|---|---|",
        *(told(row) for row in rows),
    ]
    return "\n".join(lines)


def write_page(record: Mapping[str, Any], page: Path = PAGE) -> None:
    """The table between `<!-- figures -->` and `<!-- /figures -->`."""
    before, _, rest = page.read_text(encoding="utf-8").partition("<!-- figures -->")
    _, _, after = rest.partition("<!-- /figures -->")
    text = f"{before}<!-- figures -->\n{table(record)}\n<!-- /figures -->{after}"
    page.write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", nargs="*", default=list(STEPS), help="names of recipes; five if left out")
    parser.add_argument("--folder", type=Path, default=ROOT / "runs/estimate", help="where data and runs are kept")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each trial")
    parser.add_argument("--threads", type=int, default=None, help="of torch; all cores, with --cpu one")
    parser.add_argument("--cpu", action="store_true", help="measure CPU time")
    parser.add_argument("--share", type=float, default=1.0, help="part of the steps, to try this script")
    parser.add_argument("--no-page", action="store_true", help="print only")
    parser.add_argument("--page", action="store_true", help="measure nothing")
    parser.add_argument("--child", nargs=3, metavar=("WHAT", "RECIPE", "STEPS"), help="one measurement, as JSON")
    options = parser.parse_args()
    options.threads = options.threads or (1 if options.cpu else os.cpu_count() or 1)
    if options.child:
        what, recipe, steps = options.child
        found = child(what, recipe, int(steps), seconds=options.seconds, cpu=options.cpu, threads=options.threads)
        print(json.dumps(found))
        return
    if options.page:
        write_page(json.loads(FIGURES.read_text(encoding="utf-8")))
        return
    options.folder = options.folder.resolve()
    options.steps = {name: max(1, round(steps * options.share)) for name, steps in STEPS.items()}
    about = {
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "cpu": options.cpu,
        "threads": options.threads,
        "seconds": options.seconds,
    }
    record = {**about, "rows": with_others(measure(options), about)}
    if options.no_page:
        print(table(record))
        return
    FIGURES.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    write_page(record)


if __name__ == "__main__":
    main()
