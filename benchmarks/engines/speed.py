"""How fast the native engine is on one run: beside CTranslate2 and torch in turns, and how evenly.

Each program runs in a process of its own, with one setting at a time, by the drivers of `benchmarks/speed.py`.
"""

import json
import os
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from peers.cells import NATIVE, OURS, Cell, settings
from peers.driving import BENCHMARKS, DRIVERS, wider
from peers.logs import records_of
from peers.processes import run

from engines.bare import bare
from regard.data.example import Example
from regard.interchange.export_tokenizer import token_names
from regard.interchange.exporting import export
from regard.models import EncoderDecoder, TransformerDecoder, TransformerEncoder
from regard.run.model import Model

LIMIT = 900.0
"""Seconds that one program may take."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """How much is measured."""

    sentences: dict[int, int] = field(default_factory=lambda: {64: 1000, 1: 50})
    repeats: int = 5
    latencies: int = 200
    seconds: float = 0.5


QUICK = Amount(sentences={64: 16, 1: 4}, repeats=2, latencies=4, seconds=0.0)


@dataclass(frozen=True, slots=True)
class Work:
    """What the programs read of one run."""

    name: str
    run: Path
    folder: Path

    @property
    def engine(self) -> Path:
        return self.folder / "engine8.bin"

    @property
    def whole(self) -> Path:
        """The engine file of 32 bits."""
        return self.folder / "engine32.bin"

    @property
    def pairs(self) -> Path:
        return self.folder / "pairs.json"

    def write(self, model: Model, examples: Sequence[Example]) -> None:
        """Sources as ids, as pieces and as texts; a model for CTranslate2 where there can be one."""
        kept = [one.source for one in examples]
        rows = [list(model.texts.source.encode(source).ids[: model.longest_source]) for source in kept]
        self.pairs.write_text(json.dumps({"source": rows, "target": rows}), encoding="utf-8")
        (self.folder / "source.txt").write_text("".join(f"{one}\n" for one in kept), encoding="utf-8")
        if not is_transformer(model):
            return
        names = token_names(model.texts.source)
        lines = [[names[id_] for id_ in row] for row in rows]
        if any(" ".join(line).split() != line for line in lines):
            raise SystemExit(f"{self.run}: tokens with white space cannot be handed to CTranslate2's driver")
        (self.folder / "pieces.txt").write_text("".join(f"{' '.join(line)}\n" for line in lines), encoding="utf-8")
        export(model, self.folder / "ctranslate2", to="ctranslate2", overwrite=True)

    def cells(self, model: Model) -> list[Cell]:
        """Who decodes, in the order of a round."""
        cells = cells_of(self.name)
        return [cell for cell in cells.values() if cell.system == OURS or is_transformer(model)]

    def command(self, cell: Cell, told: str, threads: int) -> list[str | Path]:
        if cell.way == NATIVE:
            engine = self.engine if cell.precision == "int8" else self.whole
            return [sys.executable, DRIVERS / "native_decoding.py", engine, self.pairs, told, str(threads)]
        if cell.system == OURS:
            return [sys.executable, DRIVERS / "regard_decoding.py", self.run, self.folder / "source.txt", told]
        pieces, exported = self.folder / "pieces.txt", self.folder / "ctranslate2"
        return [sys.executable, DRIVERS / "ctranslate2_decoding.py", exported, pieces, told, "int8", str(threads)]


def cells_of(name: str) -> dict[str, Cell]:
    """Who decodes a model: what is compared stands together."""
    return {
        "native": Cell(kind="decode", system=OURS, model=name, precision="int8", way=NATIVE),
        "ctranslate2": Cell(kind="decode", system="ctranslate2", model=name, precision="int8"),
        "native float32": Cell(kind="decode", system=OURS, model=name, way=NATIVE),
        "torch": Cell(kind="decode", system=OURS, model=name),
    }


def is_transformer(model: Model) -> bool:
    """Whether CTranslate2 is asked for a model."""
    system = model.system
    return (
        isinstance(system, EncoderDecoder)
        and isinstance(system.encoder, TransformerEncoder)
        and isinstance(system.decoder, TransformerDecoder)
    )


def driven(command: Sequence[str | Path], work: Work, *, threads: int, forced: bool = False) -> list[Json]:
    """What a driver told; `forced`: with the instructions that CTranslate2 does not take by itself."""
    ours = {"PYTHONPATH": f"{BENCHMARKS.parent}{os.pathsep}{BENCHMARKS}", **(wider() if forced else {})}
    return list(records_of(run(command, threads=threads, further=ours, limit=LIMIT, folder=work.folder).output))


def turn(work: Work, cells: Sequence[Cell], amount: Amount, *, threads: int) -> dict[str, Json]:
    """One round: for each setting all programs, one after the other."""
    figures: dict[str, Json] = {cell.key: {} for cell in cells}
    for setting in settings(batch=(64, 1), ends=("natural",), sentences=amount.sentences):
        for cell in cells:
            command = work.command(cell, json.dumps([setting]), threads)
            for one in driven(command, work, threads=threads, forced=cell.system != OURS):
                if "setting" in one:
                    figures[cell.key][str(one["setting"])] = one
    return {key: {"figures": found} for key, found in figures.items()}


def latency(work: Work, amount: Amount, *, beam: int) -> Json:
    """Percentiles of seconds at batch 1, on one thread.

    `between` tokens, until the `first` token, and of a `sentence` for each of its tokens. `typical` are times between
    tokens again, of each the median over repeats: what it has of a tail lies in the engine, what times between tokens
    have above it in the machine. `bare` is a loop of the same length that does nothing, at the same time.
    """
    told = [str(number) for number in (beam, amount.latencies, amount.repeats)]
    command: list[str | Path] = [sys.executable, DRIVERS / "native_latency.py", work.engine, work.pairs, *told]
    (found,) = [one for one in driven(command, work, threads=1) if "steps" in one]
    repeats: list[list[list[float]]] = found["steps"]
    sentences = [steps for repeat in repeats for steps in repeat]
    between = percentiles(_later(sentences))
    return {
        "beam": beam,
        "sentences": len(repeats[0]),
        "between": between,
        "typical": percentiles(_later(_medians(repeats))),
        "first": percentiles([steps[0] for steps in sentences]),
        "sentence": percentiles(found["taken"]),
        "bare": percentiles(bare(between["p50"], seconds=4 * amount.seconds)),
    }


def _later(sentences: Sequence[Sequence[float]]) -> list[float]:
    """All steps but the first of each, which has the encoder in it."""
    return [second for steps in sentences for second in steps[1:]]


def _medians(repeats: Sequence[Sequence[Sequence[float]]]) -> list[list[float]]:
    """Of each step of each sentence, over all repeats; a sentence has as many steps in each."""
    return [[statistics.median(step) for step in zip(*same, strict=True)] for same in zip(*repeats, strict=True)]


def percentiles(values: Sequence[float]) -> dict[str, float]:
    if not values:  # no output was longer than a token
        return {"p50": 0.0, "p99": 0.0}
    return {"p50": float(np.percentile(values, 50)), "p99": float(np.percentile(values, 99))}
