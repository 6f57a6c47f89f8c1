"""Two pictures: BLEU against minutes of the default recipe, and BLEU by source length of the ladder."""

import math
from collections.abc import Sequence
from typing import Final

from published.entries import Bucket
from published.picture import Line, draw

from multi30k.plan import COMPARED, DEFAULT, LADDER, WITHOUT
from multi30k.rows import Row, current
from regard.report import Chart, Series, line_chart

NAMES: Final = {
    "ladder_lstm": "LSTM, no attention",
    "ladder_gru": "GRU, no attention",
    "ladder_bahdanau": "Bahdanau",
    "ladder_luong": "Luong",
    "ladder_transformer": "Transformer",
}
SECOND: Final = "ladder_gru"
"""The second of one colour, which is dashed."""


def first_of(rows: Sequence[Row], recipe: str) -> Row | None:
    """The training of a recipe that stands for it: with the whole of its time, of the lowest seed."""
    found = [row for row in current(rows) if row.recipe == recipe]
    return min(found, key=lambda row: (row.asked_minutes is not None, row.seed), default=None)


def minutes_to(curve: Sequence[tuple[float, float]], value: float) -> float | None:
    """When a curve first has a value."""
    return next((minutes for minutes, reached in curve if reached >= value), None)


def passing(rows: Sequence[Row]) -> tuple[float, float | None] | None:
    """The best that the other settings reach, and the minute in which the default recipe passes it."""
    own, other = first_of(rows, DEFAULT), first_of(rows, COMPARED)
    if own is None or other is None or not own.curve or not other.curve:
        return None
    best = max(value for _, value in other.curve)
    return best, minutes_to(own.curve, best)


def curve_picture(rows: Sequence[Row]) -> str | None:
    """Greedy BLEU on validation data against minutes; none where the default recipe is not measured."""
    own, other = first_of(rows, DEFAULT), first_of(rows, COMPARED)
    if own is None or not own.curve:
        return None
    series = [Series(name="default", points=own.curve)]
    if other is not None and other.curve:
        series.append(Series(name="JoeyNMT's settings", points=other.curve))
    passed = passing(rows)
    mark = None if passed is None or passed[1] is None else (passed[1], f"passes {passed[0]:.1f}")
    chart = Chart(title="Validation BLEU", series=series, horizontal="minutes", mark=mark, from_zero=True)
    return line_chart(chart, standalone=True) + "\n"


def ladder(rows: Sequence[Row]) -> dict[str, tuple[Bucket, ...]]:
    """The rungs that are measured, in the buckets of the first of them."""
    found = {name: row.by_length for name in LADDER if (row := first_of(rows, name)) is not None and row.by_length}
    sizes = [[(one.first, one.sentences) for one in buckets] for buckets in found.values()]
    return {name: buckets for (name, buckets), size in zip(found.items(), sizes, strict=True) if size == sizes[0]}


def ladder_picture(rows: Sequence[Row]) -> str | None:
    """BLEU by length of the source; none where nothing of the ladder is measured."""
    found = ladder(rows)
    if not found:
        return None
    colours = dict.fromkeys(WITHOUT, 1) | dict(zip((n for n in LADDER if n not in WITHOUT), (0, 2, 3), strict=True))
    highest = max(bucket.high or bucket.value for buckets in found.values() for bucket in buckets)
    return draw(
        [
            Line(name=NAMES[name], buckets=buckets, colour=colours[name], dashed=name == SECOND)
            for name, buckets in found.items()
        ],
        top=10 * math.ceil(max(highest, 1) / 10),
        title="Multi30k, German to English: BLEU by length of the source",
    )
