"""The section of docs/results.md about Multi30k, and docs/experiments.md, written from the rows alone."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from published.entries import Value

from multi30k.pictures import NAMES, first_of, ladder, minutes_to, passing
from multi30k.plan import DEFAULT, GOAL, PLAN, Planned
from multi30k.rows import Row, current
from regard.metrics.spread import spread

CURVE: Final = "translation_curve.svg"
LENGTHS: Final = "translation_by_length.svg"

INTRODUCTION: Final = """\
## Translation of Multi30k

29,000 pairs to learn from, 1,014 to choose on, and the 1,000 of test_2016_flickr, which each finished training reads
once. The recipes are in [recipes/multi30k](../recipes/multi30k); `make results-translation` trains them all. BLEU is
sacreBLEU's on the corpus' lower-cased and split text (`-tok none`), as the published figures are; *raw* is cased text
as people write it with sacreBLEU's own tokens (13a), which compares with no figure of the former kind. Minutes are of
the wall, from start to judged test set, or those that the processors were busy where that is less, because a training
on one thread stood beside other programs. What was tried on the way is in [experiments.md](experiments.md), all of it
chosen on validation data.
"""


@dataclass(frozen=True, slots=True)
class Standing:
    """A recipe, its finished trainings with the whole of its time, and whether it is what was asked for."""

    planned: Planned
    rows: tuple[Row, ...]

    @property
    def values(self) -> list[float]:
        return [value for row in self.rows if (value := row.bleu) is not None]

    @property
    def met(self) -> bool | None:
        """None where nothing is asked, or where not all seeds are trained."""
        if self.planned.least is None or len(self.values) < self.planned.seeds:
            return None
        in_time = self.planned.limit is None or all(row.cost.alone <= self.planned.limit for row in self.rows)
        return in_time and sum(self.values) / len(self.values) >= self.planned.least

    @property
    def asked(self) -> str:
        """`≥ 40.3 in 90 minutes, mean of 3`."""
        planned = self.planned
        if planned.least is None:
            return "" if planned.stretch is None else f"({planned.stretch:g})"
        within = "" if planned.limit is None else f" in {planned.limit:g} minutes"
        mean = f", mean of {planned.seeds}" if planned.seeds > 1 else ""
        stretch = "" if planned.stretch is None else f" ({planned.stretch:g})"
        return f"≥ {planned.least:g}{within}{mean}{stretch}"

    @property
    def verdict(self) -> str:
        if self.planned.least is None:
            return ""
        if self.met is None:
            return f"{len(self.values)} of {self.planned.seeds} trained"
        return "yes" if self.met else "**no**"


def standings(rows: Sequence[Row]) -> list[Standing]:
    """All recipes of the plan; trainings of other lengths than the recipe's stand in the list of runs only."""
    finished = [row for row in current(rows) if row.asked_minutes is None]
    return [Standing(one, tuple(row for row in finished if row.recipe == one.recipe)) for one in PLAN]


def section(rows: Sequence[Row]) -> str:
    """What stands in docs/results.md."""
    parts = [INTRODUCTION, summary_table(rows), told_times(rows)]
    if rung_table(rows):
        parts += ["### The ladder: BLEU by length of the source\n", f"![BLEU by length of the source]({LENGTHS})\n"]
        parts.append(rung_table(rows))
    parts += ["### Every training\n", run_table(rows), signatures(rows)]
    return "\n".join(part for part in parts if part)


def summary_table(rows: Sequence[Row]) -> str:
    heads = ["recipe", "what it is", "BLEU", "chrF", "minutes", "published", "asked for (stretch)", "met"]
    lines = [_row(heads), _row("---:" if head == "minutes" else "---" for head in heads)]
    for one in standings(rows):
        planned = one.planned
        link = f"[{planned.recipe}](../recipes/multi30k/{planned.recipe}.yaml)"
        figure = planned.published
        told = "" if figure is None else f"{figure.value:.2f} ({figure.source})"
        cells = [link, planned.what, "not measured yet", "", "", told, one.asked, one.verdict]
        if one.values:
            minutes = max(row.cost.alone for row in one.rows)
            cells[2:5] = [_scores(one.rows, "BLEU"), _scores(one.rows, "chrF"), f"{minutes:.0f}"]
        lines.append(_row(cells))
    return "\n".join(lines) + "\n"


def _scores(rows: Sequence[Row], name: str) -> str:
    """A value with its bootstrap interval, or the mean over seeds with Student's."""
    found = [row.test[name] for row in rows if name in row.test and row.test[name].value is not None]
    if len(found) == 1:
        return str(found[0])
    values = [one.value for one in found if one.value is not None]
    if not values:
        return ""
    each = ", ".join(f"{value:.2f}" for value in values)
    return f"{spread(values)} ({each})" if name == "BLEU" else f"{spread(values)}"


def told_times(rows: Sequence[Row]) -> str:
    """The curve in words, and the picture of it."""
    own = first_of(rows, DEFAULT)
    if own is None or not own.curve:
        return ""
    goal, passed = minutes_to(own.curve, GOAL), passing(rows)
    lines = [
        "### BLEU against minutes\n",
        f"![BLEU against minutes of the default recipe]({CURVE})\n",
        f"Greedy outputs of single checkpoints for 500 validation sentences, {DEFAULT}, seed {own.seed}, "
        f"{own.place.threads} thread{'s' * (own.place.threads != 1)}; averaging and the beam come on top at the end. "
        + (
            f"BLEU {GOAL:g} is reached after **{goal:.0f} minutes**."
            if goal is not None
            else f"BLEU {GOAL:g} is not reached; the best is {max(value for _, value in own.curve):.2f}."
        ),
    ]
    if passed is not None:
        best, minutes = passed
        lines.append(
            f"The best that JoeyNMT's settings for small corpora reach in the same time, {best:.2f}, is "
            + (f"passed after **{minutes:.0f} minutes**." if minutes is not None else "**not passed**.")
        )
    return "\n".join(lines) + "\n"


def rung_table(rows: Sequence[Row]) -> str:
    """The figures of the picture."""
    found = ladder(rows)
    if not found:
        return ""
    lines = [
        _row(["source words", "sentences", *(NAMES[name] for name in found)]),
        _row(["---", "---:", *["---"] * len(found)]),
    ]
    for index, bucket in enumerate(next(iter(found.values()))):
        cells = []
        for buckets in found.values():
            own = buckets[index]
            interval = "" if own.low is None or own.high is None else f" [{own.low:.1f}, {own.high:.1f}]"
            cells.append(f"{own.value:.1f}{interval}")
        lines.append(_row([bucket.label, f"{bucket.sentences:,}", *cells]))
    return "\n".join(lines) + "\n"


def run_table(rows: Sequence[Row]) -> str:
    heads = ["recipe", "seed", "BLEU", "validation", "minutes", "CPU minutes", "threads", "steps", "epochs", "commit"]
    lines = [
        _row(heads),
        _row("---" if head in ("recipe", "BLEU", "validation", "commit") else "---:" for head in heads),
    ]
    now = current(rows)
    for row in rows:
        if row.experiment:
            continue
        limit = "" if row.asked_minutes is None else f" ({row.asked_minutes:g} minutes)"
        limit += "" if row in now else " (earlier settings)"
        cost, place = row.cost, row.place
        cells = [row.recipe + limit, str(row.seed), _value(row.test), _value(row.validation)]
        cells += [f"{cost.minutes:.0f}", f"{cost.cpu_minutes:.0f}", str(place.threads), f"{cost.steps:,}"]
        lines.append(_row([*cells, str(cost.epochs), _commit(row)]))
    return "\n".join(lines) + "\n"


def signatures(rows: Sequence[Row]) -> str:
    """Of BLEU, and what was computed with what."""
    finished = [row for row in rows if row.test]
    told = sorted({row.test["BLEU"].signature for row in finished if "BLEU" in row.test})
    machines = sorted(
        {
            f"{row.place.machine}, torch {row.place.versions['torch']}, Python {row.place.versions['python']}, "
            f"regard {row.place.versions['regard']}"
            for row in finished
        }
    )
    lines = [f"Signature: `{one}`\n" for one in told] + [f"Machine: {one}\n" for one in machines]
    return "\n".join(lines)


def experiments(rows: Sequence[Row]) -> str:
    """docs/experiments.md: everything that was tried, with its number, best first within a recipe."""
    lines = [
        "# Experiments\n",
        "What was tried on Multi30k, failures too. Written by `benchmarks/translation.py`: each run with",
        "`--experiment` adds a row. The number is BLEU on validation data with the search of the recipe; the test set",
        "is not read. *Against* is the difference from the unchanged recipe with the same seed and time, where that is",
        "measured; one training each, so less than about half a point means little.\n",
    ]
    tried = [row for row in rows if row.experiment]
    if not tried:
        lines.append("Nothing is measured yet.\n")
    for recipe in dict.fromkeys(row.recipe for row in tried):
        lines += [f"## {recipe}\n", _row(["what was changed", "BLEU", "against", "minutes", "steps", "seed", "commit"])]
        lines.append(_row(["---", "---", "---:", "---:", "---:", "---:", "---"]))
        own = [row for row in tried if row.recipe == recipe]
        for row in sorted(own, key=lambda one: -(_validation(one) or 0.0)):
            settings = f" (`{' '.join(row.settings)}`)" if row.settings else ""
            cells = [row.experiment + settings, _value(row.validation), _against(row, rows)]
            cells += [f"{row.cost.training_minutes:.0f}", f"{row.cost.steps:,}", str(row.seed), _commit(row)]
            lines.append(_row(cells))
        lines.append("")
    return "\n".join(lines)


def _against(row: Row, rows: Iterable[Row]) -> str:
    """The difference from the same training without changes, an experiment or a finished one."""
    base = next(
        (
            one
            for one in rows
            if not one.settings
            and (one.recipe, one.recipe_hash, one.seed) == (row.recipe, row.recipe_hash, row.seed)
            and one.asked_minutes == row.asked_minutes
        ),
        None,
    )
    own, other = _validation(row), None if base is None else _validation(base)
    return "" if own is None or other is None or base is row else f"{own - other:+.2f}"


def _validation(row: Row) -> float | None:
    return row.validation["BLEU"].value if "BLEU" in row.validation else None


def result_line(rows: Sequence[Row], recipe: str) -> str | None:
    """What stands in the head of a recipe; None where it is not measured."""
    standing = next(one for one in standings(rows) if one.planned.recipe == recipe)
    if not standing.values:
        return None
    row = standing.rows[-1]
    threads = f"{row.place.threads} thread{'s' * (row.place.threads != 1)}"
    return (
        f"# Result:   BLEU {_scores(standing.rows, 'BLEU')} on test_2016_flickr; {row.parameters:,} parameters, "
        f"{row.cost.steps:,} steps, {row.cost.alone:.0f} minutes on {threads}"
    )


def _value(scores: Mapping[str, Value]) -> str:
    return str(scores["BLEU"]) if "BLEU" in scores else ""


def _commit(row: Row) -> str:
    return ", ".join(one[:8] for one in row.place.commits) + ("" if row.place.clean else " + changes")


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"
