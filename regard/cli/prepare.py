"""`regard prepare`: a model for the native engine."""

import typer


def prepare(
    run: str = typer.Argument(..., metavar="RUN", help="A run folder."),
    float32: bool = typer.Option(False, "--float32", help="Keep 32 bits: the tokens of torch, four times the size."),
) -> None:
    """Write engine.bin beside the weights of a run, for fast search on CPU (`--engine native`).

    Weights go into 8 bits, with a scale for each output of a map. A model that the engine cannot run is refused, with
    the reason.
    """
    from regard.engine.preparation import NAME
    from regard.run.folder import RunFolder
    from regard.run.model import Model
    from regard.run.native import prepare_run

    model = Model.load(run)
    prepare_run(model.system, RunFolder(model.folder), int8=not float32)
    size = (model.folder / NAME).stat().st_size
    typer.echo(f"{model.folder / NAME}: {size / 1e6:.1f} MB, {'32' if float32 else '8'} bits", err=True)
