"""`regard demo`: from nothing to a trained model and its report, in a minute or two."""

from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from regard.cli.console import colour, messages, score_lines, split_settings, terminal_width
from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.report import AlignmentPicture

SHOWN = 5


def demo(
    what: list[str] | None = typer.Argument(
        None, metavar="FOLDER|key=value", help="The run folder, runs/demo if left out; settings to change."
    ),
    overwrite: bool = typer.Option(False, "--overwrite", help="Start anew where the folder holds an earlier run."),
) -> None:
    """Train, evaluate and show a small translation model on built-in data."""
    from regard.cli.progress import TrainingProgress
    from regard.report import to_text, wrap
    from regard.run.demo import demo as run_demo

    folders, overrides = split_settings(what or [])
    if len(folders) > 1:
        raise UsageError(f"demo writes to one folder, and {len(folders)} were given: {', '.join(folders)}")
    if any(setting.startswith("run=") for setting in overrides):
        raise UsageError("demo is given its folder without run=, as in: regard demo runs/mine")
    folder = Path(folders[0] if folders else "runs/demo")
    console = messages()
    console.print("making 20,000 sentences of the pocket world, English to German")
    with TrainingProgress(console) as progress:
        trained = run_demo(folder, overrides=overrides, observers=[progress], overwrite=overwrite)
    for name, evaluation in trained.evaluations.items():
        for line in score_lines(name, evaluation.scores):
            typer.echo(line)
    typer.echo("")
    chosen = [one for one in trained.evaluations["test"].predictions if one.text.strip()][:SHOWN]
    pictures = trained.model.align([(one.source, one.text) for one in chosen]) if trained.model.attends else []
    for picture in pictures[:1]:
        typer.echo(to_text(picture, terminal_width(), colour=colour()), color=colour())
    for prediction, shown in zip_longest(chosen, pictures):
        typer.echo(f"\n{prediction.source}\n{prediction.text}")
        links = [] if shown is None else [f"{word}←{seen}" for word, seen in strongest_links(shown)]
        for line in wrap(links, terminal_width() - 2):
            typer.echo(f"  {line}")
    typer.echo(f"\nreport: {folder / 'report.html'}")
    typer.echo(f'try:    regard inspect {folder} "{trained.evaluations["test"].examples[0].source}"')
    typer.echo(f"        regard predict {folder} < FILE")


def strongest_links(picture: "AlignmentPicture") -> list[tuple[str, str]]:
    """Each target word with the source word it looks at most."""
    return [(word, picture.source[picture.strongest(row, most=1)[0][0]]) for row, word in enumerate(picture.target)]
