"""R2a: kill -9 at any moment of saving. What was acknowledged is there, whole; what was being written is taken away."""

import json
import os
import random
import time
from pathlib import Path

import pytest

from regard.report import read_log
from regard.run.folder import RunFolder
from regard.run.training import train
from regard.training import Checkpoints, Event, Saved
from tests.reliability.children import FAILED, ended, fork, kill
from tests.reliability.conftest import Tally
from tests.reliability.saves import checkpoint, same
from tests.toys import toy_pairs, toy_recipe, write_tsv

NUMBERS = 5_000_000 // 4
"""A checkpoint of 5 MB."""


def save_for_ever(folder: Path, acknowledge: int) -> None:
    """Start up, then save, tell, and delete what is old, as training does."""
    checkpoints = Checkpoints(folder)
    checkpoints.clean()
    assert not list(folder.glob(".tmp-*"))
    latest, damages = checkpoints.latest()
    assert damages == []
    step = latest.step if latest else 0
    os.write(acknowledge, b"started\n")
    while True:
        step += 1
        checkpoints.save(checkpoint(step, NUMBERS))
        os.write(acknowledge, b"%d\n" % step)
        checkpoints.keep({step, step - 1})


def killed_while_saving(folder: Path, saves: int, after: float) -> list[int]:
    """Let a child save so many times, and so many seconds more, until it is killed; the steps it has acknowledged."""
    reading, writing = os.pipe()
    child = fork(lambda: save_for_ever(folder, writing))
    os.close(writing)
    with os.fdopen(reading, "rb") as answers:
        assert answers.readline() == b"started\n"
        told = [answers.readline() for _ in range(saves)]
        time.sleep(after)
        kill(child)
        told += answers.read().splitlines(keepends=True)
        return [int(line) for line in told if line.endswith(b"\n")]


@pytest.mark.parametrize("part", range(4))
def test_killed_while_saving(part: int, tmp_path: Path, tally: Tally) -> None:
    draw = random.Random(part)
    folder, checkpoints = tmp_path / "checkpoints", Checkpoints(tmp_path / "checkpoints")
    last, kills, halves = 0, 50, 0
    for _ in range(kills):
        acknowledged = killed_while_saving(folder, draw.randrange(2), draw.uniform(0.001, 0.060))
        last = max([last, *acknowledged])
        halves += bool(list(folder.glob(".tmp-*")))
        latest, damages = checkpoints.latest()
        assert damages == []
        assert (latest.step if latest else 0) >= last
        if latest is not None:
            assert same(latest, checkpoint(latest.step, NUMBERS))
    assert last > 0
    assert halves > 0, "no kill fell into a save"
    checkpoints.clean()
    assert not list(folder.glob(".tmp-*"))
    tally("R2a", kills=kills)


def test_killed_while_training(tmp_path: Path, tally: Tally) -> None:
    """The whole of a run folder: what the log calls saved is there, weights are whole, nothing is left behind."""
    pairs = write_tsv(tmp_path / "pairs.tsv", toy_pairs(60))
    recipe = toy_recipe(tmp_path / "run", pairs, "training.save_every=1", "training.validate_every=2")
    recipe = recipe.model_copy(update={"training": recipe.training.model_copy(update={"steps": 100_000})})
    folder, draw, last, kills = RunFolder(tmp_path / "run"), random.Random(3), 0, 4
    for _ in range(kills):
        reading, writing = os.pipe()

        def tell(event: Event, writing: int = writing) -> None:
            if isinstance(event, Saved):
                os.write(writing, b"%d\n" % event.progress.step)

        child = fork(lambda tell=tell: train(recipe, observers=[tell]))
        os.close(writing)
        with os.fdopen(reading, "rb") as answers:
            told = [int(answers.readline())]
            time.sleep(draw.uniform(0, 0.1))
            kill(child)
            told += [int(line) for line in answers.read().splitlines(keepends=True) if line.endswith(b"\n")]
        assert told[0] > last, "training went back behind what was acknowledged"
        last = told[-1]
        latest, damages = folder.checkpoints.latest()
        assert latest is not None
        assert (latest.step >= last, damages) == (True, [])
        history = read_log(folder.log)
        assert set(told) <= set(history.saved)
        assert len(history.unreadable) <= 1
        if folder.weights.exists():
            folder.read_weights()
    with folder.locked():
        folder.checkpoints.clean()
        assert not [path for path in folder.path.rglob(".*") if path.name != ".lock"]
    tally("R2a", kills=kills)


def test_a_temporary_folder_of_a_living_process_stays(tmp_path: Path) -> None:
    """Two processes share a folder of checkpoints: cleaning by one does not spoil what the other is writing."""
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    checkpoints.save(checkpoint(1))
    reading, writing = os.pipe()
    go, going = os.pipe()

    def slow() -> None:
        real, synced = os.fsync, 0

        def fsync(handle: int) -> None:
            nonlocal synced
            synced += 1
            if synced == 3:
                os.write(writing, b".")
                os.read(go, 1)
            real(handle)

        os.fsync = fsync
        checkpoints.save(checkpoint(2))

    child = fork(slow, tmp_path / "errors")
    os.read(reading, 1)
    assert len(list(checkpoints.folder.glob(".tmp-*"))) == 1
    checkpoints.clean()
    checkpoints.keep({1})
    assert len(list(checkpoints.folder.glob(".tmp-*"))) == 1
    os.write(going, b".")
    code = ended(child)
    assert code == 0, (tmp_path / "errors").read_text()
    assert code != FAILED
    assert same(checkpoints.load(2), checkpoint(2))
    for handle in (reading, writing, go, going):
        os.close(handle)


def test_what_a_killed_process_was_writing_is_taken_away(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.data.mkdir()
    ours = [".weights.safetensors.12.345.tmp", ".text.json.1.2.tmp", "data/.stores.json.1.2.tmp"]
    others = [".notes.md.1.2.tmp", ".weights.safetensors.tmp", "weights.safetensors.1.2.tmp", "data/mine.tmp"]
    for name in (*ours, *others):
        (tmp_path / name).write_text("")
    with folder.locked():
        left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert left == sorted([".lock", *others])


def test_clearing_a_run_is_for_all_checkpoints_at_once(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.create()
    folder.checkpoints.save(checkpoint(1))
    folder.write_json(folder.metrics, {})
    folder.clear()
    assert list(folder.path.iterdir()) == []
    folder.checkpoints.clear()
    (folder.path / ".tmp-checkpoints-12345678" / "step-00000001").mkdir(parents=True)
    folder.checkpoints.clean()
    assert json.dumps([path.name for path in folder.path.iterdir()]) == "[]"
