"""`regard train`: from pairs or a recipe to a run folder, in one process or in several."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from regard.cli.console import messages, score_lines, split_settings, tell_error
from regard.errors import DivergedError, LostError, UsageError
from regard.process import MEETING, SUPERVISOR, cores, keep_torch_quiet, one_of_several

RESTARTS = "TORCHELASTIC_MAX_RESTARTS"
"""In the environment of a process of torchrun: how often it may start all of them again, with the same arguments."""

if TYPE_CHECKING:
    from regard.recipe.schema import Recipe
    from regard.training import Event
    from regard.training.processes import Processes


def train(
    what: list[str] = typer.Argument(
        ..., metavar="RECIPE|FILE [key=value]", help="A recipe, a file of pairs or two parallel files; then settings."
    ),
    overwrite: bool = typer.Option(False, "--overwrite", help="Start anew where the run folder holds an earlier run."),
    workers: int = typer.Option(1, "--workers", min=1, help="Processes on this machine that share each batch."),
    max_restarts: int | None = typer.Option(
        None, "--max-restarts", min=0, help="How often workers start again when one is lost. [default: 3]"
    ),
) -> None:
    """Train a model. Run the same command again to go on where it stopped.

    \b
    regard train pairs.tsv
    regard train recipe.yaml run=runs/mine training.steps=300 model.layers=2
    regard train recipe.yaml --workers 2
    """
    files, overrides = split_settings(what)
    if not files:
        raise UsageError("train needs a recipe or a file of pairs before the settings, as in: regard train pairs.tsv")
    if one_of_several():
        if workers > 1:
            raise UsageError("this is one of several processes already, so --workers cannot start more; leave it out")
        if overwrite and int(os.environ.get(RESTARTS, "0")):
            raise UsageError(
                "--overwrite would delete what is saved at every restart that torchrun --max-restarts allows; delete "
                "the run folder yourself, choose another with run=FOLDER, or leave out --max-restarts"
            )
        _take_part(files, overrides, overwrite=overwrite)
        return
    if max_restarts is not None and workers == 1:
        raise UsageError("--max-restarts is about several workers, and there is one; give --workers, or leave it out")
    if workers > 1:
        from regard.run.workers import Crew, supervise

        crew = Crew(
            command=(sys.executable, "-P", "-m", "regard", "train", *what),
            first=("--overwrite",) if overwrite else (),
            workers=workers,
            max_restarts=3 if max_restarts is None else max_restarts,
            tell=lambda line: typer.echo(line, err=True),
        )
        raise typer.Exit(supervise(crew))
    from regard.training.processes import Alone

    _train(files, overrides, Alone(), overwrite=overwrite)


def _take_part(files: list[str], overrides: list[str], *, overwrite: bool) -> None:
    """Be one of several processes.

    Whoever fails leaves at once: what torch has under way with processes that are gone would hold up a normal end.
    """
    keep_torch_quiet()
    from regard.training.interrupt import Interrupted
    from regard.training.processes import joined

    rank = int(os.environ["RANK"])
    try:
        with joined() as processes:
            if processes.main:
                _train(files, overrides, processes, overwrite=overwrite)
            else:
                _assist(files, overrides, processes)
    except Exception as error:
        heard = LostError if SUPERVISOR in os.environ else ()
        if isinstance(error, heard) or (rank and isinstance(error, LostError | Interrupted | DivergedError)):
            code = error.exit_code
        else:
            code = tell_error(error, "regard" if rank == 0 else f"regard (process {rank})")
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _train(files: list[str], overrides: list[str], processes: "Processes", *, overwrite: bool) -> None:
    from regard.cli.progress import TrainingProgress
    from regard.run.api import recipe_for
    from regard.run.folder import RunFolder
    from regard.run.training import train as run_training

    console = messages()
    with processes.main_first():
        recipe, reasons = recipe_for(files, overrides)
    there = RunFolder(Path(recipe.run))
    if reasons and there.begun and not overwrite:
        console.print(f"{there.path} has begun; the choices made for it are in {there.recipe}")
        reasons = ()
    for reason in reasons:
        console.print(f"· {reason}")
    if reasons and overrides:
        console.print(f"· but as you say: {', '.join(overrides)}")
    if line := _oversubscribed(recipe, processes):
        console.print(line, style="yellow")
    with TrainingProgress(console) as progress:
        trained = run_training(recipe, observers=[_mark_begun, progress], overwrite=overwrite, processes=processes)
    for line in () if progress.left_out else trained.ledger.summary().splitlines():
        console.print(line)
    for name, evaluation in trained.evaluations.items():
        for note in evaluation.notes:
            console.print(f"{name}: {note}")
        for line in score_lines(name, evaluation.scores):
            typer.echo(line)
    console.print(f"the model is in {trained.model.folder}, the report in {trained.model.folder / 'report.html'}")


def _assist(files: list[str], overrides: list[str], processes: "Processes") -> None:
    from regard.run.api import recipe_for
    from regard.run.training import assist

    with processes.main_first():
        recipe, _ = recipe_for(files, overrides)
    assist(recipe, processes)


def _oversubscribed(recipe: "Recipe", processes: "Processes") -> str:
    """A warning where the threads of all processes here are more than the cores.

    What `auto` has measured for one process is not kept by several: see `regard.run.settling.keep_chosen`.
    """
    wanted = recipe.training.threads
    threads = wanted if isinstance(wanted, int) else 1
    if threads * processes.local_world <= cores():
        return ""
    here = f"{cores()} core{'s' * (cores() > 1)}"
    if processes.local_world == 1:
        return f"`training.threads: {threads}` on {here}: threads hold each other up; give no more than there are cores"
    return (
        f"{processes.local_world} processes with `training.threads: {threads}` share {here} and hold each other up; "
        "give fewer threads"
    )


def _mark_begun(event: "Event") -> None:
    """Let whoever starts workers again know that what was asked of the first attempt only is done."""
    from regard.training import Started

    if isinstance(event, Started) and MEETING in os.environ:
        Path(os.environ[MEETING]).with_name("begun").touch()
