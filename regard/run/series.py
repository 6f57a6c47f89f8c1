"""Several runs as one piece of work: each in a process of its own, and what is finished is not done again.

A run that is finished has a `finished.json` beside its other files: of which recipe and which data it is, what it
reached, and what it wrote for the test set. Where any of that has changed, the run is asked for again, and goes on or
refuses as `train` does.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.data.store import hash_file
from regard.errors import DataError, DivergedError, RegardError, UsageError
from regard.files import replace_file
from regard.process import cores
from regard.recipe import dump_recipe
from regard.recipe.schema import AlignmentReading, Recipe
from regard.run.crews import module_paths
from regard.run.folder import RunFolder
from regard.training.interrupt import heeding_signals

if TYPE_CHECKING:
    from regard.run.training import Trained

FINISHED, CONSOLE = "finished.json", "console.txt"
PAUSE = 0.1
"""Seconds between two looks at running processes."""


@dataclass(frozen=True, slots=True)
class Job:
    """A run to be made, and what it is called in messages."""

    name: str
    recipe: Recipe


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """What a run reached: the best validation, scores by set and metric, and the outputs for the test set."""

    validation: float
    steps: int
    seconds: float
    scores: Mapping[str, Mapping[str, float]]
    outputs: Sequence[str]


@dataclass(frozen=True, slots=True)
class Failed:
    """A run that did not come to its end, and what it said."""

    message: str
    code: int


Result = Finished | Failed


def runs_at_once(workers: int, runs: int) -> int:
    """How many of some runs there will be at a time; each has its share of the cores."""
    if not 1 <= workers <= cores():
        raise UsageError(f"{workers} runs at a time: there are {cores()} cores, so at least 1 and at most {cores()}")
    return max(1, min(workers, runs))


def lower_is_better(select: str) -> bool:
    """Whether a smaller value of what validation is judged by is the better one."""
    from regard.metrics import metric

    return select == "loss" or not metric(select).higher_is_better


def remember(recipe: Recipe, trained: "Trained") -> None:
    """Write down that a run is finished."""
    best = trained.outcome.progress.best
    if best is None:
        raise DivergedError(f"{recipe.run}: no validation gave a number; lower training.learning_rate")
    folder = RunFolder(Path(recipe.run))
    finished = Finished(
        validation=-best if lower_is_better(recipe.training.select) else best,
        steps=trained.outcome.progress.step,
        seconds=trained.outcome.progress.seconds,
        scores={
            name: {score.name: score.value for score in evaluation.scores}
            for name, evaluation in trained.evaluations.items()
        },
        outputs=[prediction.text for prediction in trained.evaluations["test"].predictions],
    )
    folder.write_json(folder.path / FINISHED, {"format": 1, "of": _identity(recipe), **asdict(finished)})


def finished_run(recipe: Recipe) -> Finished | None:
    """What a run reached if it is finished, from this recipe and these data."""
    folder = RunFolder(Path(recipe.run))
    record: Any = folder.read_json(folder.path / FINISHED)
    if not isinstance(record, dict) or not folder.metrics.is_file() or record.get("of") != _identity(recipe):
        return None
    names = ("validation", "steps", "seconds", "scores", "outputs")
    return Finished(**{name: record[name] for name in names}) if all(name in record for name in names) else None


def _identity(recipe: Recipe) -> dict[str, object]:
    """What makes a run what it is: settings, data, and what was measured in the end."""
    folder = RunFolder(Path(recipe.run))
    plain = recipe.model_copy(
        update={
            "run": "",
            "training": recipe.training.model_copy(update={"threads": None}),
            "evaluation": recipe.evaluation.model_copy(update={"alignment": AlignmentReading()}),
        }
    )
    section = recipe.data
    files: list[str] = []
    for paths in (section.train, section.valid, section.test, *section.further.values()):
        files += [paths] if isinstance(paths, str) else paths or ()
    return {
        "recipe": sha256(dump_recipe(plain).encode()).hexdigest(),
        "data": [_digest_or_nothing(Path(file)) for file in files],
        "metrics": hash_file(folder.metrics) if folder.metrics.is_file() else None,
    }


def digest(path: Path) -> str:
    """The hash of a file, computed once as long as the file stays as it is."""
    if not path.exists():
        return hash_file(path)
    there = path.stat()
    return _digest(path, there.st_mtime_ns, there.st_size)


def _digest_or_nothing(path: Path) -> str:
    """What cannot be read is told by the run that needs it."""
    try:
        return digest(path)
    except DataError:
        return ""


@lru_cache(maxsize=1024)
def _digest(path: Path, changed: int, size: int) -> str:
    del changed, size  # they tell one state of the file from another
    return hash_file(path)


@dataclass(frozen=True, slots=True)
class _Running:
    job: Job
    process: "subprocess.Popen[bytes]"
    console: Path


def train_all(
    jobs: Sequence[Job], *, workers: int, tell: Callable[[str], None], overwrite: bool = False
) -> dict[str, Result]:
    """Train what is not finished, so many at a time; a run that fails is told and does not stop the others.

    Processes have the cores between them, and one that is alone has all. Where this one is stopped, they save their
    state first. `overwrite` trains all of them anew.
    """
    at_once = runs_at_once(workers, len(jobs))
    threads = cores() // at_once
    results: dict[str, Result] = {}
    waiting: list[Job] = []
    for job in jobs:
        finished = None if overwrite else finished_run(job.recipe)
        if finished is None:
            waiting.append(job)
        else:
            results[job.name] = finished
            tell(f"{job.name}: finished before")
    _check_threads(waiting, at_once, overwrite=overwrite)
    running: list[_Running] = []
    with heeding_signals():
        try:
            while waiting or running:
                while waiting and len(running) < at_once:
                    tell(f"{waiting[0].name}: training")
                    running.append(_start(waiting.pop(0), threads, overwrite=overwrite))
                for one in [one for one in running if one.process.poll() is not None]:
                    running.remove(one)
                    results[one.job.name] = _collect(one)
                    tell(_told(one.job.name, results[one.job.name]))
                time.sleep(PAUSE)
        finally:
            for one in running:
                _let_go(one)
            for one in running:
                one.process.wait()
    return {job.name: results[job.name] for job in jobs}


def _check_threads(jobs: Sequence[Job], at_once: int, *, overwrite: bool) -> None:
    """Refuse runs that need more cores than there are; one that goes on has the threads that were measured for it."""
    from regard.run.settling import as_begun

    for job in jobs:
        recipe = job.recipe
        with suppress(RegardError):  # what cannot be read is told by the run itself
            recipe = recipe if overwrite else as_begun(recipe)
        said = recipe.training.threads
        if isinstance(said, int) and said * at_once > cores():
            measured = ", measured when it began" if job.recipe.training.threads == "auto" else ""
            raise UsageError(
                f"{job.name}: {at_once} runs at a time with {said} threads each (training.threads{measured}) need more "
                f"than the {cores()} cores there are; lower one of them"
            )


def _start(job: Job, threads: int, *, overwrite: bool) -> _Running:
    folder = RunFolder(Path(job.recipe.run))
    console = folder.path / CONSOLE
    replace_file(console, b"")
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "PYTHONPATH": module_paths()}
    with console.open("ab") as file:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "regard.run.child"],
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=file,
            env=environment,
            start_new_session=True,  # a signal from the terminal is for the process that waits
        )
    assert process.stdin is not None
    request = {"name": job.name, "recipe": dump_recipe(job.recipe), "threads": threads, "overwrite": overwrite}
    with suppress(BrokenPipeError):  # it may have ended at once, and says why
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
    return _Running(job, process, console)


def _let_go(one: _Running) -> None:
    assert one.process.stdin is not None
    with suppress(BrokenPipeError):
        one.process.stdin.close()


def _collect(one: _Running) -> Result:
    """What a process that has ended came to."""
    _let_go(one)
    code = one.process.returncode
    finished = finished_run(one.job.recipe) if code == 0 else None
    if finished is not None:
        return finished
    if code < 0:
        return Failed(f"stopped by {signal.Signals(-code).name}", 128 - code)
    lines = one.console.read_text(encoding="utf-8", errors="replace").splitlines()
    told = next((line.removeprefix("regard: ") for line in reversed(lines) if line.startswith("regard: ")), "")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
    return Failed(told or f"{last} (all of it is in {one.console})", code or 1)


def _told(name: str, result: Result) -> str:
    match result:
        case Finished(steps=steps, seconds=seconds, scores=scores):
            values = ", ".join(f"{metric} {value:.2f}" for metric, value in scores["test"].items())
            return f"{name}: {values or 'done'}; {steps:,} steps, {seconds / 60:.1f} minutes"
        case Failed(message=message, code=code):
            return f"{name}: failed with exit code {code}: {message}"
