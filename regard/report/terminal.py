"""Alignments in a terminal: a matrix of shades where it fits, and a list of arrows.

Three forms, the first that fits: columns headed by source words; columns headed by numbers, with the words below; only
the list. No line is wider than asked. Colour is an addition: everything can be read without it.
"""

from typing import Final

from regard.errors import UsageError
from regard.report.alignment import AlignmentPicture
from regard.report.width import display_width, pad, shorten, word_label, wrap

SHADES: Final = ((0.8, "█"), (0.5, "▓"), (0.2, "▒"), (0.05, "░"))
"""The block of a weight: the first whose limit it reaches; a space below all of them."""

LEAST_WIDTH: Final = 20

_BOLD: Final = "\x1b[1m"
_GREEN: Final = "\x1b[32m"
_DIM: Final = "\x1b[2m"
_PLAIN: Final = "\x1b[0m"


def to_text(picture: AlignmentPicture, width: int = 80, *, colour: bool = False) -> str:
    """The alignment in lines of at most `width` columns."""
    if width < LEAST_WIDTH:
        raise UsageError(f"width = {width}: an alignment needs {LEAST_WIDTH} columns or more")
    title = [shorten(word_label(picture.title, width), width)] if picture.title else []
    if colour and title:
        title = [f"{_BOLD}{title[0]}{_PLAIN}"]
    matrix = _matrix(picture, width)
    blocks = [title, matrix, _arrow_lines(picture, width, colour=colour)]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _matrix(picture: AlignmentPicture, width: int) -> list[str]:
    label = min(20, max(display_width(word_label(word, 20)) for word in picture.target))
    heads = [word_label(word, 16) for word in picture.source]
    least = 4 if picture.gold is not None else 3
    widths = [max(least, display_width(head) + 1) for head in heads]
    if label + 1 + sum(widths) <= width:
        return _grid(picture, heads, widths, label)
    numbers = [str(column) for column in range(1, len(heads) + 1)]
    cell = max(least, len(numbers[-1]) + 1)
    if label + 1 + cell * len(heads) <= width:
        key = wrap([f"{number} {head}" for number, head in zip(numbers, heads, strict=True)], width)
        return [*_grid(picture, numbers, [cell] * len(heads), label), "", *key]
    return []


def _grid(picture: AlignmentPicture, heads: list[str], widths: list[int], label: int) -> list[str]:
    lines = [" " * (label + 1) + "".join(pad(head, width) for head, width in zip(heads, widths, strict=True))]
    for row, word in enumerate(picture.target):
        cells = []
        for column, width in enumerate(widths):
            block = 2 * _shade(float(picture.weights[row, column]))
            true = picture.gold is not None and (column, row) in picture.gold
            cells.append(pad(f"[{block}]" if true else f" {block}" if picture.gold is not None else block, width))
        lines.append(pad(word_label(word, label), label + 1) + "".join(cells))
    return [line.rstrip() for line in lines]


def _shade(weight: float) -> str:
    return next((block for limit, block in SHADES if weight >= limit), " ")


def _arrow_lines(picture: AlignmentPicture, width: int, *, colour: bool) -> list[str]:
    label = min(max(display_width(word_label(word, 20)) for word in picture.target), width // 3)
    return [_arrow_line(picture, row, label, width, colour=colour) for row in range(len(picture.target))]


def _arrow_line(picture: AlignmentPicture, row: int, label: int, width: int, *, colour: bool) -> str:
    """`Katze ← cat 0.93 ✓ the 0.05`: as many source words as fit, the first shortened if it must be."""
    start = pad(word_label(picture.target[row], label), label) + " ← "
    used = display_width(start)
    pieces: list[str] = []
    for column, weight in picture.strongest(row):
        true = picture.gold is not None and (column, row) in picture.gold
        number = f" {weight:.2f}" + (" ✓" if true else "")
        room = width - used - len(number) - (2 if pieces else 0)
        word = word_label(picture.source[column], 20 if pieces else min(20, max(1, room)))
        if display_width(word) > room:
            break
        used += display_width(word) + len(number) + (2 if pieces else 0)
        if colour:
            shown = word if pieces else f"{_BOLD}{word}{_PLAIN}"
            pieces.append(f"{shown}{_GREEN if true else _DIM}{number}{_PLAIN}")
        else:
            pieces.append(word + number)
    return start + "  ".join(pieces)
