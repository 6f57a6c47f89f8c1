"""Writes docs/engine_speed.md from the record of `benchmarks/engine.py`; other records have pages beside it."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from peers.figures import Figure, Goal, at, figure
from peers.page import by_round, shown, table, times

from engines.goals import all_goals, latencies, share, tail
from engines.speed import cells_of
from regard.files import replace_file

Record = Mapping[str, Any]
PAGE = "engine_speed.md"
HEAD = """\
# The native engine, held against torch and CTranslate2

Every figure on this page comes from `python benchmarks/engine.py A=RUN B=RUN ...`, given trained runs. What the engine
is and how it is used: [engine.md](engine.md).

- **Agreement**: the test set of each run, searched by torch and by the engine in 32 bits, greedily and with a beam of
  5. Where outputs differ, the search is traced: it is a near-tie where candidates that decided it lie no further apart
  than 0.0002, for log-probabilities are known within 0.0001. Where those of the same output are further apart, double
  precision settles it: what is told is how far the engine is from it, and how far torch.
- **Quality**: the same set in 8 bits, by the first metric of the run, with the paired bootstrap and approximate
  randomisation.
- **Constraints**: at most 200 sentences of the set, beam 5, in 32 bits: words of the references that must not or must
  come out, the references as a list to choose from, a pattern. *Step by step* is `regard.search` over what the engine
  says. The engine meets states of a constraint in its first search, and knows them in the second.
- **Independence**: sentences alone, 16 and 48 at a time, by one worker and by all, in another order: the same bits.
- **Speed**: natural ends; in each round, for each setting, all programs run one after the other. CTranslate2 has int8
  weights, as many workers of one thread as there are cores (for single sentences one), AVX-512 forced where the
  processor has it, and batches of 16, 32 or 64, whichever is fastest. Figures are medians over rounds, ratios are taken
  within a round.
- **Limit**: products with weights alone, all as fast as the fastest product of bytes of any shape seen on this machine.
- **Latency**: one sentence at a time on one thread, after one pass over all of them. The engine notes the clock after
  each step of its search, in which every hypothesis gets one more token. The **time between tokens** is that from one
  step to the next, of all steps of all sentences; what is aimed at is its tail. The **time to the first token** is that
  from the beginning to the end of the first step: the encoder is in it, and it grows with the source. The **mean of a
  sentence** is the time of a whole search, Python's part included, divided by the tokens of its output and its end:
  short outputs bear what the encoder costs on few tokens, so its tail tells of lengths. Of **typical** times between
  tokens, the median over repeats is taken of each step: what it has of a tail is the engine's, what the others have
  above it the machine's. An **empty loop** of the same length, timed as often right behind it, has the tail that this
  machine gives to everything.
"""


def page_of(results: Path) -> str:
    """The name of the page of a record: engine.json has engine_speed.md, engine_amx.json has engine_speed_amx.md."""
    kind = results.stem.removeprefix("engine")
    return f"{Path(PAGE).stem}{kind}.md"


def write_page(record: Record, folder: Path, name: str = PAGE) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    replace_file(folder / name, page(record).encode())


def page(record: Record) -> str:
    sections = [HEAD, where(record), "## What was aimed at"]
    sections += [table(["", "must", "stretch", "seen", "in rounds", ""], goal_rows(all_goals(record)))]
    sections += ["## Agreement in 32 bits", table(AGREEMENT, agreement_rows(record))]
    sections += ["## Under constraints, in 32 bits", table(CONSTRAINED, constrained_rows(record))]
    sections += ["## Quality in 8 bits", table(QUALITY, quality_rows(record))]
    sections += ["## Independence", table(["", "bits", "searched", "sentences that differ"], independence_rows(record))]
    settings = [f"natural batch {size} beam {beam}" for size in (64, 1) for beam in (1, 5)]
    sections += ["## Speed", SPEED, table(["", *settings, "memory, MB"], speed_rows(record, settings))]
    sections += ["## The limit of int8 products", table(LIMIT, limit_rows(record))]
    sections += ["## Latency at batch 1", table(LATENCY, latency_rows(record))]
    return "\n\n".join(section.strip("\n") for section in sections) + "\n"


AGREEMENT = ["", "beam", "sentences", "same tokens", "other outputs", "of them near-ties", "log-probabilities apart"]
CONSTRAINED = [
    "",
    "what is demanded",
    "same outputs as torch",
    "as step by step",
    "sentences/s, first",
    "again",
    "step by step",
    "torch",
]
QUALITY = ["", "metric", "torch", "8 bits", "difference", "95 %", "p (bootstrap, randomised)", "same outputs"]
SPEED = "Sentences per second; in brackets, how many times as many the native engine decodes in int8."
LIMIT = ["", "million operations a sentence", "fastest product, GOP/s", "limit, sentences/s", "share that is reached"]
LATENCY = ["", "beam", "µs", "p50", "p99", "p99 / p50"]
KINDS = {
    "between": "between tokens",
    "typical": "between tokens, typical",
    "bare": "an empty loop of that length",
    "first": "to the first token",
    "sentence": "a token, mean of a sentence",
}
LABELS = {
    "native": "native engine, int8",
    "ctranslate2": "CTranslate2, int8",
    "native float32": "native engine, float32",
    "torch": "torch, float32",
}


def where(record: Record) -> str:
    about = record["about"]
    machine = about["machine"]
    quick = " **This was a quick trial: none of it is a result.**" if about["quick"] else ""
    told = "; ".join(f"{name}: {one['told']}" for name, one in record["models"].items())
    return (
        f"Measured on {machine['processor']}, {about['threads']} threads on {machine['cores']} cores, "
        f"{machine['system']}, torch {about['torch']}, CTranslate2 {about['ctranslate2']}, kernels {about['kernels']}. "
        f"{told}.{quick}"
    )


def goal_rows(wanted: Sequence[Goal]) -> Iterator[list[str]]:
    for goal in wanted:
        sign = "≤" if goal.most else "≥"
        state = "" if not goal.found else "met" if goal.met else "missed"
        stretch = "" if goal.stretch is None else f"{sign} {goal.stretch:g}"
        seen = f"{goal.found.median:.3g}" if goal.found else "–"
        yield [goal.name, f"{sign} {goal.aim:g}", stretch, seen, by_round(goal.found), state]


def held_of(record: Record) -> Iterator[tuple[str, Mapping[str, Any]]]:
    return ((name, one["held"]) for name, one in record["models"].items() if "held" in one)


def agreement_rows(record: Record) -> Iterator[list[str]]:
    for name, held in held_of(record):
        for one in held["float32"]:
            same, others = one["same"] / one["sentences"], len(one["differences"])
            told = [str(one["beam"]), f"{one['sentences']:,}", f"{100 * same:.2f} %", str(others), str(one["ties"])]
            yield [name, *told, f"{one['log_probability']:.1e}{arbitration(one['apart'])}"]


def arbitration(apart: Sequence[Mapping[str, Any]]) -> str:
    """Of outputs that double precision was asked about."""
    if not apart:
        return ""
    furthest = max(one["torch"] for one in apart)
    return f" (torch {furthest:.1e}; {len(apart)} against double precision)"


def constrained_rows(record: Record) -> Iterator[list[str]]:
    for name, held in held_of(record):
        for one in held.get("constrained", []):
            count, seconds = one["sentences"], one["seconds"]
            same = [f"{one['same'][other]:,} of {count:,}" for other in ("torch", "steps")]
            rates = [f"{count / seconds[way]:,.0f}" for way in ("first", "engine", "steps", "torch")]
            yield [name, one["demand"], *same, *rates]


def quality_rows(record: Record) -> Iterator[list[str]]:
    for name, held in held_of(record):
        one = held["int8"]
        scores = [f"{one['first']:.2f}", f"{one['other']:.2f}", f"{one['difference']:+.2f}"]
        chances = f"{one['p_value']:.2f}, {one['randomised_p_value']:.2f}"
        same = f"{one['same']:,} of {one['count']:,}"
        yield [name, one["metric"], *scores, f"{one['low']:+.2f} … {one['high']:+.2f}", chances, same]


def independence_rows(record: Record) -> Iterator[list[str]]:
    for name, held in held_of(record):
        for bits, one in held["independence"].items():
            for way, count in one["differing"].items():
                yield [name, bits, way, f"{count:,} of {one['sentences']:,}"]


def speed_rows(record: Record, settings: Sequence[str]) -> Iterator[list[str]]:
    for name in record["models"]:
        cells = cells_of(name)
        for told, cell in cells.items():
            if cell.key not in record["cells"]:
                continue
            shown_ = []
            for setting in settings:
                found = figure(record, cell, at(setting))
                ratio = figure(record, cells["native"], at(setting)).over(found)
                shown_.append(shown(found) + (f" ({times(ratio)})" if told != "native" and ratio else ""))
            used = [figure(record, cell, at(setting, "bytes")) for setting in settings]
            most = max((one.median for one in used if one), default=0.0)
            yield [f"{name}, {LABELS[told]}", *shown_, f"{most / 1e6:,.0f}" if most else "–"]


def limit_rows(record: Record) -> Iterator[list[str]]:
    for name in record["models"]:
        rounds = [one[name] for one in record["limits"] if name in one]
        if rounds:
            operations, fastest = (Figure(tuple(one[key] for one in rounds)) for key in ("operations", "fastest"))
            bound = Figure(tuple(one["limit"] for one in rounds))
            told = [f"{operations.median / 1e6:,.1f}", f"{fastest.median / 1e9:,.0f}", shown(bound)]
            yield [name, *told, times(share(record, name))]


def latency_rows(record: Record) -> Iterator[list[str]]:
    for name in record["models"]:
        beams = [str(one[name]["beam"]) for one in record["latencies"] if name in one]
        for kind, told in KINDS.items():
            middle, high = (latencies(record, name, kind, key) for key in ("p50", "p99"))
            if middle:
                yield [name, beams[0], told, shown(middle, 1), shown(high, 1), times(tail(record, name, kind))]
