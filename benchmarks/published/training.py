"""Train one recipe by the real command in a folder of its own, and collect what is kept of it.

FOLDER/pocket/          what the head of a recipe says is made
FOLDER/recipes/X.yaml   a copy, so that its paths lead into FOLDER
FOLDER/runs/X/          the run
FOLDER/state.json       which recipe each run was begun with, and the seconds it took so far
"""

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from threading import Lock
from typing import Any

import regard
from published.entries import Entry, Value, kept_value
from published.heads import data_commands, settings_hash
from published.tasks import Published
from regard.data import pocket
from regard.files import replace_file
from regard.text import Tokenizer, load_tokenizer

THREADS = 1
"""Of each command; two run beside each other."""

STATE = Lock()
RUNNING: set[subprocess.Popen[str]] = set()
"""Commands under way."""

REGARD = [sys.executable, "-m", "regard.cli.main"]


def command(*arguments: str, folder: Path, text: str | None = None) -> str:
    """Standard output of a `regard` command that runs in the folder.

    Whoever stops this process stops the command, too, which has the time to save its state: a terminal sends Ctrl-C to
    both, any other end is passed on by `stop`.
    """
    call = [*REGARD, *arguments]
    source = None if text is None else subprocess.PIPE
    environment = {**os.environ, "OMP_NUM_THREADS": str(THREADS)}
    with subprocess.Popen(call, cwd=folder, stdin=source, stdout=subprocess.PIPE, text=True, env=environment) as child:
        RUNNING.add(child)
        try:
            out, _ = child.communicate(text)
        finally:
            RUNNING.discard(child)
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, call)
    return out


def stop() -> None:
    """Ask all commands under way to save their state and end."""
    for child in list(RUNNING):
        child.terminate()


def make_data(recipe: str, folder: Path, made: set[tuple[str, ...]], *, again: bool) -> None:
    """Make what the head of a recipe asks for, once."""
    for arguments in data_commands(recipe):
        if arguments not in made and (again or not (folder / output_of(arguments)).exists()):
            command(*arguments, folder=folder)
        made.add(arguments)


def output_of(arguments: tuple[str, ...]) -> str:
    """OUT of `data make pocket OUT --option value ...`."""
    return arguments[3]


def train(row: Published, recipe: str, folder: Path, *, again: bool) -> Entry:
    """Train, or go on where a training was stopped; another recipe than the run was begun with starts anew."""
    copy = folder / "recipes" / f"{row.recipe}.yaml"
    copy.parent.mkdir(exist_ok=True)
    copy.write_text(recipe, encoding="utf-8")
    state_file = folder / "state.json"
    state = _state(state_file)
    recipe_hash = settings_hash(recipe)
    anew = again or state.get(row.recipe, {}).get("recipe") != recipe_hash
    seconds = 0.0 if anew else float(state[row.recipe]["seconds"])
    began = time.perf_counter()
    try:
        command("train", f"recipes/{copy.name}", f"run=runs/{row.recipe}", *["--overwrite"] * anew, folder=folder)
    finally:
        seconds += time.perf_counter() - began
        with STATE:
            state = _state(state_file) | {row.recipe: {"recipe": recipe_hash, "seconds": round(seconds, 1)}}
            replace_file(state_file, (json.dumps(state, indent=1) + "\n").encode())
    return collect(row, folder, recipe_hash=recipe_hash, seconds=seconds)


def _state(path: Path) -> dict[str, Any]:
    state: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return state


def collect(row: Published, folder: Path, *, recipe_hash: str, seconds: float) -> Entry:
    """What is kept of a finished run."""
    from regard.run.folder import RunFolder

    run = RunFolder(folder / "runs" / row.recipe)
    sets = read_sets(json.loads(run.metrics.read_text(encoding="utf-8")))
    events = [json.loads(line) for line in run.log.read_text(encoding="utf-8").splitlines()]
    losses = [event["loss"] for event in events if event["event"] == "step" and event["loss"] is not None]
    perplexity = next((value for name, value in sets["test"].items() if name.startswith("perplexity")), None)
    exact = None
    if row.exact and perplexity is not None:
        data = folder / output_of(data_commands((folder / "recipes" / f"{row.recipe}.yaml").read_text("utf-8"))[0])
        exact = exact_perplexity(data, load_tokenizer(run.path, "text"), perplexity, by_topic=row.exact == "topics")
    return Entry(
        recipe=recipe_hash,
        sets=sets,
        minutes=round(seconds / 60, 2),
        steps=max(int(event["step"]) for event in events),
        parameters=sum(math.prod(shape) for shape in run.shapes().values()),
        threads=THREADS,
        versions={"regard": regard.__version__, "torch": version("torch"), "python": python_version()},
        losses=(round(losses[0], 4), round(losses[-1], 4)) if losses else None,
        exact_perplexity=exact,
    )


def read_sets(record: Mapping[str, Any]) -> dict[str, dict[str, Value]]:
    """The scores of metrics.json by set, `test` first."""

    def scores(entries: Mapping[str, Any]) -> dict[str, Value]:
        return {name: kept_value(entry) for name, entry in entries.items()}

    return {"test": scores(record["metrics"])} | {name: scores(each) for name, each in record["further"].items()}


def exact_perplexity(data: Path, tokenizer: Tokenizer, perplexity: Value, *, by_topic: bool) -> float:
    """That of the grammar on the test sentences, per token of the model; with their topics, where it is told them."""
    test = list(records(data / "test.jsonl"))
    tokens = [len(tokenizer.encode(record["source"])) + 1 for record in test]
    if perplexity.count != len(test) or perplexity.tokens != sum(tokens):
        raise ValueError(
            f"{data}: the perplexity is of {perplexity.count} sentences with {perplexity.tokens} tokens, "
            f"test.jsonl has {len(test)} with {sum(tokens)}"
        )
    exact = pocket.exact_perplexity_given_topic if by_topic else pocket.exact_perplexity
    return round(exact(test, tokens=tokens, distribution=pocket.TrainingDistribution.read(data)), 4)


def records(path: Path) -> Iterator[dict[str, Any]]:
    """The JSON objects of a file, line by line."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)
