"""Two threads against one where each sentence is answered before the next: python benchmarks/single_threads.py.

Untrained weights, a vocabulary of 8,000, a beam of 5, outputs of 16 tokens. Six sentences on one thread and on two, in
turns; what counts is the ratio within a pair, and of nine pairs the median. The figures go to
benchmarks/single_threads.json and from there into docs/bulk.md. Needs two idle cores for some minutes.
"""

import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch

from regard.data.batch import source_ids
from regard.files import replace_file
from regard.models import EncoderDecoder
from regard.recipe.build import build_system
from regard.recipe.schema import ModelSection
from regard.search import Request, Search, SearchOptions

ROOT = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- threads -->", "<!-- /threads -->"
PAIRS, SENTENCES, ITEMS, STEPS, VOCABULARY = 9, 6, 14, 16, 8_000
OPTIONS = SearchOptions(beam=5, min_length=STEPS, max_length=STEPS, max_ratio=None, stopping="early")
TRANSFORMER: dict[str, Any] = {"kind": "transformer", "heads": 4}
READER: dict[str, Any] = {"kind": "rnn", "cell": "lstm", "two_way": True}
WRITER: dict[str, Any] = {"kind": "rnn", "cell": "lstm", "wiring": "bahdanau", "score": "additive"}
MODELS: dict[str, dict[str, Any]] = {
    "Transformer 4+4, width 128": {"width": 128, "layers": 4, "encoder": TRANSFORMER, "decoder": TRANSFORMER},
    "LSTM, additive attention, width 128": {"width": 128, "layers": 1, "encoder": READER, "decoder": WRITER},
    "Transformer 4+4, width 256": {"width": 256, "layers": 4, "encoder": TRANSFORMER, "decoder": TRANSFORMER},
    "LSTM, additive attention, width 256": {"width": 256, "layers": 1, "encoder": READER, "decoder": WRITER},
    "Transformer 3+3, width 512": {"width": 512, "layers": 3, "encoder": TRANSFORMER, "decoder": TRANSFORMER},
    "LSTM, additive attention, width 512": {"width": 512, "layers": 1, "encoder": READER, "decoder": WRITER},
}


def answer(system: EncoderDecoder, rows: list[list[int]], threads: int) -> tuple[float, float]:
    """Seconds of the wall and of processors for sentences one by one."""
    torch.set_num_threads(threads)
    wall, processors = time.perf_counter(), time.process_time()
    for number, row in enumerate(rows):
        search = Search(system, capacity=1)
        search.add([Request(id=number, sources={"source": source_ids([row])}, items=ITEMS, options=OPTIONS)])
        while search.busy:
            search.step()
    return time.perf_counter() - wall, time.process_time() - processors


def measured(name: str) -> list[list[float]]:
    """Of each pair the ratios of time on the wall and of processors."""
    torch.manual_seed(0)
    section = ModelSection.model_validate(MODELS[name])
    system = build_system(section, source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY)
    assert isinstance(system, EncoderDecoder)
    system.eval()
    rows = torch.randint(4, VOCABULARY, (SENTENCES, ITEMS)).tolist()
    answer(system, rows, 1)
    answer(system, rows, 2)
    pairs = [(answer(system, rows, 2), answer(system, rows, 1)) for _ in range(PAIRS)]
    return [[both[0] / alone[0], both[1] / alone[1]] for both, alone in pairs]


def table(figures: dict[str, list[list[float]]]) -> str:
    """Medians, of the wall also the least and the most."""
    rows = ["| one sentence at a time, 2 threads against 1 | wall time | CPU time |", "|---|---|---|"]
    for name, pairs in figures.items():
        walls, processors = zip(*pairs, strict=True)
        wall = f"{statistics.median(walls):.2f} ({min(walls):.2f} to {max(walls):.2f})"
        rows.append(f"| {name} | {wall} | {statistics.median(processors):.2f} |")
    return "\n".join(rows)


def with_table(page: str, figures: dict[str, list[list[float]]]) -> str:
    """The page with the figures between its marks."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n{table(figures)}\n{END}{rest.partition(END)[2]}"


def main() -> None:
    figures = {}
    for name in MODELS:
        figures[name] = measured(name)
        print(table({name: figures[name]}).splitlines()[-1], flush=True)
    replace_file(ROOT / "benchmarks/single_threads.json", (json.dumps(figures, indent=1) + "\n").encode())
    page = ROOT / "docs/bulk.md"
    replace_file(page, with_table(page.read_text(encoding="utf-8"), figures).encode())


if __name__ == "__main__":
    main()
