"""`regard import`: a model from elsewhere as a run folder."""

import typer


def import_(
    folder: str = typer.Argument(..., metavar="FOLDER", help="A checkpoint folder of Hugging Face Transformers."),
    run: str = typer.Argument(..., metavar="RUN", help="The run folder to make."),
) -> None:
    """Make a run folder of a Transformers checkpoint of Marian, BART, T5 or BERT layout."""
    from regard.interchange import import_checkpoint

    imported = import_checkpoint(folder, run)
    for note in imported.notes:
        typer.echo(f"regard: {note}", err=True)
    typer.echo(
        f"imported a model of {imported.layout} layout with {imported.model.parameters:,} parameters; now: "
        f"regard predict {run}",
        err=True,
    )
