"""Options of the commands that can ask several runs at once."""

from typing import TYPE_CHECKING, cast

import typer

from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.models.ensemble import Combine
    from regard.run.model import Model

WITH = typer.Option(
    [], "--with", metavar="RUN", help="Another run that writes with the same vocabulary; again for further ones."
)
COMBINE = typer.Option(
    None,
    "--combine",
    metavar="HOW",
    help="Of --with: linear (mean of probabilities, as it is), loglinear (of their logarithms), loglinear_raw.",
)
WEIGHT = typer.Option(
    [], "--weight", metavar="NUMBER", help="Of --with: a weight for RUN, then one for each --with; equal as it is."
)
AVERAGE = typer.Option(
    None, "--average", metavar="NUMBER", help="Take the mean of so many checkpoints of each run, the last ones."
)
LANGUAGE_MODEL = typer.Option(
    None, "--language-model", metavar="RUN", help="A language model of the same vocabulary that has its say."
)
FUSION = typer.Option(
    None, "--fusion", metavar="NUMBER", help="Of --language-model: the weight of its log-probability; 0.2 as it is."
)


def open_runs(
    run: str,
    others: list[str],
    *,
    combine: str | None,
    weights: list[float],
    average: int | None,
    language_model: str | None = None,
    fusion: float | None = None,
) -> "Model":
    """The model that the options ask for; those that would have no effect are refused."""
    idle = [name for name, given in (("--combine", combine), ("--weight", weights)) if given]
    if idle and not others:
        raise UsageError(f"{' and '.join(idle)}: there is one run, and nothing to combine it with; add --with RUN")
    if fusion is not None and language_model is None:
        raise UsageError("--fusion is the weight of a language model: add --language-model RUN, or leave it out")

    from regard.run.joint import load_joint

    return load_joint(
        [run, *others],
        combine=cast("Combine", combine or "linear"),
        weights=weights or None,
        language_model=language_model,
        fusion=fusion,
        average=average,
    )
