"""What the drivers share. They run in the environments of the peers, where there is no regard.

A driver prints one JSON object a line: figures, as they come.
"""

import json
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

PAD, START, END = 0, 2, 3
LONGEST = 100
"""Tokens of an output with natural ends, at most."""

ENOUGH, OFTEN = 1.0, 7
"""Seconds that a measurement takes at least, for which it is done again; but not more often than so."""

Ids = list[int]


@dataclass(frozen=True)
class Setting:
    """How sentences are decoded, `batch` at once: with `natural` ends, `forced` to so many steps, or with natural ends
    and a search that goes on until its result is `exact`."""

    ends: str
    batch: int
    beam: int
    steps: int
    sentences: int

    @property
    def key(self) -> str:
        return f"{self.ends} batch {self.batch} beam {self.beam}"


def read_settings(text: str) -> list[Setting]:
    return [Setting(**one) for one in json.loads(text)]


def tell(**figures: object) -> None:
    print(json.dumps(figures), flush=True)


def read_pairs(path: str) -> list[tuple[Ids, Ids]]:
    """Ids of both sides, without ends."""
    rows = json.loads(Path(path).read_text())
    return list(zip(rows["source"], rows["target"], strict=True))


def training_batches(pairs: Sequence[tuple[Ids, Ids]], tokens: int, seed: int) -> list[list[tuple[Ids, Ids]]]:
    """Alike lengths together, `tokens` target tokens a batch with their padding, batches in random order."""
    draw = random.Random(seed)
    order = sorted(pairs, key=lambda pair: (len(pair[1]), len(pair[0]), draw.random()))
    batches: list[list[tuple[Ids, Ids]]] = [[]]
    for pair in order:
        if (len(batches[-1]) + 1) * (len(pair[1]) + 1) > tokens:
            batches.append([])
        batches[-1].append(pair)
    draw.shuffle(batches)
    return batches


def chosen(rows: Sequence[Ids], count: int) -> list[Ids]:
    """So many sentences, evenly spread over the set, so that a part of it has the lengths of the whole."""
    count = min(count, len(rows))
    return [rows[index * len(rows) // count] for index in range(count)]


def by_length(rows: Sequence[Ids], batch: int) -> list[list[Ids]]:
    """Batches of alike lengths."""
    order = sorted(rows, key=len)
    return [order[start : start + batch] for start in range(0, len(order), batch)]


def length_of(output: Sequence[int]) -> int:
    """Tokens before the first end, which is how all systems are counted: what fills a row up may be the end again."""
    return next((place for place, token in enumerate(output) if token == END), len(output))


def reset_peak() -> None:
    """Let the highest resident memory be counted anew (Linux)."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def memory() -> dict[str, int]:
    """Bytes that are resident, and the most that were since then; 0 where the system does not tell."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        lines = []
    found = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.startswith(("VmHWM", "VmRSS"))}
    return {"peak": found.get("VmHWM", 0), "resident": found.get("VmRSS", 0)}


def measure(setting: Setting, rows: Sequence[Ids], decode: Callable[[Sequence[Ids]], int], **further: object) -> None:
    """Decode some rows to warm up, then all, the median of several times where it is soon over.

    `decode` says how many tokens came out.
    """
    wanted = chosen(rows, setting.sentences)
    decode(chosen(wanted, max(2, min(setting.batch, len(wanted)) // 2)))
    reset_peak()
    taken: list[float] = []
    while not taken or (sum(taken) < ENOUGH and len(taken) < OFTEN):
        began = time.perf_counter()
        tokens = decode(wanted)
        taken.append(time.perf_counter() - began)
    seconds = statistics.median(taken)
    tell(
        setting=setting.key,
        sentences=len(wanted),
        seconds=seconds,
        rate=len(wanted) / seconds,
        tokens=tokens,
        bytes=memory()["peak"],
        **further,
    )
