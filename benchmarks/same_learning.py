"""Whether what makes training fast changes what is learned: one training in several ways, their losses side by side.

    python benchmarks/same_learning.py            about an hour on two cores; goes on where it stopped
    python benchmarks/same_learning.py --page     no training: write the table of docs/training.md again

Model A of benchmarks/speed.py on Multi30k, English to German, judged on validation data. Each way drops numbers of its
own, so that it differs from the plain one as another seed would: how much that is, two seeds of the plain way tell.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from peers import configs
from peers.corpus import Corpus, make_corpus
from peers.logs import records_of
from peers.shapes import SHAPES

from regard.files import replace_file
from regard.metrics.spread import spread

ROOT = Path(__file__).resolve().parent.parent
FIGURES, PAGE = ROOT / "benchmarks/same_learning.json", ROOT / "docs/training.md"
BEGIN, END = "<!-- ways -->", "<!-- /ways -->"
STEPS, SEEDS = 500, (1, 2, 3, 4, 5)
PLAIN = "torch's kernels, single precision"
WAYS: dict[str, tuple[dict[str, str], dict[str, object]]] = {
    PLAIN: ({"REGARD_KERNELS": "off"}, {"lanes": 1, "precision": "float32"}),
    "native kernels": ({}, {"lanes": 1, "precision": "float32"}),
    "native kernels, two lanes": ({}, {"lanes": 2, "precision": "float32"}),
    "native kernels, two lanes, half precision": ({}, {"lanes": 2, "precision": "bfloat16"}),
}
"""What is in the environment, and in the section `training` of the recipe."""


def train(way: str, seed: int, corpus: Corpus, folder: Path) -> dict[str, Any]:
    """Losses by step, loss and BLEU on validation data."""
    environment, settings = WAYS[way]
    recipe: dict[str, Any] = configs.regard_recipe(
        SHAPES["A"], corpus, folder / "run", steps=STEPS, rate=0.002, test="valid"
    )
    recipe["seed"] = seed
    recipe["data"]["valid"] = list(recipe["data"]["test"])  # YAML would write a second name of one list
    recipe["search"] = {"beam": 5, "max_length": 100}
    recipe["training"] |= settings
    folder.mkdir(parents=True, exist_ok=True)
    path = configs.write_config(recipe, folder / "recipe.yaml")
    command = [sys.executable, "-m", "regard", "train", str(path), "--overwrite"]
    subprocess.run(command, check=True, env={**os.environ, **environment})
    log = list(records_of((folder / "run/log.jsonl").read_text(encoding="utf-8")))
    steps = [one for one in log if one.get("event") == "step"]
    metrics = json.loads((folder / "run/metrics.json").read_text(encoding="utf-8"))["metrics"]
    return {
        "losses": {str(one["step"]): one["loss"] for one in steps},
        "validation": next(one["loss"] for one in reversed(log) if one.get("event") == "validation"),
        "BLEU": metrics["BLEU"]["value"],
    }


def apart(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """√ of the mean square of what lies between two curves, after the first tenth."""
    steps = [step for step in one if int(step) > STEPS // 10]
    return math.sqrt(statistics.mean((one[step] - other[step]) ** 2 for step in steps))


def of_seeds(runs: Sequence[Mapping[str, Any]], name: str) -> str:
    values = [float(run[name]) for run in runs]
    return f"{statistics.mean(values):.{3 if name == 'validation' else 1}f}"


def against(runs: Sequence[Mapping[str, Any]], plain: Sequence[Mapping[str, Any]], name: str) -> str:
    """The mean of what lies between runs with the same seed, with its interval."""
    found = spread([one[name] - two[name] for one, two in zip(runs, plain, strict=True)])
    digits = 3 if name == "validation" else 1
    return f"{found.mean:+.{digits}f}" + ("" if found.reach is None else f" ± {found.reach:.{digits}f}")


def table(record: Mapping[str, Any]) -> str:
    plain = record["ways"][PLAIN]
    seeds = apart(plain[0]["losses"], plain[1]["losses"])
    lines = [
        "Measured by `python benchmarks/same_learning.py`: model A of [performance.md](performance.md), "
        f"{record['steps']} steps, {len(plain)} seeds. Two seeds of the plain way lie {seeds:.3f} apart (√ of the mean "
        "square of what is between their losses, step by step), and their BLEU "
        f"{abs(plain[0]['BLEU'] - plain[1]['BLEU']):.1f}; ± is the 95 % interval of a mean over seeds (Student's t).",
        "",
        "| way | losses apart from the plain way's with the same seed | validation loss | against the plain way | "
        "validation BLEU | against the plain way |",
        "|---|---|---|---|---|---|",
    ]
    for way, runs in record["ways"].items():
        pairs = zip(runs, plain, strict=True)
        between = "" if way == PLAIN else ", ".join(f"{apart(one['losses'], two['losses']):.3f}" for one, two in pairs)
        cells = []
        for name in ("validation", "BLEU"):
            cells += [of_seeds(runs, name), "" if way == PLAIN else against(runs, plain, name)]
        lines.append(f"| {way} | {between} | {' | '.join(cells)} |")
    return "\n".join(lines)


def write_page(record: Mapping[str, Any], page: Path = PAGE) -> None:
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    replace_file(page, f"{before}{BEGIN}\n{table(record)}\n{END}{after}".encode())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / "runs/bench", help="for data and runs")
    parser.add_argument("--page", action="store_true", help="train nothing")
    options = parser.parse_args()
    record: dict[str, Any] = json.loads(FIGURES.read_bytes()) if FIGURES.exists() else {"steps": STEPS, "ways": {}}
    if not options.page:
        folder = options.folder.resolve()
        corpus = make_corpus(folder / "data")
        for seed in SEEDS:
            for number, way in enumerate(WAYS):
                done = record["ways"].setdefault(way, [])
                if len(done) < SEEDS.index(seed) + 1:
                    done.append(train(way, seed, corpus, folder / f"same/{number}-{seed}"))
                    replace_file(FIGURES, (json.dumps(record, indent=1) + "\n").encode())
    write_page(record)


if __name__ == "__main__":
    main()
