"""`regard train`: from pairs or a recipe to a run folder."""

import typer

from regard.errors import UsageError


def train(
    what: list[str] = typer.Argument(
        ..., metavar="RECIPE|FILE [FILE] [key=value ...]", help="A recipe, or pairs, or two parallel files; settings."
    ),
    overwrite: bool = typer.Option(False, "--overwrite", help="Start anew where the run folder holds an earlier run."),
) -> None:
    """Train a model. Run the same command again to go on where it stopped.

    regard train pairs.tsv
    regard train recipe.yaml run=runs/mine training.steps=300 model.layers=2
    """
    files = [part for part in what if "=" not in part]
    overrides = [part for part in what if "=" in part]
    if not files:
        raise UsageError("train needs a recipe or a file of pairs before the settings, as in: regard train pairs.tsv")

    from regard.cli.console import messages, score_lines
    from regard.cli.progress import TrainingProgress
    from regard.run.api import recipe_for
    from regard.run.training import train as run_training

    console = messages()
    recipe, reasons = recipe_for(files, overrides)
    for reason in reasons:
        console.print(f"· {reason}", markup=False)
    with TrainingProgress(console) as progress:
        trained = run_training(recipe, observers=[progress], overwrite=overwrite)
    for line in trained.ledger.summary().splitlines():
        console.print(line, markup=False)
    for name, evaluation in trained.evaluations.items():
        for line in score_lines(name, evaluation.scores):
            typer.echo(line)
    console.print(f"the model is in {trained.model.folder}, the report in {trained.model.folder / 'report.html'}")
