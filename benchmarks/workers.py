"""Two workers against one process: tokens per second of training, all settings in turn, several rounds.

    python benchmarks/workers.py [ROUNDS]

What is measured is `regard train` itself, over steps 21 to 40 of its log: a Transformer of width 256 with 3 layers on
each side, the words of the pocket world, 4,096 tokens a batch. Within a round the settings follow each other, so that
what else the machine does strikes all of them; what counts is the ratio within a round, and of rounds the median.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from regard.data.pocket import make

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
    alone = [values for name, values in figures.items() if SETTINGS[name][0] == 1]
    best = max(alone, key=statistics.median)
    for name, values in figures.items():
        ratio = statistics.median(one / other for one, other in zip(values, best, strict=True))
        print(f"{name:<26} {statistics.median(values):8,.0f} tokens/s  {ratio:5.2f} of the best single process")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
