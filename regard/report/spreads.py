"""The page of a sweep: a picture and a table of means with intervals, in one file that opens offline."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from regard.metrics.spread import Spread
from regard.report.curves import nice_ticks, short_number
from regard.report.document import document, heading, titled_parts
from regard.report.markup import escape
from regard.report.sections import findings
from regard.report.style import COLOURS, DRAWING, PAGE
from regard.report.width import display_width, shorten

WIDTH, ROW, TOP, BOTTOM, RIGHT = 640, 34, 44, 44, 20
LONGEST_LABEL = 44


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadRow:
    """A combination: its name, and a spread for each column, None where there is none."""

    name: str
    cells: Sequence[Spread | None]
    chosen: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadTable:
    """Rows of the same columns; the first column is what the choice is made by."""

    title: str
    place: str
    columns: Sequence[str]
    rows: Sequence[SpreadRow]
    notes: Sequence[str] = ()


def render_spreads(table: SpreadTable) -> str:
    """The whole page; all text of users is escaped."""
    style = COLOURS + DRAWING + PAGE
    charts = "".join(
        f'<figure class="card">{spread_chart(table, number)}</figure>' for number in range(len(table.columns))
    )
    means = (
        "<p>95 % intervals of the mean over n seeds (Student's t). The choice is made by the first column alone.</p>\n"
        f'<div class="card scroll">{_table(table)}</div>'
    )
    pictures = f'<p>A dot is one run, a bar the interval of the mean.</p>\n<div class="charts">{charts}</div>'
    parts = [("table", "Means and intervals", means), ("pictures", "How far apart", pictures)]
    if table.notes:
        parts.append(("notes", "Notes", findings(table.notes)))
    links, body = titled_parts(parts)
    header = f"{heading(table.title, table.place)}\n{links}"
    return document(title=table.title, header=header, main=body, style=style)


def _table(table: SpreadTable) -> str:
    heads = "".join(f'<th scope="col" class="number">{escape(name)}</th>' for name in table.columns)
    rows = []
    for row in table.rows:
        count = next((cell.count for cell in row.cells if cell is not None), 0)
        cells = "".join(f'<td class="number">{"–" if cell is None else cell}</td>' for cell in row.cells)
        mark = ' <span class="tag right">chosen by validation</span>' if row.chosen else ""
        rows.append(f'<tr><th scope="row">{escape(row.name)}{mark}</th><td class="number">{count}</td>{cells}</tr>')
    return (
        f'<table><thead><tr><th scope="col">Settings</th><th scope="col" class="number">n</th>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def spread_chart(table: SpreadTable, column: int) -> str:
    """One column: values, means and intervals beside each other."""
    rows = [(row, cell) for row in table.rows if (cell := row.cells[column]) is not None and math.isfinite(cell.mean)]
    height = TOP + ROW * len(rows) + BOTTOM
    title = table.columns[column]
    told = "; ".join(f"{row.name}: {cell}" for row, cell in rows) or "no run has ended"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="rg-drawing" role="img" aria-label="{escape(title)}: '
        f'{escape(told)}" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">',
        f'<text class="rg-title" x="4" y="20">{escape(title)}</text>',
    ]
    if rows:
        parts += _rows(rows, height)
    return "\n".join([*parts, "</svg>"])


def _rows(rows: Sequence[tuple[SpreadRow, Spread]], height: int) -> list[str]:
    ends = [value for _, cell in rows for value in (*cell.values, cell.low, cell.high) if value is not None]
    low, high = min(ends), max(ends)
    room = (high - low) * 0.05 or abs(high) * 0.1 or 1.0
    low, high = low - room, high + room
    labels = [shorten(row.name, LONGEST_LABEL) for row, _ in rows]
    left = 16 + 7.2 * max(map(display_width, labels))

    def place(value: float) -> str:
        return f"{left + (value - low) / (high - low) * (WIDTH - RIGHT - left):.1f}"

    parts = []
    for value in nice_ticks(low, high):
        parts += [
            f'<line class="rg-grid" x1="{place(value)}" y1="{TOP - 8}" x2="{place(value)}" y2="{height - BOTTOM}"/>',
            f'<text class="rg-soft" x="{place(value)}" y="{height - BOTTOM + 19}" text-anchor="middle">'
            f"{short_number(value)}</text>",
        ]
    for number, ((row, cell), label) in enumerate(zip(rows, labels, strict=True)):
        y = TOP + ROW * number + ROW / 2
        colour = 1 if row.chosen else 0
        parts.append(f'<text class="rg-soft" x="4" y="{y + 4:.1f}">{escape(label)}</text>')
        if cell.low is not None and cell.high is not None:
            ends_ = f'x1="{place(cell.low)}" x2="{place(cell.high)}" y1="{y:.1f}" y2="{y:.1f}"'
            parts.append(f'<line class="rg-line rg-s{colour}" {ends_}/>')
        parts += [
            f'<circle class="rg-dot rg-f{colour}" fill-opacity="0.55" cx="{place(value)}" cy="{y:.1f}" r="3.5"/>'
            for value in cell.values
        ]
        parts.append(
            f'<line class="rg-line rg-s{colour}" x1="{place(cell.mean)}" x2="{place(cell.mean)}" y1="{y - 8:.1f}" '
            f'y2="{y + 8:.1f}"><title>{escape(f"{row.name}: {cell}, n = {cell.count}")}</title></line>'
        )
    return parts
