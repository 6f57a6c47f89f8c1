"""`regard prepare`: a model for the native engine."""

import typer


def prepare(
    run: str = typer.Argument(..., metavar="RUN", help="A run folder."),
    float32: bool = typer.Option(False, "--float32", help="Keep 32 bits: the tokens of torch, in a larger file."),
) -> None:
    """Write engine.bin beside the weights of a run, for fast search on CPU.

    `regard predict` and `regard evaluate` use it from then on; `--engine torch` does without it.

    Weights go into 8 bits, with a scale for each output of a map. A model that the engine cannot run is refused, with
    the reason.
    """
    from regard.engine import available
    from regard.engine.prepared import NAME, SETTINGS
    from regard.run.model import Model
    from regard.run.native import prepare_model

    model = Model.load(run)
    reason = prepare_model(model, int8=not float32)
    size = (model.folder / NAME).stat().st_size
    typer.echo(f"{model.folder / NAME}: {size / 1e6:.1f} MB, {'32' if float32 else '8'} bits", err=True)
    if missing := available():
        typer.echo(f"regard: it cannot be used here: {missing}", err=True)
    if reason:
        typer.echo(f"regard: without {SETTINGS}, so not for regard-runtime: {reason}", err=True)
