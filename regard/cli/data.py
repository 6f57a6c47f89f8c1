"""`regard data`: what there is, making the pocket world, checking files before training."""

import os
from pathlib import Path

import typer

from regard.errors import DataError, UsageError

app = typer.Typer(help="List, make and check data.", no_args_is_help=True, rich_markup_mode=None)


@app.command("list")
def list_() -> None:
    """List the built-in data, and the corpora in the folder that REGARD_DATA names."""
    from regard.data.catalogue import corpora
    from regard.data.pocket import LANGUAGES, TASKS

    typer.echo("built in (regard data make pocket)")
    for task in TASKS:
        typer.echo(f"  pocket {task}: {', '.join(LANGUAGES)}")
    place = os.environ.get("REGARD_DATA")
    if not place:
        typer.echo("set REGARD_DATA to a folder of corpora to see them here", err=True)
        return
    typer.echo(f"in {place}")
    for corpus in corpora(Path(place)):
        typer.echo(f"  {corpus.name}: {corpus.task}, {corpus.examples:,} examples, {corpus.licence}")
        typer.echo(f"    {corpus.path}")


@app.command("make")
def make(
    world: str = typer.Argument(..., metavar="pocket", help="pocket: the built-in small world."),
    output: Path = typer.Argument(..., metavar="OUT", help="The folder to write to."),
    task: str = typer.Option("translation", "--task", help="What the pairs are for."),
    size: int = typer.Option(20000, "--size", min=1, max=10_000_000, help="Training pairs."),
    seed: int = typer.Option(1, "--seed", min=0, help="Another seed gives another sample."),
    source: str = typer.Option("en", "--source", help="Source language: en, de, fr."),
    target: str = typer.Option("de", "--target", help="Target language: en, de, fr."),
) -> None:
    """Write train.tsv, valid.tsv, test.tsv and combinations.tsv, with gold annotations in .jsonl files beside them.

    Each line of a .jsonl file has source and target with their alignment, tags, lemmas and a tree, and a topic, a
    sentiment, a rating and the exact log-probability of the sentence.
    """
    from regard.data.pocket import make as make_pocket

    if world != "pocket":
        raise UsageError(f"{world!r} is not known; there is one built-in world: pocket")
    made = make_pocket(output, task=task, size=size, seed=seed, source=source, target=target)
    for name, count in made.lines.items():
        typer.echo(f"{output / name}.tsv: {count:,} pairs", err=True)


@app.command("check")
def check(
    files: list[str] = typer.Argument(
        ..., metavar="FILE", help="Files of pairs; two parallel files are joined by a comma: a.en,a.de"
    ),
    as_json: bool = typer.Option(False, "--json", help="Write the findings as JSON."),
) -> None:
    """Look for trouble before training: counts, lengths, duplicates, overlap, encodings, suspicious pairs.

    The exit code is 4 where something must be mended or skipped before training.
    """
    from regard.cli.console import terminal_width
    from regard.data import check_files, render

    report = check_files(files)
    typer.echo(report.to_json() if as_json else render(report, terminal_width()))
    if not report.ok:
        raise typer.Exit(DataError.exit_code)
