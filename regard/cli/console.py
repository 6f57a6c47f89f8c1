"""What people see while something runs: on standard error, in colour only on a terminal."""

import os
import shutil
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from regard.metrics import Score


def messages() -> "Console":
    """The console for everything that is not data."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=True)


def terminal_width() -> int:
    """Columns of the terminal, 80 where there is none."""
    return shutil.get_terminal_size((80, 24)).columns


def colour() -> bool:
    """Whether standard output takes colour."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or sys.stdout.isatty()


def score_lines(name: str, scores: "tuple[Score, ...]") -> list[str]:
    """A table of scores that reads well in a narrow terminal too."""
    rows = []
    width = max(len(score.name) for score in scores)
    for score in scores:
        interval = "" if score.low is None else f"  [{score.low:.2f}, {score.high:.2f}]"
        rows.append(f"  {score.name:<{width}}  {score.value:7.2f}{interval}")
    return [f"{name} ({scores[0].count:,} pairs)", *rows]


def duration(seconds: float) -> str:
    """`3 h 12 min`, `4 min 10 s`, `12 s`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
