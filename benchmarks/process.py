"""What the settings of regard/process.py are worth: training with and without them, idle and beside another program.

Each figure is the median of five runs in processes of their own, interleaved; ratios are to the plain process.
"""

import os
import statistics
import subprocess
import sys

from regard.process import SPINS

TRAIN = """
import sys, time
sys.path.insert(0, ".")
if sys.argv[1] == "heap":
    from regard.process import keep_heap
    keep_heap()
import torch
from regard.data.batch import make_batch
from regard.recipe.build import build_system
from regard.recipe.schema import ModelSection
torch.manual_seed(0)
system = build_system(ModelSection(), source_vocabulary=600, target_vocabulary=700).train()
optimizer = torch.optim.AdamW(system.parameters())
rows = torch.randint(4, 600, (130, 11)).tolist()
batch = make_batch(rows, rows)
times = []
for _ in range(25):
    began = time.perf_counter()
    optimizer.zero_grad()
    loss = system.loss(batch, smoothing=0.1)
    (loss.sum / loss.count).backward()
    optimizer.step()
    times.append(time.perf_counter() - began)
print(batch.tokens / sorted(times[5:])[10])
"""
BUSY = "while True: pass"
WAYS = {"plain": ({}, "plain"), "short spin": ({"GOMP_SPINCOUNT": SPINS}, "plain")}
WAYS["short spin and heap"] = ({"GOMP_SPINCOUNT": SPINS}, "heap")


def tokens_per_second(way: str) -> float:
    settings, mode = WAYS[way]
    command = [sys.executable, "-c", TRAIN, mode]
    done = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True, check=True)
    return float(done.stdout)


def measure(title: str) -> None:
    figures: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(5):
        for way in WAYS:
            figures[way].append(tokens_per_second(way))
    plain = statistics.median(figures["plain"])
    for way, values in figures.items():
        middle = statistics.median(values)
        print(f"{title:<20} {way:<20} {middle:9,.0f} tokens/s  {middle / plain:5.2f}")


def main() -> None:
    measure("idle")
    with subprocess.Popen([sys.executable, "-c", BUSY]) as busy:
        try:
            measure("beside a busy process")
        finally:
            busy.kill()


if __name__ == "__main__":
    main()
