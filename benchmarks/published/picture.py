"""The bottleneck of an encoder-decoder as a picture: BLEU by source length, with attention and without.

Drawn as the charts of reports are, in their colours: lines with dots and 95 % intervals, each named at its end.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from published.entries import Bucket
from regard.report.curves import nice_ticks
from regard.report.markup import escape
from regard.report.style import COLOURS, DRAWING

WIDTH, HEIGHT = 760, 440
LEFT, RIGHT, TOP, BOTTOM = 52, 196, 64, 74
BESIDE: Final = 7
"""Lines stand so far beside each other in a bucket, so that their intervals can be told apart."""

NAME_HEIGHT: Final = 19

TITLE: Final = "BLEU by length of the source, with attention and without"
NOTE: Final = "orange: no attention, one vector for a whole source; lines with 95 % intervals"

STYLE: Final = (
    ".rg-ground{fill:var(--card)}.rg-interval{stroke-width:1.5;stroke-opacity:.6}.rg-dashed{stroke-dasharray:7 5}"
    ".rg-leader{stroke:var(--line);stroke-width:1}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One model over all buckets; `colour` is one of the four of a page, `dashed` tells two of one colour apart."""

    name: str
    buckets: Sequence[Bucket]
    colour: int
    dashed: bool = False


def draw(lines: Sequence[Line], *, top: float = 100, title: str = TITLE) -> str:
    """The picture as a file of its own; all lines have the same buckets, and the axis goes from 0 to `top`."""
    buckets = lines[0].buckets
    values = "; ".join(f"{line.name} {line.buckets[0].value:.0f} to {line.buckets[-1].value:.0f}" for line in lines)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="rg-drawing" role="img" aria-label="{escape(title)}: '
        f'{escape(values)}" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}">',
        f"<style>{COLOURS}{DRAWING}{STYLE}</style>",
        f'<rect class="rg-ground" width="{WIDTH}" height="{HEIGHT}"/>',
        f'<text class="rg-title" x="16" y="26">{escape(title)}</text>',
        f'<text class="rg-soft" x="16" y="45">{NOTE}</text>',
        *_axes(buckets, top),
    ]
    for number, line in enumerate(lines):
        parts += _line(line, (number - (len(lines) - 1) / 2) * BESIDE, top)
    return "\n".join([*parts, *_names(lines, top), "</svg>"]) + "\n"


def across(index: int, buckets: int) -> float:
    """The middle of a bucket."""
    return LEFT + (WIDTH - LEFT - RIGHT) * (index + 0.5) / buckets


def up(value: float, top: float) -> float:
    """The height of a BLEU value; the axis begins at 0, so that no difference looks larger than it is."""
    return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * value / top


def _axes(buckets: Sequence[Bucket], top: float) -> list[str]:
    floor, end = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts = []
    for value in nice_ticks(0, top):
        parts += [
            f'<line class="rg-grid" x1="{LEFT}" y1="{up(value, top):.1f}" x2="{end}" y2="{up(value, top):.1f}"/>',
            f'<text class="rg-soft" x="{LEFT - 8}" y="{up(value, top):.1f}" text-anchor="end" '
            f'dominant-baseline="central">{value:g}</text>',
        ]
    parts.append(f'<line class="rg-axis" x1="{LEFT}" y1="{floor}" x2="{end}" y2="{floor}"/>')
    for index, bucket in enumerate(buckets):
        x = across(index, len(buckets))
        label = f"{bucket.first}+" if bucket.last is None else f"{bucket.first}–{bucket.last}"
        parts += [
            f'<text x="{x:.1f}" y="{floor + 20}" text-anchor="middle">{label}</text>',
            f'<text class="rg-soft" x="{x:.1f}" y="{floor + 39}" text-anchor="middle">n = {bucket.sentences}</text>',
        ]
    words = "words of the source; n sentences in each bucket"
    return [*parts, f'<text class="rg-soft" x="{end}" y="{HEIGHT - 12}" text-anchor="end">{words}</text>']


def _line(line: Line, aside: float, top: float) -> list[str]:
    places = [
        (across(index, len(line.buckets)) + aside, up(bucket.value, top)) for index, bucket in enumerate(line.buckets)
    ]
    dashed = " rg-dashed" if line.dashed else ""
    way = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    parts = [f'<polyline class="rg-line rg-s{line.colour}{dashed}" points="{way}"/>']
    for (x, y), bucket in zip(places, line.buckets, strict=True):
        note = f"{line.name}, {bucket.label} words: BLEU {bucket.value:.1f}"
        if bucket.low is not None and bucket.high is not None:
            note += f" [{bucket.low:.1f}, {bucket.high:.1f}]"
            parts.append(
                f'<line class="rg-interval rg-s{line.colour}" x1="{x:.1f}" y1="{up(bucket.low, top):.1f}" '
                f'x2="{x:.1f}" y2="{up(bucket.high, top):.1f}"/>'
            )
        parts.append(
            f'<circle class="rg-dot rg-f{line.colour}" cx="{x:.1f}" cy="{y:.1f}" r="3.5">'
            f"<title>{escape(note)}</title></circle>"
        )
    return parts


def _names(lines: Sequence[Line], top: float) -> list[str]:
    """Names beside the ends of their lines, pushed apart where the ends meet."""
    ends = sorted((up(line.buckets[-1].value, top), number) for number, line in enumerate(lines))
    heights: list[float] = []
    for y, _ in ends:
        heights.append(max(y, heights[-1] + NAME_HEIGHT) if heights else y)
    over = max(0.0, heights[-1] - (HEIGHT - BOTTOM)) if heights else 0.0
    middle = (sum(heights) - sum(y for y, _ in ends)) / len(heights)
    shift = max(min(middle, heights[0] - TOP), over)
    parts = []
    count = len(lines[0].buckets)
    for (y, number), height in zip(ends, heights, strict=True):
        line, at = lines[number], height - shift
        start = across(count - 1, count) + (number - (len(lines) - 1) / 2) * BESIDE + 6
        dashed = " rg-dashed" if line.dashed else ""
        parts += [
            f'<line class="rg-leader" x1="{start:.1f}" y1="{y:.1f}" x2="{WIDTH - RIGHT + 6}" y2="{at:.1f}"/>',
            f'<line class="rg-line rg-s{line.colour}{dashed}" x1="{WIDTH - RIGHT + 10}" y1="{at:.1f}" '
            f'x2="{WIDTH - RIGHT + 34}" y2="{at:.1f}"/>',
            f'<text x="{WIDTH - RIGHT + 40}" y="{at:.1f}" dominant-baseline="central">{escape(line.name)}</text>',
        ]
    return parts
