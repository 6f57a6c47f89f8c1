"""What people see while something runs: on standard error, in colour only on a terminal."""

import os
import shutil
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import typer

from regard.errors import RegardError, ResourceError, UsageError, out_of_memory
from regard.files import NO_SPACE

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from regard.metrics import Score


def messages() -> "Console":
    """The console for everything that is not data. What is printed is text: brackets in it mean nothing."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)


def tell_error(error: Exception, who: str = "regard") -> int:
    """Say what went wrong, and return the exit code for it."""
    if isinstance(error, RegardError):
        typer.echo(f"{who}: {error}", err=True)
        return error.exit_code
    if out_of_memory(error):
        typer.echo(f"{who}: there is not enough memory; try a smaller model, batch or beam", err=True)
        return ResourceError.exit_code
    traceback.print_exception(error)
    typer.echo(f"{who}: this is a bug in regard; please report it with the lines above", err=True)
    return 1


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
    if not scores:
        return [f"{name}: nothing could be judged"]
    rows = []
    width = max(len(score.name) for score in scores)
    for score in scores:
        interval = "" if score.low is None else f"  [{score.low:.2f}, {score.high:.2f}]"
        rows.append(f"  {score.name:<{width}}  {score.value:7.2f}{interval}")
    return [f"{name} ({scores[0].count:,} pair{'' if scores[0].count == 1 else 's'})", *rows]


def split_settings(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Files and folders, and settings (`key=value`); a file that is there is a file, whatever its name."""
    paths = [word for word in words if "=" not in word or Path(word).exists()]
    return paths, [word for word in words if word not in paths]


class Output:
    """Where data goes. That it cannot be written there is told, and not tried again when the program ends."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> None:
        with self._told():
            self.stream.write(text)

    def flush(self) -> None:
        with self._told():
            self.stream.flush()

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.stream.fileno())
            told = f"standard output: cannot be written ({error.strerror or error})"
            if error.errno in NO_SPACE:
                raise ResourceError(f"{told}. Make room, or write elsewhere, and run the command again") from error
            raise UsageError(f"{told}; write to a file or a pipe that is open") from error


@contextmanager
def standard_output() -> Iterator[Output]:
    """Standard output, flushed at the end. Only what writing there raises is told as its fault."""
    if sys.stdout is None:
        raise UsageError("standard output is closed: nothing can be written. Leave out `>&-`, or name a file with `>`")
    output = Output(sys.stdout)
    yield output
    output.flush()


def write_text(path: Path, text: str) -> None:
    """Write what a user asked for into a file, or say why that cannot be."""
    try:
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error.strerror or error}); choose another name") from error


def duration(seconds: float) -> str:
    """`3 h 12 min`, `4 min 10 s`, `12 s`."""
    if seconds < 1:
        return "less than 1 s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def size(count: int) -> str:
    """Bytes as `412 MB` or `3.2 GB`."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


def one_line_bar(console: "Console") -> "Progress":
    """A bar with a description behind it, on one line of a terminal of any width; nothing elsewhere."""
    from rich.progress import BarColumn, Progress, TextColumn
    from rich.table import Column

    return Progress(
        BarColumn(bar_width=None, table_column=Column(ratio=1, min_width=4)),
        TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True)),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
