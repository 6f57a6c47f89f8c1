"""Writes docs/complexity.md and its picture from what benchmarks/complexity.py has measured.

python benchmarks/complexity_page.py
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard.report.markup import escape
from regard.report.style import COLOURS, DRAWING

HERE = Path(__file__).resolve().parent
PANEL, PLOT, LEFT, TOP, LEGEND = 470, 230, 66, 44, 23
"""Of a panel: its width, the height of its plot, the room for labels left and above, the height of a legend's line."""

APART = 52
"""Between two labels below a plot, at least."""

STYLE = """\
.rg-paper{fill:var(--paper)}.rg-guide{stroke:var(--soft);stroke-width:1;stroke-dasharray:1 4}
.rg-explicit{stroke-dasharray:7 4}.rg-drawing .rg-power{font-size:10px;fill:var(--ink)}
"""
LOOKS = {
    "GRU, no attention": (0, False),
    "GRU, Bahdanau": (1, False),
    "GRU, Luong, fused": (2, False),
    "GRU, Luong, explicit": (2, True),
    "Transformer, fused": (3, False),
    "Transformer, explicit": (3, True),
    "Transformer encoder, fused": (3, False),
    "Transformer encoder, explicit": (3, True),
    "dot attention, fused": (2, False),
    "dot attention, explicit": (2, True),
    "additive attention": (1, False),
}
"""Colour, and whether the line is broken."""

TITLES = {
    "training": "Training an encoder-decoder",
    "part": "Self-attention and attention alone",
    "step": "A step of search after n source items",
}


@dataclass(frozen=True, slots=True)
class Fit:
    """y = c · n^slope by least squares of the logarithms; the error is the standard error of the slope."""

    slope: float
    error: float

    def __str__(self) -> str:
        return f"{self.slope:.2f} ± {self.error:.2f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    name: str
    points: Sequence[tuple[float, float]]
    fit: Fit


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    title: str
    lines: Sequence[Line]
    label: Callable[[float], str]


def fitted(lengths: Sequence[float], values: Sequence[float]) -> Fit:
    """The exponent over the upper half of the points, where what grows fastest shows; at least three of them."""
    count = max(3, math.ceil(len(lengths) / 2))
    x, y = np.log(np.array([lengths[-count:], values[-count:]], dtype=np.float64))
    x = x - x.mean()
    slope = float((x * y).sum() / (x * x).sum())
    rest = y - y.mean() - slope * x
    error = math.sqrt(float((rest * rest).sum()) / (count - 2) / float((x * x).sum()))
    return Fit(slope, error)


def seconds_label(value: float) -> str:
    for unit, name in ((1, "s"), (1e-3, "ms")):
        if value >= unit * 0.9995:
            return f"{value / unit:.3g} {name}"
    return f"{value / 1e-6:.3g} µs"


def bytes_label(value: float) -> str:
    for unit, name in ((1e9, "GB"), (1e6, "MB")):
        if value >= unit * 0.9995:
            return f"{value / unit:.3g} {name}"
    return f"{value / 1e3:.3g} kB"


def panel_of(measures: Sequence[Mapping[str, Any]], group: str, quantity: str) -> Panel:
    lines = [
        Line(
            name=entry["name"],
            points=list(zip(entry["lengths"], entry[quantity], strict=True)),
            fit=fitted(entry["lengths"], entry[quantity]),
        )
        for entry in measures
        if entry["group"] == group
    ]
    what = "time" if quantity == "seconds" else "peak memory"
    label = seconds_label if quantity == "seconds" else bytes_label
    return Panel(title=f"{TITLES[group]}: {what}", lines=lines, label=label)


def levels(low: float, high: float) -> list[float]:
    """Round values between two powers of ten: the powers themselves, or steps of 1, 2 and 5 where these are few."""
    powers = range(math.floor(low), math.floor(high) + 1)
    for steps in ((1,), (1, 2, 5)):
        found = [step * 10.0**power for power in powers for step in steps if low <= math.log10(step) + power <= high]
        if len(found) > 1:
            break
    return found


def drawn(panel: Panel) -> list[str]:
    """A panel with its upper left corner at (0, 0)."""
    xs = [math.log2(x) for line in panel.lines for x, _ in line.points]
    ys = [math.log10(y) for line in panel.lines for _, y in line.points]
    left, right, low, high = min(xs), max(xs), min(ys) - 0.15, max(ys) + 0.15
    wide, floor = PANEL - LEFT - 20, TOP + PLOT

    def place(x: float, y: float) -> tuple[float, float]:
        return LEFT + (x - left) / (right - left) * wide, floor - (y - low) / (high - low) * PLOT

    parts = [f'<text class="rg-title" x="4" y="20">{escape(panel.title)}</text>']
    for value in levels(low, high):
        y = place(left, math.log10(value))[1]
        parts += [
            f'<line class="rg-grid" x1="{LEFT}" y1="{y:.1f}" x2="{LEFT + wide}" y2="{y:.1f}"/>',
            f'<text class="rg-soft" x="{LEFT - 8}" y="{y:.1f}" text-anchor="end" dominant-baseline="central">'
            f"{panel.label(value)}</text>",
        ]
    parts.append(f'<line class="rg-axis" x1="{LEFT}" y1="{floor}" x2="{LEFT + wide}" y2="{floor}"/>')
    every = math.ceil(APART * (round(right) - round(left)) / wide)
    for number in range(round(left), round(right) + 1):
        x = place(number, low)[0]
        parts.append(f'<line class="rg-axis" x1="{x:.1f}" y1="{floor}" x2="{x:.1f}" y2="{floor + 4}"/>')
        if (round(right) - number) % every == 0:
            parts.append(
                f'<text class="rg-soft" x="{x:.1f}" y="{floor + 18}" text-anchor="middle">{2**number:,}</text>'
            )
    parts += guides(place, (left, right, low, high))
    for line in panel.lines:
        parts += drawn_line(panel, line, place)
    return parts + legend(panel, floor + 44)


def guides(
    place: Callable[[float, float], tuple[float, float]], bounds: tuple[float, float, float, float]
) -> list[str]:
    """How n and n² rise, from the lower left corner."""
    left, right, low, high = bounds
    parts = []
    for power, label in ((1, "n"), (2, "n²")):
        reach = min(right, left + (high - low) / power / math.log10(2))
        (x1, y1), (x2, y2) = place(left, low), place(reach, low + power * (reach - left) * math.log10(2))
        parts += [
            f'<line class="rg-guide" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>',
            f'<text class="rg-soft" x="{x2 + 4:.1f}" y="{y2 + 2:.1f}">{label}</text>',
        ]
    return parts


def drawn_line(panel: Panel, line: Line, place: Callable[[float, float], tuple[float, float]]) -> list[str]:
    colour, broken = LOOKS[line.name]
    placed = [place(math.log2(x), math.log10(y)) for x, y in line.points]
    way = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
    parts = [f'<polyline class="rg-line rg-s{colour}{" rg-explicit" * broken}" points="{way}"/>']
    for (x, y), (length, value) in zip(placed, line.points, strict=True):
        note = escape(f"{line.name}, n = {length:g}: {panel.label(value)}")
        parts.append(
            f'<circle class="rg-dot rg-f{colour}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"><title>{note}</title></circle>'
        )
    return parts


def legend(panel: Panel, top: float) -> list[str]:
    """A line for each line, with its exponent."""
    parts = []
    for number, line in enumerate(panel.lines):
        colour, broken = LOOKS[line.name]
        y = top + number * LEGEND
        parts += [
            f'<line class="rg-line rg-s{colour}{" rg-explicit" * broken}" x1="{LEFT}" y1="{y}" x2="{LEFT + 30}" '
            f'y2="{y}"/>',
            f'<text class="rg-soft" x="{LEFT + 42}" y="{y}" dominant-baseline="central">{escape(line.name)}</text>',
            f'<text x="{PANEL - 130}" y="{y}" dominant-baseline="central">n<tspan class="rg-power" dy="-5">'
            f"{line.fit}</tspan></text>",
        ]
    return parts


def picture(measures: Sequence[Mapping[str, Any]]) -> str:
    """Panels side by side: time on the left, memory on the right; search, which keeps nothing, has time only."""
    order = [
        ("training", "seconds"),
        ("training", "bytes"),
        ("part", "seconds"),
        ("part", "bytes"),
        ("step", "seconds"),
    ]
    panels = [panel_of(measures, group, quantity) for group, quantity in order]
    parts: list[str] = []
    top = 16
    for start in range(0, len(panels), 2):
        row = panels[start : start + 2]
        for column, panel in enumerate(row):
            parts += [f'<g transform="translate({16 + column * (PANEL + 24)} {top})">', *drawn(panel), "</g>"]
        top += TOP + PLOT + 44 + LEGEND * max(len(panel.lines) for panel in row) + 24
    parts += notes(PANEL + 40, top - (TOP + PLOT + 44 + LEGEND * len(panels[-1].lines) + 24))
    width, height = 2 * PANEL + 56, top
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="rg-drawing" role="img" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" aria-label="Time and memory against sequence length, with fitted exponents">'
    )
    paper = f'<rect class="rg-paper" width="{width}" height="{height}" rx="12"/>'
    return "\n".join([head, f"<style>{COLOURS}{DRAWING}{STYLE}</style>", paper, *parts, "</svg>\n"])


def notes(left: float, top: float) -> list[str]:
    told = (
        "How to read this",
        "Both axes are logarithmic: a power of n is a straight line,",
        "and its exponent is its steepness. The dotted lines are n and n².",
        "",
        "The exponents in the legends are fitted to the upper half of the",
        "points, with their standard errors.",
        "",
        "Whole lines: the path that is taken in training.",
        "Broken lines: the explicit path of the same model, which makes",
        "the attention weights so that they can be looked at.",
    )
    classes = ["rg-title"] + ["rg-soft"] * (len(told) - 1)
    return [
        f'<text class="{name}" x="{left + 4}" y="{top + 20 + 22 * number}">{escape(text)}</text>'
        for number, (name, text) in enumerate(zip(classes, told, strict=True))
    ]


def ratio(values: Sequence[float]) -> str:
    """What doubling the length does at the end."""
    return f"× {values[-1] / values[-2]:.1f}"


def tables(record: Mapping[str, Any]) -> str:
    """The figures in Markdown."""
    lines = [
        f"Measured by `python benchmarks/complexity.py` in {record['minutes']} minutes on {record['machine']}: "
        f"CPU time of one thread, {record['rows']} rows, width {record['width']}, one layer, n = m.",
    ]
    for group, title in TITLES.items():
        entries = [entry for entry in record["measures"] if entry["group"] == group]
        lines += ["", f"### {title}", "", *rows_of(entries, memory=group != "step")]
    return "\n".join(lines)


def rows_of(entries: Sequence[Mapping[str, Any]], *, memory: bool) -> list[str]:
    heads = ["", "textbook", "longest n", "time there", "last doubling", "exponent of time"]
    if memory:
        heads += ["peak memory there", "last doubling", "exponent of memory", "resident growth"]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for entry in entries:
        lengths, seconds, peaks = entry["lengths"], entry["seconds"], entry["bytes"]
        cells = [entry["name"], f"O({entry['order']})", f"{lengths[-1]:,}", seconds_label(seconds[-1]), ratio(seconds)]
        cells.append(str(fitted(lengths, seconds)))
        if memory:
            resident = "" if entry["resident"] is None else bytes_label(entry["resident"])
            cells += [bytes_label(peaks[-1]), ratio(peaks), str(fitted(lengths, peaks)), resident]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def write_page(record: Mapping[str, Any], folder: Path) -> None:
    """The picture, and the tables between `<!-- figures -->` and `<!-- /figures -->` of the page."""
    (folder / "complexity.svg").write_text(picture(record["measures"]), encoding="utf-8")
    page = folder / "complexity.md"
    before, _, rest = page.read_text(encoding="utf-8").partition("<!-- figures -->")
    _, _, after = rest.partition("<!-- /figures -->")
    text = f"{before}<!-- figures -->\n{tables(record)}\n<!-- /figures -->{after}"
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_page(json.loads((HERE / "complexity.json").read_text(encoding="utf-8")), HERE.parent / "docs")
