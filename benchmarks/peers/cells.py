"""What is run: a cell is one program doing one thing; a round runs every cell once."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from peers.shapes import SHAPES

Kind = Literal["start", "limit", "train", "memory", "decode"]
OURS = "regard"
SYSTEMS = (OURS, "transformers", "ctranslate2", "eole", "opennmt", "joeynmt", "yoyodyne")
LABELS = {
    "regard": "regard",
    "transformers": "Transformers (Marian)",
    "ctranslate2": "CTranslate2",
    "eole": "Eole",
    "opennmt": "OpenNMT-py",
    "joeynmt": "JoeyNMT",
    "yoyodyne": "yoyodyne",
}
FORCED = 16
"""Steps of decoding with forced length."""

NATIVE, WORKERS = "native engine", "two workers"
"""Ways of ours beside torch in one process."""

SLOW = ("joeynmt", "yoyodyne")
"""Peers that take so long over a step, having batches of all lengths, that a few steps are enough."""

EXACT = "exact"
"""Natural ends, and a beam search that goes on until nothing better can come. By themselves, regard and Transformers
end it when what runs would be no better than what is written if it ended now."""

TO_THE_LAST = (OURS, "transformers")
"""Who can search so."""

BY_COMMAND = ("eole", "opennmt")
"""Peers that decode by a command, and with a model of their own."""

WITH_TUNED = ("natural batch 64 beam 5", "natural batch 1 beam 5", "forced batch 64 beam 5")
"""Settings in which peers decode with the allocator tuned, too: what measures name, as every setting takes its time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """`tuned`: with the allocator's settings in the environment. `way`: how many processes decode, say."""

    kind: Kind
    system: str
    model: str = ""
    precision: str = "float32"
    tuned: bool = False
    way: str = ""

    @property
    def key(self) -> str:
        parts = (self.kind, self.model, self.system, self.precision, "tuned" if self.tuned else "", self.way)
        return " ".join(part for part in parts if part)

    @property
    def label(self) -> str:
        marks = [
            mark
            for mark in (
                "" if self.precision == "float32" else self.precision,
                "allocator tuned" if self.tuned else "",
                self.way,
            )
            if mark
        ]
        return LABELS[self.system] + (f", {', '.join(marks)}" if marks else "")


def trainings(model: str) -> Iterator[Cell]:
    """Who trains a model. Of the peers, Transformers stands for bfloat16."""
    for precision in ("float32", "bfloat16"):
        yield Cell(kind="train", system=OURS, model=model, precision=precision)
    recurrent = SHAPES[model].family == "rnn"
    if not recurrent:
        yield Cell(kind="train", system="transformers", model=model)
        yield Cell(kind="train", system="transformers", model=model, tuned=True)
        yield Cell(kind="train", system="transformers", model=model, precision="bfloat16", tuned=True)
    for system in ("eole", "opennmt", "joeynmt", *(["yoyodyne"] if recurrent else [])):
        for tuned in (False, True):
            yield Cell(kind="train", system=system, model=model, tuned=tuned)


def memories() -> Iterator[Cell]:
    """Who trains A so long that its memory is that of a training, and not that of its first steps."""
    for precision in ("float32", "bfloat16"):
        yield Cell(kind="memory", system=OURS, model="A", precision=precision)
    yield Cell(kind="memory", system="transformers", model="A")


def decodings(model: str) -> Iterator[Cell]:
    """Who decodes with a model: the same weights for us, Transformers and CTranslate2, their own for the others.

    B is there for the engines that are compared on it; what else decodes it would take too long. The allocator is
    tuned, too, for the peers that a measure names, and for Transformers on B.
    """
    yield Cell(kind="decode", system=OURS, model=model)
    if model == "A":
        yield Cell(kind="decode", system=OURS, model=model, way=WORKERS)
    if SHAPES[model].family == "transformer":
        for tuned in (False, True):
            yield Cell(kind="decode", system="transformers", model=model, tuned=tuned)
        for precision in ("float32", "int8"):
            yield Cell(kind="decode", system="ctranslate2", model=model, precision=precision)
    yield Cell(kind="decode", system=OURS, model=model, precision="int8", way=NATIVE)
    if model != "B":
        for system in BY_COMMAND:
            for tuned in (False, True) if model == "C" else (False,):
                yield Cell(kind="decode", system=system, model=model, tuned=tuned)


def all_cells() -> list[Cell]:
    """In the order of a round: what is compared stands together."""
    cells = [Cell(kind="limit", system=OURS)]
    cells += [Cell(kind="start", system=system) for system in SYSTEMS]
    for model in SHAPES:
        cells += trainings(model)
    cells += memories()
    for model in SHAPES:
        cells += decodings(model)
    return cells


def settings(*, batch: tuple[int, ...], ends: tuple[str, ...], sentences: Mapping[int, int]) -> list[dict[str, object]]:
    """How a cell decodes, one after the other; in batches of one a part of the sentences is enough."""
    return [
        {"ends": end, "batch": one, "beam": beam, "steps": FORCED, "sentences": sentences[one]}
        for end in ends
        for one in batch
        for beam in ((5,) if end == EXACT else (1, 5))
    ]


def settings_of(cell: Cell, sentences: Mapping[int, int]) -> list[dict[str, object]]:
    """How a cell decodes. What has just been trained by a peer does not end by itself: with forced length only."""
    if cell.system in BY_COMMAND:
        found = settings(batch=(64,), ends=("forced",), sentences=sentences)
    else:
        further = cell.model == "A" and cell.system in TO_THE_LAST and not cell.way
        ends = ("natural", "forced", *([EXACT] if further else []))
        found = settings(batch=(64, 1), ends=ends, sentences=sentences)
    return [one for one in found if not cell.tuned or setting_key(one) in WITH_TUNED]


def setting_key(setting: Mapping[str, object]) -> str:
    """Under which name a record has a setting."""
    return f"{setting['ends']} batch {setting['batch']} beam {setting['beam']}"
