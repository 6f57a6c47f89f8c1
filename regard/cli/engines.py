"""`--engine`: what searches."""

from typing import TYPE_CHECKING

import typer

from regard.errors import RegardError, UsageError

if TYPE_CHECKING:
    from regard.run.model import Model

ENGINES = ("auto", "torch", "native")
CHOICES = "|".join(ENGINES)
HELP = "What searches. auto: native where `regard prepare` was used (its 8 bits change results a little), else torch."


def check_engine(name: str) -> None:
    """Refuse names of engines that there are not."""
    if name not in ENGINES:
        raise UsageError(f"--engine {name}: there is no such engine; choose {', '.join(ENGINES[:-1])} or {ENGINES[-1]}")


def searched_by(model: "Model", name: str) -> "Model":
    """The model with its engine; where the native one cannot be used, torch does the work and this is said."""
    from regard.engine import available
    from regard.run.native import is_prepared, with_engine

    if name == "torch" or (name == "auto" and not is_prepared(model)):
        return model
    if reason := available():
        typer.echo(f"regard: torch searches, for the native engine cannot be used: {reason}", err=True)
        return model
    if name == "native":
        return with_engine(model)
    try:
        return with_engine(model)
    except RegardError as error:
        typer.echo(f"regard: torch searches, for engine.bin cannot be used: {error}", err=True)
        return model
