"""Train one recipe with one seed by the real command, judge it, and make the row that is kept of it.

Training is told that validation data is its test set, so that nothing but the last step here ever reads the test set:
once for each finished training, and never for an experiment.
"""

import hashlib
import json
import math
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from published.entries import Bucket, Value, kept_value
from published.heads import settings_hash

import regard
from multi30k.corpus import TEST, part_files
from multi30k.plan import Planned
from multi30k.rows import Cost, Place, Row
from regard.files import replace_file
from regard.metrics import Score, metric
from regard.metrics.breakdown import by_length
from regard.report import read_log

ROOT: Final = Path(__file__).resolve().parents[2]
LENGTHS: Final = (8, 10, 12, 14, 17, 21)
"""Where buckets of source lengths begin; the first has all that is shorter."""

SMALL_SETTINGS: Final = (
    "model.width=16",
    "training.steps=6",
    "training.validate_every=3",
    "training.batch_tokens=600",
    "training.warmup=2",
    "search.max_length=20",
    "evaluation.resamples=20",
)
"""What makes any recipe a matter of seconds."""

RUNNING: set[subprocess.Popen[bytes]] = set()
"""Commands under way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One training: which recipe, with which seed, limit and changes."""

    row: Planned
    seed: int
    threads: int
    minutes: float | None = None
    experiment: str = ""
    settings: tuple[str, ...] = ()
    small: bool = False

    @property
    def name(self) -> str:
        """Of the run and its files: changed settings and another limit are a run of their own."""
        changed = hashlib.sha256("\n".join(self.settings).encode()).hexdigest()[:8] if self.settings else ""
        limit = "" if self.minutes is None else f"{self.minutes:g}m"
        return "-".join(filter(None, (self.row.recipe, str(self.seed), changed, limit)))

    @property
    def recipe(self) -> str:
        """The text of the recipe."""
        return recipe_path(self.row.recipe).read_text(encoding="utf-8")

    @property
    def identity(self) -> tuple[object, ...]:
        """As rows have it."""
        return (
            self.row.recipe,
            settings_hash(self.recipe),
            self.seed,
            self.minutes,
            self.settings,
            bool(self.experiment),
        )

    def arguments(self) -> list[str]:
        """Of `regard train`, in the folder."""
        judged = ", ".join(part_files(self.row, "val"))
        settings = [f"run=runs/{self.name}", f"seed={self.seed}", f"training.threads={self.threads}"]
        settings += [f"data.test=[{judged}]", *self.settings]
        if self.minutes is not None:
            settings.append(f"training.minutes={self.minutes:g}")
        if self.small:
            settings += SMALL_SETTINGS
            settings += ["text.size=700"] * ("size:" in self.recipe)
        return [f"recipes/multi30k/{self.row.recipe}.yaml", *settings]


def recipe_path(name: str) -> Path:
    return ROOT / "recipes/multi30k" / f"{name}.yaml"


def run(asked: Asked, folder: Path, *, again: bool) -> Row:
    """Train, or go on where a training was stopped, then judge; another recipe than it was begun with starts anew."""
    copy = folder / "recipes/multi30k" / f"{asked.row.recipe}.yaml"
    copy.parent.mkdir(parents=True, exist_ok=True)
    replace_file(copy, asked.recipe.encode())
    state_file = folder / "state" / f"{asked.name}.json"
    state_file.parent.mkdir(exist_ok=True)
    begun = [settings_hash(asked.recipe), *asked.settings]
    state: dict[str, Any] = {"begun": begun, "seconds": 0.0, "cpu_seconds": 0.0, "commits": [], "clean": True}
    found = json.loads(state_file.read_bytes()) if state_file.exists() else None
    anew = again or found is None or found["begun"] != begun
    if found is not None and not anew:
        state = found
    state |= begun_with(asked.row, asked.recipe, state)
    replace_file(state_file, _json(state))
    began, cpu = time.perf_counter(), _children_seconds()
    try:
        command("train", *asked.arguments(), *["--overwrite"] * anew, folder=folder, threads=asked.threads)
    finally:
        state["seconds"] = round(state["seconds"] + time.perf_counter() - began, 1)
        state["cpu_seconds"] = round(state["cpu_seconds"] + _children_seconds() - cpu, 1)
        replace_file(state_file, _json(state))
    return collect(asked, folder, state)


def begun_with(row: Planned, recipe: str, state: dict[str, Any]) -> dict[str, Any]:
    """The commits that a run has been trained with, and whether package and recipe were always as committed."""
    commit = _git("rev-parse", "HEAD") or "unknown"
    committed = _git("show", f"HEAD:recipes/multi30k/{row.recipe}.yaml")
    same = not _git("status", "--porcelain", "--", "regard") and settings_hash(committed) == settings_hash(recipe)
    commits = state["commits"] if commit in state["commits"] else [*state["commits"], commit]
    return {"commits": commits, "clean": state["clean"] and same}


def collect(asked: Asked, folder: Path, state: dict[str, Any]) -> Row:
    """The row of a finished training; the test set is read here."""
    run_folder = folder / "runs" / asked.name
    history = read_log(run_folder / "log.jsonl")
    metrics = json.loads((run_folder / "metrics.json").read_bytes())["metrics"]
    began = time.perf_counter()
    test: dict[str, Value] = {}
    buckets: tuple[Bucket, ...] = ()
    if not asked.experiment:
        test, buckets = judge(asked, folder)
    end = history.end or {}
    trained = max([float(end.get("seconds", 0.0)), *(point.seconds for point in history.validation)])
    seconds = max(state["seconds"], trained) + time.perf_counter() - began
    return Row(
        recipe=asked.row.recipe,
        recipe_hash=settings_hash(asked.recipe),
        seed=asked.seed,
        asked_minutes=asked.minutes,
        experiment=asked.experiment,
        settings=asked.settings,
        finished=datetime.now(UTC).strftime("%Y-%m-%d"),
        place=place_of(state, asked.threads),
        cost=Cost(
            minutes=round(seconds / 60, 2),
            training_minutes=round(trained / 60, 4),
            cpu_minutes=round(state["cpu_seconds"] / 60, 2),
            steps=int(end.get("step", 0)),
            epochs=int(end.get("epoch", 0)),
        ),
        parameters=_parameters(run_folder),
        curve=tuple(
            (round(point.seconds / 60, 2), round(point.metrics["BLEU"], 2))
            for point in history.validation
            if "BLEU" in point.metrics and math.isfinite(point.metrics["BLEU"])
        ),
        validation={name: kept_value(entry) for name, entry in metrics.items()},
        test=test,
        by_length=buckets,
        published=asked.row.published,
    )


def judge(asked: Asked, folder: Path) -> tuple[dict[str, Value], tuple[Bucket, ...]]:
    """Translate the test set once; outputs are kept, so that pages need no second reading."""
    import torch

    torch.set_num_threads(asked.threads)
    model = regard.load(folder / "runs" / asked.name)
    source, target = (str(folder / name) for name in part_files(asked.row, TEST))
    evaluation = model.evaluate(model.examples(source, target))
    outputs = [prediction.text for prediction in evaluation.predictions]
    kept = folder / "outputs" / f"{asked.name}.txt"
    kept.parent.mkdir(exist_ok=True)
    replace_file(kept, "".join(f"{output}\n" for output in outputs).encode())
    scores = {score.name: kept_value(score.to_json()) for score in evaluation.scores}
    sources = [example.source for example in evaluation.examples]
    references = [example.target for example in evaluation.examples]
    section = model.recipe.evaluation
    return scores, buckets(sources, references, outputs, tokenize=section.tokenize, resamples=section.resamples)


def buckets(
    sources: Sequence[str], references: Sequence[str], outputs: Sequence[str], *, tokenize: str, resamples: int = 1000
) -> tuple[Bucket, ...]:
    """BLEU by words of the source; buckets without a sentence are left out."""
    sizes = [len(source.split()) for source in sources]
    found = by_length(
        metric("BLEU", tokenize=tokenize),
        outputs,
        [[text] for text in references],
        sizes,
        edges=LENGTHS,
        resamples=resamples,
    )
    bounds = [(first, after - 1) for first, after in zip((1, *LENGTHS), LENGTHS, strict=False)]
    wanted: list[tuple[int, int | None]] = [*bounds, (LENGTHS[-1], None)]
    there = [(low, high) for low, high in wanted if any(low <= size <= (high or size) for size in sizes)]
    return tuple(_bucket(low, high, one.count, one.score) for (low, high), one in zip(there, found, strict=True))


def _bucket(first: int, last: int | None, count: int, score: Score) -> Bucket:
    def rounded(value: float | None) -> float | None:
        return None if value is None else round(value, 2)

    return Bucket(
        first=first,
        last=last,
        sentences=count,
        value=round(score.value, 2),
        low=rounded(score.low),
        high=rounded(score.high),
    )


def command(*arguments: str, folder: Path, threads: int) -> None:
    """Run `regard` in the folder. Whoever stops this process stops the command, which has the time to save."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": str(threads)}
    call = [sys.executable, "-m", "regard.cli.main", *arguments]
    with subprocess.Popen(call, cwd=folder, env=environment) as child:
        RUNNING.add(child)
        try:
            child.wait()
        finally:
            RUNNING.discard(child)
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, call)


def stop() -> None:
    """Ask commands under way to save their state and end."""
    for child in list(RUNNING):
        child.terminate()


def place_of(state: Mapping[str, Any], threads: int) -> Place:
    """Here, with the commits that a state has noted."""
    return Place(
        commits=tuple(state["commits"]), clean=state["clean"], machine=machine(), threads=threads, versions=versions()
    )


def machine() -> str:
    """The processor, and how many cores there are."""
    name = platform.processor() or platform.machine()
    cpus = Path("/proc/cpuinfo")
    if cpus.exists():
        lines = cpus.read_text(encoding="utf-8", errors="replace").splitlines()
        name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), name)
    return f"{os.cpu_count()} cores, {name}"


def versions() -> dict[str, str]:
    return {
        "regard": regard.__version__,
        "torch": version("torch"),
        "sacrebleu": version("sacrebleu"),
        "python": platform.python_version(),
    }


def _parameters(run_folder: Path) -> int:
    from regard.run.folder import RunFolder

    return sum(math.prod(shape) for shape in RunFolder(run_folder).shapes().values())


def _children_seconds() -> float:
    """CPU time of commands that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _git(*arguments: str) -> str:
    found = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return found.stdout.strip() if found.returncode == 0 else ""


def _json(state: dict[str, Any]) -> bytes:
    return (json.dumps(state, indent=1) + "\n").encode()
