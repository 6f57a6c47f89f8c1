"""`regard new`: a commented recipe to start from."""

from pathlib import Path

import typer

from regard.cli.console import write_text
from regard.errors import UsageError

TASKS = (
    "translation",
    "inflection",
    "language",
    "tagging",
    "classification",
    "rating",
    "generation",
    "captioning",
    "pretraining",
)
"""As in the schema, which is not read for help."""


def new(
    task: str | None = typer.Argument(None, metavar="TASK", help=f"One of {', '.join(TASKS)}."),
    output: Path | None = typer.Option(None, "--output", "-o", help="Write to a file instead of standard output."),
) -> None:
    """Write a commented recipe."""
    from regard.recipe import new_recipe

    if task is None:
        raise UsageError(f"name a task, as in: regard new translation. There is {', '.join(TASKS)}")
    if output is None:
        typer.echo(new_recipe(task), nl=False)
        return
    if output.exists():
        raise UsageError(f"{output}: there is a file already; choose another name or delete it first")
    write_text(output, new_recipe(task, file=str(output)))
    typer.echo(f"wrote {output}; name your data in it, then: regard train {output}", err=True)
