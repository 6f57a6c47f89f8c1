"""Bars: the rates of all programs beside that of regard, training above, decoding below."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from peers.cells import OURS, Cell, decodings, trainings
from peers.figures import Figure, at, figure, rate
from peers.shapes import SHAPES
from regard.report.markup import escape
from regard.report.style import COLOURS, DRAWING

Record = Mapping[str, Any]
WIDTH, LEFT, BAR, STEP, TOP, GAP = 960, 345, 15, 23, 34, 26
"""Of the picture, of the room for names, of a bar and from one to the next, above a panel's bars and between panels."""

STYLE = ".rg-paper{fill:var(--paper)}.rg-fault{stroke:var(--ink);stroke-width:1.2}\n"
KEY = (("rg-f0", "regard"), ("rg-f1", "a peer"), ("rg-f2", "a peer, allocator tuned"))
KEY_HEIGHT = 30
DECODED = "forced batch 64 beam 5"


@dataclass(frozen=True, slots=True)
class Panel:
    """Bars of one kind: names, rates, and whose they are."""

    title: str
    bars: Sequence[tuple[Cell, Figure]]

    @property
    def height(self) -> float:
        return TOP + STEP * len(self.bars) + GAP


def panels(record: Record) -> list[Panel]:
    """What there is to show."""
    found = []
    for name in SHAPES:
        bars = [(cell, figure(record, cell, rate)) for cell in trainings(name)]
        found.append(Panel(f"Training {name}, target tokens per second", [bar for bar in bars if bar[1]]))
    for name in SHAPES:
        bars = [(cell, figure(record, cell, at(DECODED))) for cell in decodings(name)]
        title = f"Decoding {name}, sentences per second (16 forced steps, batch 64, beam 5)"
        found.append(Panel(title, [bar for bar in bars if bar[1]]))
    return [panel for panel in found if panel.bars]


def drawn(panel: Panel) -> list[str]:
    """A panel with its upper left corner at (0, 0); lines at the ends of bars span the rounds."""
    most = max(max(found.known) for _, found in panel.bars)
    room = WIDTH - LEFT - 110
    parts = [f'<text class="rg-title" x="4" y="18">{escape(panel.title)}</text>']
    for number, (cell, found) in enumerate(panel.bars):
        y, middle = TOP + number * STEP, TOP + number * STEP + BAR / 2
        colour = 0 if cell.system == OURS else 1 if not cell.tuned else 2
        low, wide, high = (LEFT + room * value / most for value in (min(found.known), found.median, max(found.known)))
        parts += [
            f'<text class="rg-soft" x="{LEFT - 8}" y="{middle:.1f}" text-anchor="end" dominant-baseline="central">'
            f"{escape(cell.label)}</text>",
            f'<rect class="rg-f{colour}" x="{LEFT}" y="{y:.1f}" width="{wide - LEFT:.1f}" height="{BAR}" rx="2">'
            f"<title>{escape(f'{cell.label}: {found.median:,.0f}')}</title></rect>",
            f'<line class="rg-fault" x1="{low:.1f}" y1="{middle:.1f}" x2="{high:.1f}" y2="{middle:.1f}"/>',
            f'<text x="{max(wide, high) + 8:.1f}" y="{middle:.1f}" dominant-baseline="central">'
            f"{found.median:,.0f}</text>",
        ]
    return parts


def key() -> list[str]:
    """What the colours and the lines mean."""
    parts, x = [], 20.0
    for kind, name in KEY:
        parts += [
            f'<rect class="{kind}" x="{x:.0f}" y="14" width="22" height="{BAR}" rx="2"/>',
            f'<text class="rg-soft" x="{x + 30:.0f}" y="22" dominant-baseline="central">{escape(name)}</text>',
        ]
        x += 60 + 8 * len(name)
    parts += [
        f'<line class="rg-fault" x1="{x:.0f}" y1="22" x2="{x + 22:.0f}" y2="22"/>',
        f'<text class="rg-soft" x="{x + 30:.0f}" y="22" dominant-baseline="central">least to greatest of the rounds'
        "</text>",
    ]
    return parts


def picture(record: Record) -> str:
    """All panels, one below the other."""
    parts = key()
    top = 16.0 + KEY_HEIGHT
    for panel in panels(record):
        parts += [f'<g transform="translate(16 {top:.0f})">', *drawn(panel), "</g>"]
        top += panel.height
    width, height = WIDTH + 32, round(top)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="rg-drawing" role="img" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" aria-label="Rates of training and decoding, beside those of regard">'
    )
    paper = f'<rect class="rg-paper" width="{width}" height="{height}" rx="12"/>'
    return "\n".join([head, f"<style>{COLOURS}{DRAWING}{STYLE}</style>", paper, *parts, "</svg>\n"])
