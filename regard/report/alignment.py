"""Pictures of alignments: which source words each target word looks at.

Shapes: M target words, N source words; weights (M, N), a row for each target word.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from regard.errors import UsageError
from regard.report.markup import content_hash, escape
from regard.report.style import COLOURS, DRAWING, HOVER_SCRIPT, PAGE
from regard.report.width import display_width, word_label

Link = tuple[int, int]

CELL = 28
"""Pixels from one cell to the next."""

LONGEST = 24
"""Columns of the longest label; the whole word is told on hover."""

ANGLE = 50
"""Degrees by which source words rise."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AlignmentPicture:
    """Words of both sides and how strongly they are linked.

    `gold` holds the true links as (source, target), both from 0, where they are known; None where they are not.
    """

    source: Sequence[str]
    target: Sequence[str]
    weights: npt.NDArray[np.floating]
    gold: frozenset[Link] | None = None
    title: str = ""

    def __post_init__(self) -> None:
        if not self.source or not self.target:
            raise UsageError(
                f"an alignment needs words on both sides; there are {len(self.source)} source "
                f"and {len(self.target)} target words"
            )
        expected = (len(self.target), len(self.source))
        if self.weights.shape != expected:
            raise UsageError(
                f"weights of an alignment have the shape {self.weights.shape}; {expected[0]} target words "
                f"and {expected[1]} source words need {expected}"
            )
        if not np.isfinite(self.weights).all():
            raise UsageError("weights of an alignment must be finite numbers; there are NaN or infinite ones")
        for source, target in sorted(self.gold or ()):
            if not (0 <= source < expected[1] and 0 <= target < expected[0]):
                raise UsageError(
                    f"gold link {source}-{target} lies outside of {expected[1]} source and {expected[0]} target words"
                )

    def strongest(self, row: int, *, least: float = 0.1, most: int = 3) -> list[tuple[int, float]]:
        """Source words of a target word, strongest first: at least one, others down to a weight."""
        weights = self.weights[row].tolist()
        order = sorted(range(len(weights)), key=lambda column: (-weights[column], column))
        return [(column, weights[column]) for column in order[:most] if weights[column] >= least or column == order[0]]

    def plot(self, file: str | Path | None = None) -> str:
        """The picture as SVG, also written to a file if one is named."""
        svg = to_svg(self)
        if file is not None:
            Path(file).write_text(svg, encoding="utf-8")
        return svg

    def _repr_svg_(self) -> str:
        """What a notebook shows."""
        return to_svg(self)

    def __str__(self) -> str:
        """What a terminal shows."""
        from regard.report.terminal import to_text

        return to_text(self)


def to_svg(picture: AlignmentPicture) -> str:
    """The heat map as a file of its own; it follows the reader's light or dark setting."""
    return drawing(picture, style=f"<style>{COLOURS}{DRAWING}</style>")


def to_html(picture: AlignmentPicture) -> str:
    """A page with the heat map on which rows and columns light up under the pointer; asks nothing of any server."""
    title = escape(picture.title or "Alignment")
    style = COLOURS + DRAWING + PAGE
    links = "".join(f"<li>{escape(line)}</li>" for line in arrows(picture))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy(style, HOVER_SCRIPT)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<header class="sentence"><h1>{title}</h1></header>
<main>
<p>{escape(legend(picture))}</p>
<figure class="map card scroll">{drawing(picture, interactive=True)}</figure>
<h2>In words</h2>
<ul class="findings">{links}</ul>
</main>
<script>{HOVER_SCRIPT}</script>
</body>
</html>
"""


def policy(style: str, script: str | None) -> str:
    """The content security policy of a page: its own style, its own script, nothing else and nothing from outside."""
    scripts = f"; script-src {content_hash(script)}" if script else ""
    return f"default-src 'none'; style-src {content_hash(style)}; img-src data:{scripts}; base-uri 'none'"


def legend(picture: AlignmentPicture) -> str:
    """How to read the map, in a sentence or two."""
    text = "Rows are target words, columns source words; the stronger the colour, the stronger the link."
    return f"{text} Outlined cells are the true links." if picture.gold is not None else text


def arrows(picture: AlignmentPicture) -> list[str]:
    """Each target word with the source words it looks at: `Katze ← cat 0.93`."""
    lines = []
    for row, word in enumerate(picture.target):
        found = ", ".join(f"{picture.source[column]} {weight:.2f}" for column, weight in picture.strongest(row))
        lines.append(f"{word} ← {found}")
    return lines


def drawing(picture: AlignmentPicture, *, style: str = "", interactive: bool = False) -> str:
    """The heat map as an element; `interactive` lets words be reached by keyboard."""
    rows, columns = len(picture.target), len(picture.source)
    left = 14 + max(_pixels(word) for word in picture.target)
    reach = max(_pixels(word) for word in picture.source)
    top = 14 + math.ceil(reach * math.sin(math.radians(ANGLE)))
    overhang = max(
        _pixels(word) * math.cos(math.radians(ANGLE)) - (columns - column - 0.5) * CELL
        for column, word in enumerate(picture.source)
    )
    width = left + columns * CELL + max(8, math.ceil(overhang) + 8)
    height = top + rows * CELL + 8
    focus = ' tabindex="0"' if interactive else ""
    title = escape(picture.title or "Alignment")
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="rg-drawing rg-map" role="img" aria-label="{title}" '
        f'width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        style,
        f"<desc>{escape('; '.join(arrows(picture)))}</desc>",
        *_words(picture, left=left, top=top, focus=focus),
        f'<rect class="rg-ground" x="{left}" y="{top}" width="{columns * CELL}" height="{rows * CELL}" rx="4"/>',
        *_cells(picture, left=left, top=top),
        "</svg>",
    ]
    return "\n".join(part for part in parts if part)


def _words(picture: AlignmentPicture, *, left: int, top: int, focus: str) -> list[str]:
    parts = []
    for column, word in enumerate(picture.source):
        x, y = left + column * CELL + CELL / 2, top - 8
        parts.append(
            f'<text class="rg-word" data-column="{column}"{focus} transform="translate({x:g} {y}) rotate(-{ANGLE})" '
            f'dominant-baseline="middle"><title>{escape(word)}</title>{escape(word_label(word, LONGEST))}</text>'
        )
    for row, word in enumerate(picture.target):
        y = top + row * CELL + CELL // 2
        parts.append(
            f'<text class="rg-word" data-row="{row}"{focus} x="{left - 8}" y="{y}" text-anchor="end" '
            f'dominant-baseline="central"><title>{escape(word)}</title>{escape(word_label(word, LONGEST))}</text>'
        )
    return parts


def _cells(picture: AlignmentPicture, *, left: int, top: int) -> list[str]:
    parts, outlines = [], []
    for row, word in enumerate(picture.target):
        for column, source in enumerate(picture.source):
            weight = float(picture.weights[row, column])
            x, y = left + column * CELL, top + row * CELL
            note = f"{word} ← {source}: {weight:.3f}"
            if picture.gold is not None and (column, row) in picture.gold:
                note += " (true link)"
                outlines.append(
                    f'<rect class="rg-gold" x="{x + 2}" y="{y + 2}" width="{CELL - 4}" height="{CELL - 4}" rx="4"/>'
                )
            parts.append(
                f'<rect class="rg-cell" data-row="{row}" data-column="{column}" data-weight="{weight:.4f}" '
                f'x="{x + 1}" y="{y + 1}" width="{CELL - 2}" height="{CELL - 2}" rx="3" '
                f'fill-opacity="{min(1.0, max(0.0, weight)):.3f}"><title>{escape(note)}</title></rect>'
            )
    return parts + outlines


def _pixels(word: str) -> int:
    return math.ceil(8.2 * display_width(word_label(word, LONGEST)))
