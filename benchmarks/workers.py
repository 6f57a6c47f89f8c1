"""Two workers against one process: tokens per second of training, all settings in turn, several rounds.

    python benchmarks/workers.py [ROUNDS]

What is measured is `regard train` itself, over steps 21 to 40 of its log: a Transformer of width 256 with 3 layers on
each side, the words of the pocket world, 4,096 tokens a batch. Within a round the settings follow each other, so that
what else the machine does strikes all of them; what counts is the ratio within a round, and of rounds the median. The
figures go to benchmarks/workers.json and from there into docs/distributed.md.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from regard.data.pocket import make
from regard.files import replace_file

ROOT = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- workers -->", "<!-- /workers -->"
ROUNDS = 5
SETTINGS = {"1 process, 1 thread": (1, 1), "1 process, 2 threads": (1, 2), "2 workers, 1 thread each": (2, 1)}
RECIPE = (
    "text.unit=word",
    "model.encoder.kind=transformer",
    "model.decoder.kind=transformer",
    "model.width=256",
    "model.layers=3",
    "training.batch_tokens=4096",
    "training.steps=40",
    "training.validate_every=1000",
    "evaluation.resamples=10",
    "evaluation.samples=0",
    "search.max_length=5",
)


def tokens_per_second(pairs: Path, small: Path, workers: int, threads: int) -> float:
    """One training in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = [str(pairs), f"run={folder}/run", f"data.valid={small}", f"data.test={small}", *RECIPE]
        command = [sys.executable, "-m", "regard", "train", *arguments, "--workers", str(workers)]
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.stderr)
        records = [json.loads(line) for line in Path(folder, "run", "log.jsonl").read_text().splitlines()]
        steps = {one["step"]: one["tokens_per_second"] for one in records if one["event"] == "step"}
        return float(steps[40])


def main(rounds: int) -> None:
    figures: dict[str, list[float]] = {name: [] for name in SETTINGS}
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder))
        train, small = Path(folder, "train.tsv"), Path(folder, "small.tsv")
        small.write_text("".join(Path(folder, "valid.tsv").read_text().splitlines(keepends=True)[:20]))
        for number in range(1, rounds + 1):
            for name, (workers, threads) in SETTINGS.items():
                figures[name].append(tokens_per_second(train, small, workers, threads))
            print(f"round {number}: " + ", ".join(f"{values[-1]:,.0f}" for values in figures.values()), flush=True)
    record = {"torch": torch.__version__, "tokens_per_second": figures}
    replace_file(ROOT / "benchmarks/workers.json", (json.dumps(record, indent=1) + "\n").encode())
    page = ROOT / "docs/distributed.md"
    replace_file(page, with_table(page.read_text(encoding="utf-8"), record).encode())
    print(table(record))


def table(record: dict[str, Any]) -> str:
    """Medians, and ratios within rounds to the best setting of one process."""
    figures: dict[str, list[float]] = record["tokens_per_second"]
    alone = [values for name, values in figures.items() if SETTINGS[name][0] == 1]
    best = max(alone, key=statistics.median)
    rows = ["| | tokens/s | of the best single process |", "|---|---|---|"]
    for name, values in figures.items():
        ratio = statistics.median(one / other for one, other in zip(values, best, strict=True))
        rows.append(f"| {name} | {statistics.median(values):,.0f} | {ratio:.2f} |")
    return "\n".join(rows)


def with_table(page: str, record: dict[str, Any]) -> str:
    """The page with the figures between its marks."""
    rounds = len(next(iter(record["tokens_per_second"].values())))
    told = (
        f"A Transformer of width 256 with 3 layers on each side, 4,096 tokens a batch, two cores, torch "
        f"{record['torch']}; medians of {rounds} rounds in turn (`python benchmarks/workers.py`):"
    )
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n{told}\n\n{table(record)}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
