"""What follows from a record: medians, spreads, ratios within rounds, and what was aimed at."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from peers.cells import BY_COMMAND, EXACT, NATIVE, OURS, WITH_TUNED, Cell, decodings, trainings

Record = Mapping[str, Any]
Read = Callable[[Mapping[str, Any]], float | None]


@dataclass(frozen=True, slots=True)
class Figure:
    """A value by round; a round that failed has None."""

    values: tuple[float | None, ...]

    @property
    def known(self) -> list[float]:
        return [value for value in self.values if value is not None]

    @property
    def median(self) -> float:
        return statistics.median(self.known)

    @property
    def spread(self) -> float:
        """(Greatest - least) / median."""
        return (max(self.known) - min(self.known)) / self.median

    def __bool__(self) -> bool:
        return bool(self.known)

    def over(self, other: "Figure") -> "Figure":
        """The ratio within each round that both have."""
        pairs = zip(self.values, other.values, strict=False)
        return Figure(tuple(None if a is None or b is None or not b else a / b for a, b in pairs))


def figure(record: Record, cell: Cell, read: Read) -> Figure:
    rounds = record["cells"].get(cell.key, [])
    return Figure(tuple(None if "fault" in one else read(one) for one in rounds))


def fault(record: Record, cell: Cell) -> str:
    """Why a cell has no figures; nothing where it has some."""
    rounds = record["cells"].get(cell.key, [])
    if not rounds:
        return "not run"
    faults = [one["fault"] for one in rounds if "fault" in one]
    return (faults[0].strip().splitlines() or ["failed"])[-1][-160:] if len(faults) == len(rounds) else ""


def rate(result: Mapping[str, Any]) -> float | None:
    return result["rate"]


def held(result: Mapping[str, Any]) -> float | None:
    return result["bytes"]


def at(setting: str, field: str = "rate") -> Read:
    """A figure of decoding with a setting."""
    return lambda result: result["figures"].get(setting, {}).get(field)


def limit(record: Record, model: str, precision: str, name: str = "limit") -> Figure:
    """Target tokens per second that products alone would allow; `order`: in the order of training."""

    def read(result: Mapping[str, Any]) -> float | None:
        found = [one[name] for one in result["limits"] if (one["model"], one["precision"]) == (model, precision)]
        return found[0] if found else None

    return figure(record, Cell(kind="limit", system=OURS), read)


def best(figures: Sequence[Figure]) -> Figure:
    """That with the greatest median."""
    return max((one for one in figures if one), key=lambda one: one.median, default=Figure(()))


def ours(record: Record, model: str, precision: str | None = None) -> Figure:
    """Our training, in the precision that is faster where none is given."""
    own = [cell for cell in trainings(model) if cell.system == OURS and precision in (None, cell.precision)]
    return best([figure(record, cell, rate) for cell in own])


def peers(record: Record, model: str, *, tuned: bool | None = None, precision: str | None = None) -> Figure:
    """The fastest training of a peer."""
    others = [cell for cell in trainings(model) if cell.system != OURS]
    return best(
        [
            figure(record, cell, rate)
            for cell in others
            if tuned in (None, cell.tuned) and precision in (None, cell.precision)
        ]
    )


@dataclass(frozen=True, slots=True)
class Goal:
    """What was aimed at: at least, or with `most` at most; `stretch` is what would be more than enough.

    What has no aim stands there to be compared with what has one.
    """

    name: str
    aim: float | None
    found: Figure
    stretch: float | None = None
    most: bool = False

    @property
    def met(self) -> bool:
        if self.aim is None or not self.found:
            return False
        return self.found.median <= self.aim if self.most else self.found.median >= self.aim


def goals(record: Record) -> list[Goal]:
    """The measures that this project has set itself, for what torch does."""
    return [*training_goals(record), *decoding_goals(record), *memory_goals(record)]


def training_goals(record: Record) -> list[Goal]:
    a, b, c = (ours(record, name) for name in ("A", "B", "C"))
    plain = ours(record, "A", "float32")
    same = peers(record, "B", precision=faster(record, "B"))
    return [
        Goal("training A, best peer at its defaults", 1.5, a.over(peers(record, "A", tuned=False)), 1.8),
        Goal("training A, best peer, allocator tuned", 1.2, a.over(peers(record, "A", tuned=True)), 1.5),
        *(
            Goal(f"training A in float32, best peer{told}", aim, plain.over(peers(record, "A", tuned=tuned)), stretch)
            for told, tuned, aim, stretch in (
                (" at its defaults", False, 1.5, 1.8),
                (", allocator tuned", True, 1.2, 1.5),
            )
        ),
        Goal("training B, best peer at its defaults", 1.3, b.over(peers(record, "B", tuned=False)), 1.6),
        Goal("training C, best peer at its defaults", 2.4, c.over(peers(record, "C", tuned=False)), 3.0),
        Goal("training B, best peer in the same precision", 1.1, b.over(same), 1.3),
        *(
            Goal(
                f"share of the limit of products{told}, training {model}, {precision}",
                aim,
                share(record, model, precision, name),
                stretch,
            )
            for name, told in (("limit", ", each alone"), ("order", " in the order of training"))
            for model, aim, stretch in (("A", 0.70, 0.8), ("B", 0.55, 0.7))
            for precision in ("float32", "bfloat16")
        ),
    ]


def decoding_goals(record: Record) -> list[Goal]:
    def against(model: str, system: str, setting: str, *, tuned: bool) -> Figure:
        mine = Cell(kind="decode", system=OURS, model=model)
        theirs = Cell(kind="decode", system=system, model=model, tuned=tuned)
        return figure(record, mine, at(setting)).over(figure(record, theirs, at(setting)))

    def recurrent(*, tuned: bool) -> Figure:
        return least([against("C", system, "forced batch 64 beam 5", tuned=tuned) for system in BY_COMMAND])

    wanted = [("forced", 64, 2.5, 3.5), ("natural", 64, 3.0, 3.5), (EXACT, 64, 3.0, 3.5)]
    wanted += [("forced", 1, 2.3, 4.0), ("natural", 1, 2.3, 4.0), (EXACT, 1, 2.3, 4.0)]
    told = {"forced": "forced length", "natural": "natural ends", EXACT: "natural ends, searched to the last"}
    return [
        *(
            Goal(
                f"decoding A, batch {size}, beam 5, {told[ends]}, Transformers{', allocator tuned' if tuned else ''}",
                None if tuned else aim,
                against("A", "transformers", f"{ends} batch {size} beam 5", tuned=tuned),
                None if tuned else stretch,
            )
            for ends, size, aim, stretch in wanted
            for tuned in (False, True)
            if not tuned or f"{ends} batch {size} beam 5" in WITH_TUNED
        ),
        Goal("decoding C, batch 64, beam 5, forced, best peer", 2.5, recurrent(tuned=False)),
        Goal("decoding C, batch 64, beam 5, forced, best peer, allocator tuned", None, recurrent(tuned=True)),
    ]


def memory_goals(record: Record) -> list[Goal]:
    """In the precision that is faster, and in float32; a record of older rounds has none of it."""
    marian = figure(record, Cell(kind="memory", system="transformers", model="A"), held)

    def used(precision: str) -> Figure:
        return figure(record, Cell(kind="memory", system=OURS, model="A", precision=precision), held).over(marian)

    return [
        Goal("memory of training A, Transformers", 0.8, used(faster(record, "A")), most=True),
        Goal("memory of training A in float32, Transformers", 0.8, used("float32"), most=True),
    ]


def engine_goals(record: Record) -> list[Goal]:
    """The measures of the native engine, all with natural ends."""

    def native(model: str, other: Cell, batch: int, beam: int) -> Figure:
        mine = Cell(kind="decode", system=OURS, model=model, precision="int8", way=NATIVE)
        setting = at(f"natural batch {batch} beam {beam}")
        return figure(record, mine, setting).over(figure(record, other, setting))

    wanted = (("A", 64, 2.0, 2.5), ("B", 64, 1.25, 1.5), ("A", 1, 3.0, 4.0), ("B", 1, 2.5, 3.0))
    theirs = {model: Cell(kind="decode", system="ctranslate2", model=model, precision="int8") for model in ("A", "B")}
    torch = Cell(kind="decode", system=OURS, model="C")
    return [
        *(
            Goal(
                f"{model}, batch {batch}, beam {beam}, CTranslate2 int8",
                aim,
                native(model, theirs[model], batch, beam),
                stretch,
            )
            for model, batch, aim, stretch in wanted
            for beam in (5, 1)
        ),
        Goal("C, batch 64, beam 5, torch", 5.0, native("C", torch, 64, 5)),
        Goal("C, batch 1, beam 5, torch", 10.0, native("C", torch, 1, 5)),
    ]


def least(figures: Sequence[Figure]) -> Figure:
    """That with the smallest median: the ratio to the strongest."""
    return min((one for one in figures if one), key=lambda one: one.median, default=Figure(()))


def faster(record: Record, model: str) -> str:
    """The precision in which our training of a model is faster."""
    known = {name: ours(record, model, name) for name in ("float32", "bfloat16")}
    return max((name for name in known if known[name]), key=lambda name: known[name].median, default="float32")


def share(record: Record, model: str, precision: str, name: str) -> Figure:
    """Of what products alone would allow in a precision."""
    return ours(record, model, precision).over(limit(record, model, precision, name))


def decoding_settings(record: Record, model: str) -> list[str]:
    """All settings that anyone has decoded a model with, in one order."""
    found = {
        setting
        for cell in decodings(model)
        for one in record["cells"].get(cell.key, [])
        for setting in one.get("figures", {})
    }
    order = [
        f"{ends} batch {size} beam {beam}"
        for ends in ("natural", EXACT, "forced")
        for size in (64, 1)
        for beam in (1, 5)
    ]
    return [setting for setting in order if setting in found]
