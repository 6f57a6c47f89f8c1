"""`--engine`: what searches."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from regard.errors import RegardError, UsageError

if TYPE_CHECKING:
    from regard.run.model import Model

ENGINES = ("auto", "torch", "native", "ctranslate2")
OTHERS = ENGINES[2:]
"""Those that are not torch, and that are asked for by their names."""

CHOICES = "|".join(ENGINES)
HELP = (
    "What searches. auto: native where the run is prepared (`regard prepare`: 8 bits change results a little) or a "
    "file is worth it (32 bits), else torch."
)
WORTH: Final = 16_384
"""Bytes of files for which an engine file is made by itself, which takes as long as some dozens of lines."""


def check_engine(name: str) -> None:
    """Refuse names of engines that there are not."""
    if name not in ENGINES:
        raise UsageError(f"--engine {name}: there is no such engine; choose {', '.join(ENGINES[:-1])} or {ENGINES[-1]}")


def searched_by(model: "Model", name: str, *, files: Sequence[str] = ()) -> "Model":
    """The model with its engine; where the native one cannot be used, torch does the work and this is said.

    `auto` makes an engine file where there is none and `files` are large enough, if it can.
    """
    if name == "torch":
        return model
    if name == "ctranslate2":
        from regard.interchange.ctranslate2_engine import with_ctranslate2

        return with_ctranslate2(model)
    from regard.engine import available
    from regard.engine.refusals import NotForEngine
    from regard.run.native import is_prepared, made_by_itself, of_one_run, with_engine

    prepared = is_prepared(model)
    if name == "auto" and not prepared and not (of_one_run(model) and _worth_it(files)):
        return model
    if reason := available():
        typer.echo(f"regard: torch searches, for the native engine cannot be used: {reason}", err=True)
        return model
    if name == "auto" and not prepared and not made_by_itself(model):
        return model
    try:
        native = with_engine(model)
    except NotForEngine as error:
        typer.echo(f"regard: torch searches, for the native engine cannot run this model: {error.reason}", err=True)
        return model
    except RegardError as error:
        if name == "native" or isinstance(error, UsageError):
            raise
        again = f"`regard prepare {model.folder}`, with --float32 if it had 32 bits"
        typer.echo(f"regard: torch searches, for engine.bin cannot be used: {error} ({again})", err=True)
        return model
    if not prepared:
        _tell_made(native)
    return native


def in_8_bits(model: "Model") -> bool:
    """Whether results are those of rounded weights."""
    return model.engine is not None and model.engine.quantised


def _worth_it(files: Sequence[str]) -> bool:
    """Whether files are large enough; pipes and standard input have no size."""
    return sum(Path(file).stat().st_size for file in files if Path(file).is_file()) >= WORTH


def _tell_made(model: "Model") -> None:
    path = model.folder / "engine.bin"
    bits = "8 bits, which change results a little" if in_8_bits(model) else "32 bits"
    typer.echo(
        f"regard: made {path} ({path.stat().st_size / 1e6:.1f} MB, {bits}) for a faster search; --engine torch does "
        "without it",
        err=True,
    )
