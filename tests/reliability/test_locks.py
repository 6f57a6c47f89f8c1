"""R5: one trainer at a time in a run folder. The second is told who holds it; the lock of a dead one holds nothing."""

import errno
import fcntl
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from regard.errors import BusyError, UsageError
from regard.recipe.schema import Recipe
from regard.run.folder import RunFolder
from regard.run.training import train
from tests.reliability.children import command, ended, fork, kill, run
from tests.reliability.conftest import Tally
from tests.toys import toy_pairs, toy_recipe, write_tsv

TIMES = 19
"""Of each kind, and once more by the real command."""


def hold(folder: Path, told: int) -> None:
    """Hold a folder until killed."""
    with RunFolder(folder).locked():
        os.write(told, b".")
        time.sleep(300)


def holder_of(folder: Path) -> int:
    """A process that holds a folder."""
    reading, writing = os.pipe()
    child = fork(lambda: hold(folder, writing))
    os.close(writing)
    assert os.read(reading, 1) == b"."
    os.close(reading)
    return child


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    return toy_recipe(tmp_path / "run", write_tsv(tmp_path / "pairs.tsv", toy_pairs(60)))


def test_the_second_trainer_is_refused_and_a_stale_lock_is_not_in_the_way(recipe: Recipe, tally: Tally) -> None:
    folder = Path(recipe.run)
    folder.mkdir()
    for _ in range(TIMES):
        holder = holder_of(folder)
        before = sorted(path.name for path in folder.iterdir())
        with pytest.raises(
            BusyError, match=rf"another process is training into .* \(process {holder}\); wait"
        ) as caught:
            train(recipe)
        assert caught.value.exit_code == 8
        assert sorted(path.name for path in folder.iterdir()) == before
        kill(holder)
        assert (folder / ".lock").read_text() == str(holder)
        with RunFolder(folder).locked():
            assert (folder / ".lock").read_text() == str(os.getpid())
    tally("R5", second_trainers_refused=TIMES, stale_locks_recovered=TIMES)


def test_two_at_once_are_never_both_let_in(tmp_path: Path) -> None:
    """Whoever comes while the other is just writing down its number is told that number, not an old one."""
    nobody, told = os.pipe()
    for _ in range(5):
        (tmp_path / ".lock").write_text("999999999")
        first, second = (fork(lambda: hold(tmp_path, told), tmp_path / f"errors-{number}") for number in range(2))
        refused = first if ended_first(first, second) == first else second
        errors = (tmp_path / f"errors-{int(refused == second)}").read_text()
        holder = first + second - refused
        assert f"BusyError: {tmp_path}: another process is training into this folder (process {holder})" in errors
        kill(holder)
    os.close(nobody)
    os.close(told)


def ended_first(*children: int) -> int:
    """The child that ends while the others run."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        for child in children:
            if os.waitpid(child, os.WNOHANG)[0]:
                return child
        time.sleep(0.001)
    raise AssertionError("all of them run")


@pytest.mark.parametrize(("content", "told"), [("", "unknown"), ("999999999", "999999999"), ("x\xff", "x\xff")])
def test_a_holder_that_cannot_be_named_is_waited_for_shortly(
    content: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.run.folder.PATIENCE", 0.05)
    with (tmp_path / ".lock").open("w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(content)
        file.flush()
        with pytest.raises(BusyError, match=rf"\(process {told}\)"), RunFolder(tmp_path).locked():
            pass


def test_a_file_system_without_locks_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(handle: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", failing)
    with (
        pytest.raises(UsageError, match=r"\.lock: cannot be locked \(No locks available\); choose a folder on another"),
        RunFolder(tmp_path).locked(),
    ):
        pass


def started(arguments: list[str], log: Path) -> "subprocess.Popen[bytes]":
    """A real training that has begun."""
    process = subprocess.Popen(
        [sys.executable, "-m", "regard.cli.main", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    until = time.monotonic() + 120
    while not (log.exists() and b'"saved"' in log.read_bytes()):
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < until
        time.sleep(0.02)
    return process


@pytest.mark.cli
def test_two_commands_on_one_folder(tmp_path: Path, tally: Tally) -> None:
    pairs = write_tsv(tmp_path / "pairs.tsv", toy_pairs(60))
    settings = ["model.width=16", "model.layers=1", "training.save_every=1", "evaluation.resamples=20"]
    arguments = ["train", str(pairs), f"run={tmp_path / 'run'}", *settings, "training.validate_every=1000"]
    first = started([*arguments, "training.steps=100000"], tmp_path / "run" / "log.jsonl")
    try:
        code = ended(fork(command(*arguments), tmp_path / "second"))
        told = (tmp_path / "second").read_text()
        assert code == 8, told
        assert f"(process {first.pid}); wait for it, or choose another folder with run=FOLDER" in told
    finally:
        first.send_signal(signal.SIGKILL)
        first.communicate()
    step = RunFolder(tmp_path / "run").checkpoints.steps()[-1]
    run(command(*arguments, f"training.steps={step + 1}"), tmp_path / "third")
    assert re.search(rf"going on from step {step:,}", (tmp_path / "third").read_text())
    tally("R5", second_trainers_refused=1, stale_locks_recovered=1)
