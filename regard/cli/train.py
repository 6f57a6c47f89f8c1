"""`regard train`: from pairs or a recipe to a run folder."""

from pathlib import Path

import typer

from regard.cli.console import messages, score_lines, split_settings
from regard.errors import UsageError
from regard.process import keep_heap


def train(
    what: list[str] = typer.Argument(
        ..., metavar="RECIPE|FILE [key=value]", help="A recipe, a file of pairs or two parallel files; then settings."
    ),
    overwrite: bool = typer.Option(False, "--overwrite", help="Start anew where the run folder holds an earlier run."),
) -> None:
    """Train a model. Run the same command again to go on where it stopped.

    \b
    regard train pairs.tsv
    regard train recipe.yaml run=runs/mine training.steps=300 model.layers=2
    """
    files, overrides = split_settings(what)
    if not files:
        raise UsageError("train needs a recipe or a file of pairs before the settings, as in: regard train pairs.tsv")

    keep_heap()
    from regard.cli.progress import TrainingProgress
    from regard.run.api import recipe_for
    from regard.run.folder import RunFolder
    from regard.run.training import train as run_training

    console = messages()
    recipe, reasons = recipe_for(files, overrides)
    there = RunFolder(Path(recipe.run))
    if reasons and there.begun and not overwrite:
        console.print(f"{there.path} has begun; the choices made for it are in {there.recipe}")
        reasons = ()
    for reason in reasons:
        console.print(f"· {reason}")
    if reasons and overrides:
        console.print(f"· but as you say: {', '.join(overrides)}")
    with TrainingProgress(console) as progress:
        trained = run_training(recipe, observers=[progress], overwrite=overwrite)
    for line in () if progress.left_out else trained.ledger.summary().splitlines():
        console.print(line)
    for name, evaluation in trained.evaluations.items():
        for note in evaluation.notes:
            console.print(f"{name}: {note}")
        for line in score_lines(name, evaluation.scores):
            typer.echo(line)
    console.print(f"the model is in {trained.model.folder}, the report in {trained.model.folder / 'report.html'}")
