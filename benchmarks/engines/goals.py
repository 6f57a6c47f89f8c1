"""What was aimed at for the native engine, and what was found, from a record."""

import statistics
from collections.abc import Iterator, Mapping
from typing import Any

from peers.cells import NATIVE, OURS, Cell
from peers.figures import Figure, Goal, at, engine_goals, figure

Record = Mapping[str, Any]
PLAIN = "natural batch 64 beam 5"


def all_goals(record: Record) -> list[Goal]:
    """Speeds, then what must hold on all runs."""
    return [*engine_goals(record), *even_goals(record), *held_goals(record)]


def share(record: Record, name: str) -> Figure:
    """Of what products of bytes alone would allow."""
    native = Cell(kind="decode", system=OURS, model=name, precision="int8", way=NATIVE)
    limits = Figure(tuple(one.get(name, {}).get("limit") for one in record["limits"]))
    return figure(record, native, at(PLAIN)).over(limits)


def even_goals(record: Record) -> list[Goal]:
    """The share of the limit, and tails of latencies."""
    found = [Goal("B, batch 64, beam 5, share of the limit of int8 products", 0.6, share(record, "B"), 0.75)]
    for name in ("A", "B", "C"):
        told = f"{name}, batch 1, seconds between tokens, p99 / p50"
        found.append(Goal(told, 1.5, tail(record, name, "between"), most=True))
    return found


def latencies(record: Record, name: str, kind: str, key: str) -> Figure:
    """A percentile of a kind of latency in µs, in all rounds that measured this kind."""
    return Figure(tuple(1e6 * one[name][kind][key] for one in record["latencies"] if kind in one.get(name, {})))


def tail(record: Record, name: str, kind: str) -> Figure:
    """p99 / p50."""
    return latencies(record, name, kind, "p99").over(latencies(record, name, kind, "p50"))


def held_goals(record: Record) -> Iterator[Goal]:
    """Agreement with torch on every run: the worst of them, and the mean of what 8 bits cost."""
    held = {name: one["held"] for name, one in record["models"].items() if "held" in one}
    if not held:
        return
    whole = [one for found in held.values() for one in found["float32"]]
    least = min(one["same"] / one["sentences"] for one in whole)
    differences = sum(len(one["differences"]) for one in whole)
    ties = sum(one["ties"] for one in whole)
    yield Goal("32 bits: share of the same outputs, the least of all runs", 0.995, Figure((least,)))
    yield Goal("32 bits: share of other outputs that follow from a near-tie", 1.0, Figure((_part(ties, differences),)))
    furthest = max(one["log_probability"] for one in whole)
    yield Goal("32 bits: log-probabilities, the furthest apart", 1e-4, Figure((furthest,)), most=True)
    small = [found["int8"] for found in held.values()]
    for told, aim, wanted in (("BLEU", 0.15, True), ("percent of accuracy", 0.1, False)):
        losses = [one["loss"] for one in small if (one["metric"] == "BLEU") is wanted]
        if losses:
            loss = Figure((statistics.mean(losses),))
            yield Goal(f"8 bits: loss of {told}, mean of {len(losses)} runs", aim, loss, most=True)
    differing = sum(sum(one["differing"].values()) for found in held.values() for one in found["independence"].values())
    yield Goal("sentences that depend on batch or workers", 0, Figure((float(differing),)), most=True)


def _part(some: int, of: int) -> float:
    return some / of if of else 1.0
