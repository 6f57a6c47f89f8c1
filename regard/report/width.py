"""How many columns of a terminal a text takes.

Wide and full-width characters (Chinese, Japanese, Korean) take two, combining marks and format characters none. Emoji
joined of several characters are counted part by part, which is too wide rather than too narrow.
"""

import unicodedata

from regard.report.markup import visible


def display_width(text: str) -> int:
    """The columns a text takes."""
    return sum(_character_width(character) for character in text)


def shorten(text: str, limit: int) -> str:
    """The text, or as much of it as fits with an ellipsis."""
    if display_width(text) <= limit:
        return text
    if limit < 1:
        return ""
    kept, width = [], 0
    for character in text:
        width += _character_width(character)
        if width > limit - 1:
            break
        kept.append(character)
    return "".join(kept) + "…"


def pad(text: str, width: int, *, right: bool = False) -> str:
    """The text with spaces after it (or before it) up to a width."""
    space = " " * max(0, width - display_width(text))
    return space + text if right else text + space


def wrap(pieces: list[str], width: int, *, separator: str = "  ") -> list[str]:
    """Lines of pieces that are never broken inside; a piece longer than a line is shortened."""
    lines: list[str] = []
    for piece in pieces:
        fitting = shorten(piece, width)
        if lines and display_width(lines[-1] + separator + fitting) <= width:
            lines[-1] += separator + fitting
        else:
            lines.append(fitting)
    return lines


def word_label(word: str, limit: int) -> str:
    """A word as it is shown: harmless and no wider than the limit; an empty one as ␣."""
    return shorten(visible(word), limit) or "␣"


def _character_width(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
