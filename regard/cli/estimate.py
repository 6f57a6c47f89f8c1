"""`regard estimate`: what a training will take, before it is begun."""

import json
from typing import TYPE_CHECKING

import typer

from regard.cli.console import duration, size, split_settings
from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.run.estimating import Estimate


def estimate(
    what: list[str] = typer.Argument(
        ..., metavar="RECIPE|FILE [key=value]", help="A recipe, a file of pairs or two parallel files; then settings."
    ),
    seconds: float = typer.Option(30.0, "--seconds", min=1, help="How long the trial may take, preparation aside."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Tell how long a training will take and how much memory, from a short trial of it.

    \b
    regard estimate recipe.yaml
    regard estimate pairs.tsv training.steps=20000 --json
    """
    files, overrides = split_settings(what)
    if not files:
        raise UsageError("estimate needs a recipe or a file of pairs before the settings: regard estimate recipe.yaml")
    from regard.run.api import recipe_for
    from regard.run.estimating import estimate as try_out

    recipe, _ = recipe_for(files, overrides)
    found = try_out(recipe, seconds=seconds)
    for line in [json.dumps(found.to_json())] if as_json else lines_of(found):
        typer.echo(line)


def lines_of(found: "Estimate") -> list[str]:
    """An estimate for people."""
    least = ", if patience does not end it sooner" if found.by_patience else ""
    free = "" if found.memory_free is None else f"; {size(found.memory_free)} are free"
    rows = [
        ("time", f"about {duration(found.total_seconds)}{least}"),
        ("  preparation", duration(found.preparation_seconds)),
        (
            "  training",
            f"{duration(found.training_seconds)}: {found.steps:,} steps of {found.step_seconds:.3g} s, {found.way}, "
            f"{found.tokens_per_second:,.0f} tokens/s",
        ),
        (
            "  validation",
            f"{duration(found.validations * found.validation_seconds)}: {found.validations:,} times "
            f"{found.validation_seconds:.2g} s",
        ),
        ("  evaluation", duration(found.evaluation_seconds)),
        ("memory", f"about {size(found.memory)}{free}"),
    ]
    width = max(len(name) for name, _ in rows)
    return [*(f"{name:<{width}}  {told}" for name, told in rows), *([found.advice] if found.advice else [])]
