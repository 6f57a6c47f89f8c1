"""`--engine`: what searches."""

from typing import TYPE_CHECKING

import typer

from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.run.model import Model

ENGINES = ("torch", "native")


def check_engine(name: str) -> None:
    """Refuse names of engines that there are not."""
    if name not in ENGINES:
        raise UsageError(f"--engine {name}: there is no such engine; choose {' or '.join(ENGINES)}")


def searched_by(model: "Model", name: str) -> "Model":
    """The model with its engine; where the native one was not built, torch does the work and this is said."""
    from regard.engine import available
    from regard.run.native import with_engine

    if name == "torch":
        return model
    if reason := available():
        typer.echo(f"regard: torch searches, for the native engine cannot be used: {reason}", err=True)
        return model
    return with_engine(model)
