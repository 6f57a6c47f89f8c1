"""`regard-runtime`: predict with a prepared run, where there is no torch.

Nothing but the engine and the tokenizers is imported, so that it starts at once.
"""

import argparse
import io
import os
import signal
import sys
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from regard.errors import RegardError, ResourceError, UsageError
from regard.files import NO_SPACE

if TYPE_CHECKING:
    from regard.engine.prepared import Asking

TOLD: Final = 10
"""Of so many lines it is said what was wrong with them; the others are counted."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="regard-runtime", description="Predict a line for each line with a run that `regard prepare` has prepared."
    )
    parser.add_argument("run", metavar="RUN", help="a run folder with engine.bin and engine.json")
    told = "a text file, plain or .gz; - is standard input"
    parser.add_argument("file", metavar="FILE", nargs="?", default="-", help=told)
    parser.add_argument("--beam", type=int, help="hypotheses kept; 1 is greedy")
    parser.add_argument("--sample", action="store_true", help="draw outputs")
    parser.add_argument("--temperature", type=float, help="of samples: below 1 sharper, above flatter")
    parser.add_argument("--top-k", type=int, help="draw from so many most probable tokens")
    parser.add_argument("--top-p", type=float, help="draw from the most probable tokens of this mass")
    parser.add_argument("--min-p", type=float, help="draw from tokens at least so many times as probable as the best")
    parser.add_argument("--typical", type=float, help="draw from the most typical tokens of this mass")
    parser.add_argument("--seed", type=int, help="of samples: the same gives the same")
    parser.add_argument("--coverage-penalty", type=float, help="weight of GNMT's coverage")
    parser.add_argument("--align", action="store_true", help="add a column with word links, source-target, from 0")
    parser.add_argument("--workers", type=int, help="threads; one for each core if left out")
    parser.add_argument("--at-once", action="store_true", help="answer each line before the next is read")
    asked, unknown = parser.parse_known_intermixed_args()  # FILE may stand behind options
    if unknown:
        parser.error(f"{unknown[0]}: there is no such option here; `regard predict` has more of them")
    return asked


def run(asked: argparse.Namespace) -> None:
    from regard.data.ledger import Ledger
    from regard.data.lines import read_lines
    from regard.engine.prepared import Prepared
    from regard.engine.runtime import MOST_WORKERS

    if asked.workers is not None and not 1 <= asked.workers <= MOST_WORKERS:
        raise UsageError(f"--workers {asked.workers}: there can be 1 to {MOST_WORKERS}")
    model = Prepared(asked.run)
    number, blamed, unended, ledger = 0, 0, 0, Ledger()
    lines = read_lines(asked.file, bad_lines="blank", ledger=ledger)
    windows: Iterable[Iterable[str]] = ([line] for line in lines) if asked.at_once else (lines,)
    predict = partial(model.predict, beam=asked.beam, workers=asked.workers, align=asked.align, **_asking(asked))
    for window in windows:
        for line in predict(window, first=number):
            number += 1
            unended += not line.complete
            sys.stdout.write((_column(line.text) + "\t" + line.links if asked.align else line.text) + "\n")
            if line.remark and (blamed := blamed + 1) <= TOLD:
                sys.stderr.write(f"regard-runtime: line {number}: {line.remark}\n")
        sys.stdout.flush()
    if blamed > TOLD:
        sys.stderr.write(f"regard-runtime: and {blamed - TOLD:,} more lines\n")
    if unended:
        s, its = ("", "its") if unended == 1 else ("s", "their")
        sys.stderr.write(f"regard-runtime: {unended:,} output{s} reached the limit of length before {its} end\n")
    for told in ledger.summary(answered=True).splitlines():
        sys.stderr.write(f"regard-runtime: {told}\n")


def _asking(asked: argparse.Namespace) -> "Asking":
    """What is asked for in the place of what the recipe says."""
    from regard.engine.prepared import Asking

    given = {name: getattr(asked, name) for name in Asking.__annotations__}
    return cast("Asking", {name: value for name, value in given.items() if value is not None and value is not False})


def _column(text: str) -> str:
    """A tab in a text would make two columns of it."""
    return text.replace("\t", " ")


def main() -> None:
    """Run, and leave with the exit code that says what happened."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    if sys.stdout is None:
        sys.stderr.write("regard-runtime: standard output is closed: nothing can be written\n")
        sys.exit(UsageError.exit_code)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="replace")
    try:
        run(arguments())
    except RegardError as error:
        sys.stderr.write(f"regard-runtime: {error}\n")
        sys.exit(error.exit_code)
    except MemoryError:
        sys.stderr.write("regard-runtime: there is not enough memory\n")
        sys.exit(ResourceError.exit_code)
    except OSError as error:
        sys.stderr.write(f"regard-runtime: {error.filename or 'standard output'}: {error.strerror or error}\n")
        sys.stderr.flush()
        os._exit(ResourceError.exit_code if error.errno in NO_SPACE else UsageError.exit_code)  # nothing can be flushed
    except KeyboardInterrupt:
        sys.stderr.write("regard-runtime: stopped by SIGINT\n")
        sys.stderr.flush()
        os._exit(130)
