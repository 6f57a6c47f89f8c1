"""`regard demo`: from nothing to a trained model and its report, in a minute or two."""

from pathlib import Path

import typer


def demo(
    folder: Path = typer.Argument(Path("runs/demo"), help="The run folder."),
    overrides: list[str] = typer.Argument(None, metavar="[key=value ...]", help="Settings to change."),
    overwrite: bool = typer.Option(False, "--overwrite", help="Start anew where the folder holds an earlier run."),
) -> None:
    """Train, evaluate and show a small translation model on built-in data."""
    from regard.cli.console import colour, messages, score_lines, terminal_width
    from regard.cli.progress import TrainingProgress
    from regard.report import to_text
    from regard.run.demo import demo as run_demo

    console = messages()
    console.print("making 20,000 sentences of the pocket world, English to German")
    with TrainingProgress(console) as progress:
        trained = run_demo(folder, overrides=overrides or (), observers=[progress], overwrite=overwrite)
    for name, evaluation in trained.evaluations.items():
        for line in score_lines(name, evaluation.scores):
            typer.echo(line)
    typer.echo("")
    chosen = trained.evaluations["test"].predictions[:5]
    pictures = trained.model.align([(one.source, one.text) for one in chosen])
    for prediction, picture in zip(chosen, pictures, strict=True):
        typer.echo(f"{prediction.source}\n→ {prediction.text}")
        typer.echo(to_text(picture, terminal_width(), colour=colour()) + "\n")
    typer.echo(f"report: {folder / 'report.html'}")
    typer.echo(f'try: regard predict {folder} < FILE    regard inspect {folder} "{chosen[0].source}"')
