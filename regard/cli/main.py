"""The command line: one thin file per verb, registered here.

Data goes to standard output, everything else to standard error. Nothing here imports torch before a verb needs it,
and what must be settled before that is settled here.
"""

import io
import signal
import sys
import warnings
from typing import Any

import typer

from regard import __version__
from regard.cli import (
    backtranslate,
    compare,
    data,
    demo,
    estimate,
    evaluate,
    export,
    human,
    import_,
    inspect,
    new,
    predict,
    prepare,
    rerank,
    score,
    sweep,
    train,
)
from regard.cli.console import tell_error
from regard.cli.stopping import stopping_at_once
from regard.process import settle

app = typer.Typer(
    name="regard",
    help="Learn to turn one sequence into another, and look inside while it works.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"regard {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Show the version."),
) -> None:
    """Options that stand before the verb."""


app.command("demo")(stopping_at_once()(demo.demo))
app.command("new")(new.new)
app.command("estimate")(estimate.estimate)
app.command("train")(stopping_at_once()(train.train))
app.command("predict")(predict.predict)
app.command("rerank")(rerank.rerank)
app.command("score")(score.score)
app.command("evaluate")(evaluate.evaluate)
app.command("compare")(compare.compare)
app.command("inspect")(inspect.inspect)
app.command("backtranslate")(backtranslate.backtranslate)
app.command("sweep")(sweep.sweep)
app.command("export")(export.export)
app.command("import")(import_.import_)
app.command("prepare")(prepare.prepare)
app.add_typer(data.app, name="data")
app.add_typer(human.app, name="human")


_python_format = warnings.formatwarning


def format_warning(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> str:
    """A warning of ours as a line for people; others with file and line, as Python shows them."""
    ours = category.__module__.startswith("regard.")
    return f"regard: {message}\n" if ours else _python_format(message, category, *place, **more)


def main() -> None:
    """Run, and leave with the exit code that says what happened."""
    warnings.formatwarning = format_warning
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    settle()
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="replace")
    try:
        app(standalone_mode=True)
    except SystemExit as end:
        if end.code == 128 + signal.SIGINT:
            typer.echo("regard: stopped by SIGINT", err=True)
        raise
    except Exception as error:
        sys.exit(tell_error(error))


if __name__ == "__main__":
    main()
