"""`regard backtranslate`: a better translation model from pairs and monolingual text."""

from pathlib import Path
from typing import Literal, cast

import typer

from regard.cli.console import messages, split_settings
from regard.errors import UsageError

USAGE = "regard backtranslate recipe.yaml mono.de"


def backtranslate(
    what: list[str] = typer.Argument(
        ...,
        metavar="RECIPE MONO [key=value]",
        help="A recipe, or files of pairs; text of the target language, a line each; then settings. Those of one stage "
        "begin with baseline., reverse. or final.",
    ),
    rounds: int = typer.Option(1, "--rounds", min=1, help="More than 1 needs --source-mono."),
    source_mono: Path | None = typer.Option(
        None, "--source-mono", metavar="FILE", help="Text of the source language, for the second round on."
    ),
    draw: str = typer.Option("sample", "--draw", help="sample: draw translations; beam: the best ones."),
    tagged: bool = typer.Option(True, "--tagged/--untagged", help="Whether synthetic sources begin with <BT>."),
    share: float = typer.Option(0.5, "--share", help="Share of real pairs, by target tokens, in the mixture."),
    workers: int = typer.Option(1, "--workers", min=1, help="Models that are trained at a time, in processes."),
    overwrite: bool = typer.Option(False, "--overwrite", help="Start anew where the folder holds an earlier one."),
) -> None:
    """Train a reverse model, translate monolingual text with it, train again with both, and tell the gain.

    Everything goes into the folder RUN-backtranslation. Run the same command again to go on where it stopped.

    \b
    regard backtranslate recipe.yaml mono.de
    regard backtranslate recipe.yaml mono.de --draw beam --untagged final.training.steps=9000
    """
    files, settings = split_settings(what)
    if len(files) < 2:
        raise UsageError(f"backtranslate needs a recipe and a file of text in the target language, as in: {USAGE}")
    if draw not in ("sample", "beam"):
        raise UsageError(f"--draw {draw}: there are sample and beam")

    from regard.run.api import recipe_for
    from regard.run.backtranslation import STAGES, Plan
    from regard.run.backtranslation import backtranslate as run_backtranslation
    from regard.run.backtranslation_results import gain_lines, told_lines, write_backtranslation

    console = messages()
    staged = [setting for setting in settings if setting.split(".", 1)[0] in STAGES]
    recipe, reasons = recipe_for(files[:-1], [setting for setting in settings if setting not in staged])
    for reason in reasons:
        console.print(f"· {reason}")
    plan = Plan(
        mono=Path(files[-1]),
        source_mono=source_mono,
        rounds=rounds,
        draw=cast(Literal["sample", "beam"], draw),
        tagged=tagged,
        share=share,
        settings=[(stage, setting) for stage, _, setting in (each.partition(".") for each in staged)],
        workers=workers,
    )
    result = run_backtranslation(recipe, plan, tell=console.print, overwrite=overwrite)
    write_backtranslation(result)
    for line in (*result.skipped.splitlines(), *told_lines(result.rounds[-1])):
        console.print(line)
    for line in gain_lines(result):
        typer.echo(line)
    last = result.folder / f"round{plan.rounds}" / "final"
    console.print(f"the model is in {last}, the table in {result.folder / 'backtranslation.md'}")
