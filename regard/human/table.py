"""Results as a table that reads well in a terminal of 80 columns."""

import math
from collections.abc import Sequence

from regard.human.results import Results, SystemResult
from regard.metrics.score import Score


def render(results: Results) -> str:
    """Systems, differences, agreement and annotators, each under its heading."""
    parts = [
        f"{results.kind}: {results.answers:,} answers, {results.items:,} items, {len(results.systems)} systems, "
        f"{len(results.annotators)} annotators",
        "",
        *_systems(results.systems),
    ]
    if results.differences:
        parts += ["", *_differences(results)]
    parts += ["", *_agreement(results), "", *_annotators(results)]
    return "\n".join(parts)


def _systems(systems: Sequence[SystemResult]) -> list[str]:
    names = [score.name for score in systems[0].scores]
    compared = systems[0].strength is not None
    head = ["cluster", "system", *names, *(["wins", "losses", "ties", "strength"] if compared else ["items"])]
    rows = []
    for system in systems:
        row = [str(system.cluster), system.name, *(_score(score) for score in system.scores)]
        if system.strength is not None:
            row += [f"{system.wins:,}", f"{system.losses:,}", f"{system.ties:,}", f"{system.strength:+.2f}"]
        else:
            row += [f"{max(score.count for score in system.scores):,}"]
        rows.append(row)
    return _table(head, rows, left={1})


def _differences(results: Results) -> list[str]:
    tests = list(results.differences[0].p)
    head = ["first", "second", "about", "difference", "items", *(f"p {test}" for test in tests)]
    rows = [
        [each.first, each.second, each.about, _number(each.difference, sign=True), f"{each.items:,}",
         *(_probability(p) for p in each.p.values())]
        for each in results.differences
    ]  # fmt: skip
    return _table(head, rows, left={0, 1, 2})


def _agreement(results: Results) -> list[str]:
    rows = [
        ["between", " + ".join(each.annotators) if len(each.annotators) < 3 else "all", each.about, each.measure,
         _number(each.value), f"{each.same:.0%}", f"{each.count:,}"]
        for each in results.between
    ]  # fmt: skip
    rows += [
        [
            "within",
            each.annotators[0],
            each.about,
            each.measure,
            _number(each.value),
            f"{each.same:.0%}",
            f"{each.count:,}",
        ]
        for each in results.within
    ]
    if not rows:
        return ["agreement: nothing was judged twice"]
    return _table(["agreement", "of", "about", "measure", "value", "same", "count"], rows, left={0, 1, 2, 3})


def _annotators(results: Results) -> list[str]:
    rows = [
        [each.name, f"{each.answered:,} of {each.tasks:,}", "–" if each.seconds is None else f"{each.seconds:.1f} s",
         f"{each.hasty:.0%}"]
        for each in results.annotators
    ]  # fmt: skip
    return _table(["annotator", "answered", "median", "hasty"], rows, left={0})


def _table(head: list[str], rows: list[list[str]], left: set[int]) -> list[str]:
    widths = [max(len(row[place]) for row in [head, *rows]) for place in range(len(head))]
    return [
        "  ".join(
            f"{cell:<{width}}" if place in left else f"{cell:>{width}}"
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in [head, *rows]
    ]


def _score(score: Score) -> str:
    interval = "" if score.low is None else f" [{score.low:.2f}, {score.high:.2f}]"
    return _number(score.value) + interval


def _number(value: float, *, sign: bool = False) -> str:
    if not math.isfinite(value):
        return "–"
    return f"{value:+.2f}" if sign else f"{value:.2f}"


def _probability(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"
