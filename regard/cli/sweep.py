"""`regard sweep`: every combination of some settings, each from several seeds, in one table."""

import typer

from regard.cli.console import messages, split_settings, terminal_width
from regard.errors import UsageError


def sweep(
    what: list[str] = typer.Argument(
        ...,
        metavar="RECIPE|FILE [key=value,value]",
        help="A recipe, a file of pairs or two parallel files; then settings, of which some have several values. A "
        "list in brackets is one value.",
    ),
    seeds: int = typer.Option(1, "--seeds", min=1, help="Runs of each combination, from the recipe's seed on."),
    workers: int = typer.Option(1, "--workers", min=1, help="Runs at a time, in processes that share the cores."),
    overwrite: bool = typer.Option(False, "--overwrite", help="Train all runs anew."),
) -> None:
    """Train every combination of settings, and tell which is best on validation data.

    Everything goes into the folder RUN-sweep. Run the same command again to go on where it stopped.

    \b
    regard sweep recipe.yaml model.layers=1,2 model.dropout=0,0.1 --seeds 3 --workers 2
    regard sweep recipe.yaml --seeds 5
    """
    files, settings = split_settings(what)
    if not files:
        raise UsageError("sweep needs a recipe or a file of pairs before the settings, as in: regard sweep recipe.yaml")

    from regard.run.sweep import sweep as run_sweep
    from regard.run.sweep_results import sweep_lines, sweep_table, write_sweep

    console = messages()
    result = run_sweep(files, *settings, seeds=seeds, workers=workers, overwrite=overwrite, tell=console.print)
    write_sweep(result)
    for line in sweep_lines(sweep_table(result), terminal_width()):
        typer.echo(line)
    for note in (*result.notes, *(f"failed: {each}" for each in result.failures)):
        console.print(note)
    console.print(f"the table is in {result.folder / 'sweep.md'}, with a picture in {result.folder / 'sweep.html'}")
    if result.exit_code:
        raise typer.Exit(result.exit_code)
