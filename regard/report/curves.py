"""Line charts in SVG, drawn by hand: axes with round ticks, a legend, values on hover.

Charts take their colours from the page (or from their own style block where they stand alone), so they are at home in
light and dark.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from regard.report.markup import escape
from regard.report.style import COLOURS, DRAWING
from regard.report.width import display_width

WIDTH, HEIGHT = 440, 260
RIGHT, TOP, BOTTOM = 16, 50, 42

MOST_POINTS = 240
"""Points a line is thinned to; each is the mean of its neighbours."""

Point = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A line; `dots` marks its points (few and measured apart, as validations are)."""

    name: str
    points: Sequence[Point]
    dots: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Lines over a common horizontal axis; `mark` is a place on it and its label."""

    title: str
    series: Sequence[Series]
    horizontal: str = "step"
    mark: tuple[float, str] | None = None
    from_zero: bool = False


@dataclass(frozen=True, slots=True)
class _Scale:
    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def line_chart(chart: Chart, *, standalone: bool = False) -> str:
    """The chart as an SVG element; `standalone` adds the style that a page would give it."""
    lines = [(series, thinned(series.points)) for series in chart.series]
    everything = [point for _, points in lines for point in points]
    style = f"<style>{COLOURS}{DRAWING}</style>" if standalone else ""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="rg-drawing" role="img" aria-label="{escape(_summary(chart))}" '
        f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}">',
        style,
        f'<text class="rg-title" x="4" y="18">{escape(chart.title)}</text>',
    ]
    if everything:
        parts += _plot(chart, lines, everything)
    else:
        parts.append(
            f'<text class="rg-soft" x="{WIDTH / 2:g}" y="{HEIGHT / 2:g}" text-anchor="middle">no points yet</text>'
        )
    return "\n".join([*(part for part in parts if part), "</svg>"])


def thinned(points: Sequence[Point], most: int = MOST_POINTS) -> list[Point]:
    """At most `most` points, each the mean of a run of finite ones; the last point is kept as it is."""
    finite = [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)]
    if len(finite) <= most:
        return finite
    *body, last = finite
    size = math.ceil(len(body) / (most - 1))
    runs = [body[start : start + size] for start in range(0, len(body), size)]
    return [(sum(x for x, _ in run) / len(run), sum(y for _, y in run) / len(run)) for run in runs] + [last]


def nice_ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers (1, 2, 2.5 or 5 times a power of ten apart) inside [low, high]."""
    step = nice_step((high - low) / about)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def nice_step(least: float) -> float:
    """The smallest round number that is not below `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next((factor * power for factor in (1, 2, 2.5, 5) if factor * power >= least * (1 - 1e-9)), 10 * power)


def short_number(value: float) -> str:
    """A number for an axis or a note: 12k, 3.5, 0.0007, 1e-06."""
    if value == 0 or abs(value) < 1e-15:
        return "0"
    for limit, name in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            return f"{value / (1e3 if name == 'k' else limit):.4g}{name}"
    return f"{value:.4g}"


def _plot(chart: Chart, lines: list[tuple[Series, list[Point]]], everything: list[Point]) -> list[str]:
    xs, ys = [x for x, _ in everything], [y for _, y in everything]
    marks = [chart.mark[0]] if chart.mark else []
    zero = [0.0] if chart.from_zero else []
    vertical = _Scale(*_room(min(ys + zero), max(ys + zero), 0.06), HEIGHT - BOTTOM, TOP)
    labels = [short_number(value) for value in nice_ticks(vertical.low, vertical.high)]
    left = 14 + 7.6 * max(map(len, labels), default=0)
    horizontal = _Scale(*_room(min(xs + marks), max(xs + marks), 0.0), left, WIDTH - RIGHT)
    parts = _axes(chart, horizontal, vertical)
    if chart.mark:
        x = horizontal(chart.mark[0])
        anchor = "end" if x > WIDTH - RIGHT - 20 else "middle"
        parts += [
            f'<line class="rg-best" x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{HEIGHT - BOTTOM}"/>',
            f'<text class="rg-soft" x="{x:.1f}" y="{TOP - 6}" text-anchor="{anchor}">{escape(chart.mark[1])}</text>',
        ]
    for number, (series, points) in enumerate(lines):
        parts += _line(chart, series, points, number % 4, horizontal, vertical)
    return parts + (_legend(chart) if len(chart.series) > 1 else [])


def _axes(chart: Chart, horizontal: _Scale, vertical: _Scale) -> list[str]:
    parts = []
    left, floor = horizontal.start, HEIGHT - BOTTOM
    for value in nice_ticks(vertical.low, vertical.high):
        y = vertical(value)
        parts += [
            f'<line class="rg-grid" x1="{left:.1f}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}"/>',
            f'<text class="rg-soft" x="{left - 8:.1f}" y="{y:.1f}" text-anchor="end" dominant-baseline="central">'
            f"{short_number(value)}</text>",
        ]
    parts.append(f'<line class="rg-axis" x1="{left:.1f}" y1="{floor}" x2="{WIDTH - RIGHT}" y2="{floor}"/>')
    for value in nice_ticks(horizontal.low, horizontal.high):
        x = horizontal(value)
        parts += [
            f'<line class="rg-axis" x1="{x:.1f}" y1="{floor}" x2="{x:.1f}" y2="{floor + 4}"/>',
            f'<text class="rg-soft" x="{x:.1f}" y="{floor + 19}" text-anchor="middle">{short_number(value)}</text>',
        ]
    label = escape(chart.horizontal)
    return [*parts, f'<text class="rg-soft" x="{WIDTH - RIGHT}" y="{HEIGHT - 4}" text-anchor="end">{label}</text>']


def _line(
    chart: Chart, series: Series, points: list[Point], colour: int, horizontal: _Scale, vertical: _Scale
) -> list[str]:
    placed = [(horizontal(x), vertical(y)) for x, y in points]
    parts = []
    if len(placed) > 1:
        way = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        parts.append(f'<polyline class="rg-line rg-s{colour}" points="{way}"/>')
    if series.dots or len(placed) == 1:
        radius = 3.5 if len(placed) < 40 else 2
        parts += [f'<circle class="rg-dot rg-f{colour}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}"/>' for x, y in placed]
    for (x, y), (step, value) in zip(placed, points, strict=True):
        note = f"{chart.horizontal} {step:,.0f} · {series.name} {value:.5g}"
        parts.append(f'<circle class="rg-hover" cx="{x:.1f}" cy="{y:.1f}" r="7"><title>{escape(note)}</title></circle>')
    return parts


def _legend(chart: Chart) -> list[str]:
    parts, x = [], float(WIDTH - RIGHT)
    for number, series in reversed(list(enumerate(chart.series))):
        x -= display_width(series.name) * 7.4
        parts += [
            f'<text class="rg-soft" x="{x:.1f}" y="18">{escape(series.name)}</text>',
            f'<rect class="rg-f{number % 4}" x="{x - 18:.1f}" y="11" width="12" height="4" rx="2"/>',
        ]
        x -= 34
    return parts


def _room(low: float, high: float, share: float) -> tuple[float, float]:
    """The range with some room on both sides; a single value gets a range around it."""
    if high - low <= 1e-12 * max(1.0, abs(high)):
        reach = abs(high) * 0.1 or 1.0
        return low - reach, high + reach
    room = (high - low) * share
    return (low - room if low else low), high + room


def _summary(chart: Chart) -> str:
    ends = [f"{series.name} ends at {short_number(series.points[-1][1])}" for series in chart.series if series.points]
    return f"{chart.title}: {'; '.join(ends) or 'no points yet'}"
