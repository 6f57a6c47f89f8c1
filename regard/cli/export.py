"""`regard export`: a model for another program."""

import typer


def export(
    run: str = typer.Argument(..., metavar="RUN", help="A run folder."),
    folder: str = typer.Argument(..., metavar="FOLDER", help="The folder to write."),
    to: str = typer.Option(..., "--to", metavar="PROGRAM", help="huggingface or ctranslate2."),
    quantization: str | None = typer.Option(
        None, "--quantization", metavar="TYPE", help="Of the weights for ctranslate2: int8, int16, float16, ..."
    ),
    overwrite: bool = typer.Option(False, "--overwrite", help="Write over an earlier export."),
) -> None:
    """Write a Transformer for Hugging Face's transformers (Marian or Pegasus layout) or for CTranslate2.

    The README.md in the folder says how to use it. What cannot go there is refused with the reason.
    """
    from regard.interchange.exporting import export as write
    from regard.run.model import Model

    exported = write(Model.load(run), folder, to=to, quantisation=quantization, overwrite=overwrite)
    for note in exported.notes:
        typer.echo(f"regard: {note}", err=True)
    typer.echo(f"{exported.folder}: {exported.layout}; README.md says how to load it", err=True)
