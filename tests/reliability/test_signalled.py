"""R6: signals at any moment of a training: saved, gone within five seconds with the code of the signal, and gone on."""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import regard.run.training as training
from regard.recipe import dump_recipe
from regard.run import api, validation
from regard.run.folder import RunFolder
from regard.run.model import Model
from regard.training import Checkpoints, Ended, Trainer
from regard.training import checkpoints as saving
from tests.reliability.children import command, ended, fork, run
from tests.reliability.conftest import Tally
from tests.toys import toy_pairs, toy_recipe, write_tsv

SECONDS = 5.0


def patience() -> float:
    """Seconds in which a process must end; more where many share each core, as a second of work then takes longer."""
    return SECONDS * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


@dataclass(frozen=True, slots=True)
class Stop:
    """Which signals come, one after the other, and the code to leave with."""

    signals: tuple[signal.Signals, ...]
    code: int


STOPS = {
    "SIGTERM": Stop((signal.SIGTERM,), 143),
    "SIGINT": Stop((signal.SIGINT,), 130),
    "SIGUSR1": Stop((signal.SIGUSR1,), 138),
    "SIGINT twice": Stop((signal.SIGINT, signal.SIGINT), 130),
}


def send(stop: Stop, clock: Path) -> None:
    """Signals to this process; the last comes while what the first one raised is on its way."""
    clock.write_text(repr(time.monotonic()), encoding="utf-8")
    try:
        os.kill(os.getpid(), stop.signals[0])
    finally:
        for number in stop.signals[1:]:
            os.kill(os.getpid(), number)


Hook = Callable[[Callable[[], None]], None]
"""Lets something happen at a moment of the training in this process."""


def before(owner: Any, name: str, *, call: int = 0, when: Callable[..., bool] = lambda *_: True) -> Hook:
    """Right before one call of a function, the first for which a condition holds or one after it."""

    def install(action: Callable[[], None]) -> None:
        real, left = getattr(owner, name), [call]

        def called(*arguments: Any, **named: Any) -> Any:
            if when(*arguments):
                left[0] -= 1
                if left[0] == -1:
                    action()
            return real(*arguments, **named)

        setattr(owner, name, called)

    return install


def at_step(step: int) -> Callable[..., bool]:
    return lambda trainer, *_: trainer.progress.step == step


MOMENTS: dict[str, Hook] = {
    "recipe": before(api, "recipe_for"),
    "preparation": before(training, "prepare_run"),
    "first estimate": before(Trainer, "backward", call=2),
    "update": before(Trainer, "apply", when=at_step(2)),
    "validation": before(validation, "mean_likelihood"),
    "save": before(saving, "write_synced", call=3),
    "second validation": before(Trainer, "judged", when=at_step(12)),
    "end": before(Trainer, "tell", when=lambda trainer, event: isinstance(event, Ended)),
    "final evaluation": before(Model, "evaluate"),
}
"""In the order in which one training meets them; it does not heed signals yet when the recipe is read."""

SAVES = {"update": 3, "validation": 6, "save": 9, "second validation": 12}
"""The last step that is saved when a single signal comes."""


def stopped(moment: str, stop: Stop, recipe: Path, folder: Path) -> None:
    """Train by the real command until the signals of a moment."""
    MOMENTS[moment](partial(send, stop, folder / "clock"))
    command("train", recipe)()


def finished(run_folder: Path) -> dict[str, object]:
    """What must be the same whenever a training was stopped."""
    folder = RunFolder(run_folder)
    lines = [json.loads(line) for line in folder.log.read_text(encoding="utf-8").splitlines()]
    return {
        "weights": hashlib.sha256(folder.weights.read_bytes()).hexdigest(),
        "metrics": json.loads(folder.metrics.read_bytes()),
        "steps": folder.checkpoints.steps(),
        "losses": {(line["event"], line["step"]): line["loss"].hex() for line in lines if "loss" in line},
        "tensors": [
            hashlib.sha256((folder.checkpoints.path(step) / f"{name}.safetensors").read_bytes()).hexdigest()
            for step in folder.checkpoints.steps()
            for name in ("model", "optimizer")
        ],
    }


def write_recipe(folder: Path, name: str) -> Path:
    """A training of twelve steps, with a file of its own."""
    recipe = toy_recipe(folder / name, folder / "pairs.tsv", "model.dropout=0.1")
    path = folder / f"{name}.yaml"
    path.write_text(dump_recipe(recipe), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with pairs and one training that nobody stopped."""
    folder = tmp_path_factory.mktemp("signals")
    write_tsv(folder / "pairs.tsv", toy_pairs(120))
    run(command("train", write_recipe(folder, "straight")), folder / "errors")
    return folder


@pytest.mark.parametrize("name", STOPS)
def test_one_training_stopped_at_every_moment(name: str, place: Path, tally: Tally) -> None:
    stop, errors = STOPS[name], place / f"{name}.errors"
    recipe = write_recipe(place, name)
    for moment in MOMENTS:
        code = ended(fork(partial(stopped, moment, stop, recipe, place), errors))
        told = errors.read_text(encoding="utf-8")
        took = time.monotonic() - float((place / "clock").read_text(encoding="utf-8"))
        assert code == stop.code, (moment, told)
        assert took <= patience(), moment
        assert "Traceback" not in told
        assert Checkpoints(place / name / "checkpoints").latest()[1] == []
        if len(stop.signals) == 1:
            assert f"regard: stopped by {stop.signals[0].name}" in told, moment
            assert (f"after step {SAVES.get(moment)}; the state is saved" in told) == (moment in SAVES), (moment, told)
            early = moment in ("recipe", "preparation", "first estimate")
            assert max(Checkpoints(place / name / "checkpoints").steps(), default=0) == SAVES.get(
                moment, 0 if early else 12
            )
            assert ("nothing was left to save" in told) == (moment == "recipe")
    run(command("train", recipe), errors)
    assert finished(place / name) == finished(place / "straight")
    assert list((place / name).rglob("*.tmp")) == list((place / name).rglob(".tmp-*")) == []
    tally("R6", signals=len(MOMENTS))


LONG = ("training.steps=1000000", "training.patience=null", "training.validate_every=40", "training.save_every=30")


def start(recipe: Path, *settings: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "regard.cli.main", "train", str(recipe), *settings],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def wait_for_progress(process: "subprocess.Popen[bytes]", log: Path) -> None:
    """Until something is logged that was not there."""
    began, size = time.monotonic(), log.stat().st_size if log.exists() else 0
    while not log.exists() or log.stat().st_size <= size:
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < began + 100, "training did not begin"
        time.sleep(0.01)


def test_the_command_in_a_process_of_its_own(place: Path, tally: Tally) -> None:
    """Two of eight signals come while modules are still being loaded."""
    draw = random.Random(6)
    recipe = write_recipe(place, "process")
    for number, stop in enumerate((*STOPS.values(), *STOPS.values())):
        process = start(recipe, *LONG)
        try:
            if number % 4 == 1:
                time.sleep(draw.uniform(1.2, 2.0))
            else:
                wait_for_progress(process, place / "process" / "log.jsonl")
                time.sleep(draw.uniform(0.0, 0.5))
            began = time.monotonic()
            for each in stop.signals:
                process.send_signal(each)
                time.sleep(0.001)
            _, told = process.communicate(timeout=60)
        finally:
            process.kill()
            process.wait()
        assert process.returncode == stop.code, told
        assert time.monotonic() - began <= patience()
        assert b"Traceback" not in told
        assert (b"regard: stopped by" in told) or len(stop.signals) == 2
    steps = Checkpoints(place / "process" / "checkpoints").steps()[-1] + 3
    last = (f"training.steps={steps}", *LONG[1:])
    run(command("train", recipe, *last), place / "errors")
    run(command("train", write_recipe(place, "unbroken"), *last), place / "errors")
    assert finished(place / "process") == finished(place / "unbroken")
    tally("R6", signals=8)
