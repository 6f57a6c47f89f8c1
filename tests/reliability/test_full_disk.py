"""R3: a disk that is full, limited, read-only or broken stops a training with a sentence; what was saved stays.

As real as this machine allows: a small disk is mounted in a process of its own, a limit on the size of files set by the
kernel. What the kernel cannot be asked for, an error of the disk at a certain call, is injected.
"""

import errno
import os
import random
import re
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from regard.errors import RegardError, ResourceError
from regard.run.folder import RunFolder
from regard.training import Checkpoints, Event, Observer, Saved, weights
from tests.reliability.children import command, ended, fork, make_read_only, mount_small, run
from tests.reliability.conftest import Tally
from tests.reliability.disk import Recorder
from tests.reliability.saves import checkpoint, same
from tests.reliability.trainings import trainer
from tests.toys import toy_pairs, write_tsv

NUMBERS = 300_000
"""A checkpoint of 1.2 MB."""
NOT_ALLOWED = 98
FULL_LOG = r"log\.jsonl: cannot be written to \(No space left on device\), [\d,]+ bytes are needed\. Checkpoints are"


def refused(checkpoints: Checkpoints, step: int, numbers: int, strerror: str) -> None:
    """A save ends with code 7 and the bytes it needs, and leaves what was there and nothing else."""
    before = checkpoints.steps()
    with pytest.raises(ResourceError) as caught:
        checkpoints.save(checkpoint(step, numbers))
    assert caught.value.exit_code == 7
    told = re.search(
        rf"step-{step:08d}: .* ([\d,]+) bytes \({strerror}\)\. What was saved before is", str(caught.value)
    )
    assert told, str(caught.value)
    assert 4 * numbers <= int(told[1].replace(",", "")) <= 4 * numbers + 2000
    latest, damages = checkpoints.latest()
    assert latest is not None
    assert damages == []
    assert latest.step in (before[-1], step)
    assert same(latest, checkpoint(latest.step, numbers))
    assert checkpoints.steps()[: len(before)] == before


def on_a_small_disk(action: Callable[[Path], None], tmp_path: Path) -> None:
    """Do something on a disk of 8 MB, in a child that alone sees it."""
    (tmp_path / "small").mkdir()

    def mounted() -> None:
        if not mount_small(tmp_path / "small", 8):
            os._exit(NOT_ALLOWED)
        action(tmp_path / "small")

    code = ended(fork(mounted, tmp_path / "errors"), 250)
    if code == NOT_ALLOWED:
        pytest.skip("mounting is not allowed here")
    assert code == 0, (tmp_path / "errors").read_text(encoding="utf-8")


def fill(disk: Path, left: int) -> Path:
    """Take all the room but some of it."""
    room = os.statvfs(disk)
    (disk / "filler").write_bytes(bytes(max(0, room.f_bavail * room.f_frsize - left)))
    return disk / "filler"


def test_a_full_disk(tmp_path: Path, tally: Tally) -> None:
    points = 10

    def action(disk: Path) -> None:
        draw, checkpoints = random.Random(5), Checkpoints(disk / "checkpoints")
        checkpoints.save(checkpoint(1, NUMBERS))
        for step in range(2, points + 2):
            filler = fill(disk, draw.randrange(0, 4 * NUMBERS, 4096))
            refused(checkpoints, step, NUMBERS, "No space left on device")
            assert checkpoints.steps() == [step - 1]
            assert not list(disk.rglob(".tmp-*"))
            filler.unlink()
            checkpoints.save(checkpoint(step, NUMBERS))
            checkpoints.keep({step})

    on_a_small_disk(action, tmp_path)
    tally("R3", points=points)


def test_a_disk_that_becomes_read_only(tmp_path: Path, tally: Tally) -> None:
    points = 4

    def action(disk: Path) -> None:
        checkpoints = Checkpoints(disk / "checkpoints")
        checkpoints.save(checkpoint(1, 1000))
        for step in range(2, points + 2):
            make_read_only(disk, True)
            refused(checkpoints, step, 1000, "Read-only file system")
            checkpoints.keep({step - 1})
            checkpoints.clean()
            with pytest.raises(ResourceError, match=r"damaged, and cannot be set aside as damaged-.* \(Read-only file"):
                checkpoints.set_aside([step - 1])
            make_read_only(disk, False)
            checkpoints.save(checkpoint(step, 1000))

    on_a_small_disk(action, tmp_path)
    tally("R3", points=points)


def test_a_limit_on_the_size_of_files(tmp_path: Path, tally: Tally) -> None:
    points = 6

    def action() -> None:
        draw, checkpoints = random.Random(6), Checkpoints(tmp_path / "checkpoints")
        checkpoints.save(checkpoint(1, NUMBERS))
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        for _ in range(points):
            resource.setrlimit(resource.RLIMIT_FSIZE, (draw.randrange(0, 2 * NUMBERS), hard))
            refused(checkpoints, 2, NUMBERS, "File too large")
            assert checkpoints.steps() == [1]
            assert not list(checkpoints.folder.glob(".tmp-*"))
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        checkpoints.save(checkpoint(2, NUMBERS))

    run(action, tmp_path / "errors")
    tally("R3", points=points)


@pytest.mark.parametrize("number", [errno.EIO, errno.EROFS, errno.ENOSPC, errno.EDQUOT], ids=errno.errorcode.get)
def test_an_error_of_the_disk_at_every_call(number: int, tmp_path: Path, tally: Tally) -> None:
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    checkpoints.save(checkpoint(1))
    counting = Recorder(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        counting.install(patch)
        checkpoints.save(checkpoint(2))
    checkpoints.keep({1})
    calls = len(counting.calls)
    for point in range(calls):

        def fail(call: int, point: int = point) -> None:
            if call == point:
                raise OSError(number, os.strerror(number))

        with pytest.MonkeyPatch.context() as patch:
            Recorder(tmp_path, fail).install(patch)
            refused(checkpoints, 2, 64, os.strerror(number))
        checkpoints.clean()
        checkpoints.keep({1})
        assert [path.name for path in checkpoints.folder.iterdir()] == ["step-00000001"]
    assert calls > 10
    tally("R3", points=calls)


@pytest.mark.parametrize("call", [0, 1, 5, 13, 15])
def test_a_training_goes_on_when_there_is_room_again(call: int, tmp_path: Path, tally: Tally) -> None:
    """Its state is what it would have been: the error of one save is not learned from."""
    for name in ("straight", "broken"):
        (tmp_path / name).mkdir()
    straight = trainer(tmp_path / "straight" / "checkpoints", 8)
    straight.run()
    broken = trainer(tmp_path / "broken" / "checkpoints", 8)
    acknowledged: list[int] = []

    def fail(number: int) -> None:
        if number - mark == call:
            raise OSError(errno.ENOSPC, "No space left on device")

    recorder, mark = Recorder(tmp_path / "broken" / "checkpoints", fail), -1000

    def after_first_save(event: Event) -> None:
        nonlocal mark
        if isinstance(event, Saved):
            acknowledged.append(event.progress.step)
            mark = len(recorder.calls)

    broken.observers = [*broken.observers, after_first_save]
    with pytest.MonkeyPatch.context() as patch:
        recorder.install(patch)
        with pytest.raises(ResourceError, match=r"step-00000004: there is no room to write [\d,]+ bytes"):
            broken.run()
    assert acknowledged == [2]
    resumed = trainer(tmp_path / "broken" / "checkpoints", 8)
    resumed.run()
    now = weights(resumed.system)
    assert all(torch.equal(tensor, now[name]) for name, tensor in weights(straight.system).items())
    tally("R3", points=1)


def write_many(writer: Observer, event: Event) -> None:
    """More lines than there is room for in the last block of a file."""
    for _ in range(200):
        writer(event)


def test_a_log_on_a_full_disk_and_then_not(tmp_path: Path, tally: Tally) -> None:
    """The torn line that is left is taken back."""
    points = 3

    def action(disk: Path) -> None:
        made = trainer(disk / "checkpoints", 2)
        writer = made.observers[0]
        made.run()
        lines = (disk / "log.jsonl").read_bytes().splitlines()
        for _ in range(points):
            filler = fill(disk, 0)
            with pytest.raises(ResourceError, match=FULL_LOG):
                write_many(writer, Saved(made.progress))
            filler.unlink()
            assert trainer(disk / "checkpoints", 2).run().progress.step == 2
        now = (disk / "log.jsonl").read_bytes().splitlines()
        assert now[: len(lines)] == lines

    on_a_small_disk(action, tmp_path)
    tally("R3", points=points)


def test_a_lock_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int, content: bytes, place: int) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with (
        pytest.raises(ResourceError, match=r"\.lock: there is no room to write \d+ bytes \(No space left"),
        RunFolder(tmp_path).locked(),
    ):
        pass
    (tmp_path / "gone").mkdir()
    (tmp_path / "gone" / ".lock").mkdir()
    with (
        pytest.raises(RegardError, match=r"\.lock: is a folder, and a file must be written there"),
        RunFolder(tmp_path / "gone").locked(),
    ):
        pass


@pytest.mark.cli
def test_the_command_on_a_full_disk(tmp_path: Path, tally: Tally) -> None:
    """It leaves with 7 and a sentence; with room again, the same command goes on and finishes."""
    pairs = write_tsv(tmp_path / "pairs.tsv", toy_pairs(60))
    settings = ["model.width=16", "model.layers=1", "evaluation.resamples=20", "training.validate_every=100"]
    settings += ["training.save_every=2"]

    def action(disk: Path) -> None:
        folder, arguments = RunFolder(disk / "run"), ["train", str(pairs), f"run={disk / 'run'}", *settings]
        run(command(*arguments, "training.steps=2"), disk / "first")
        filler = fill(disk, 30_000)
        full = subprocess.run(
            [sys.executable, "-m", "regard.cli.main", *arguments, "training.steps=6"],
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert full.returncode == 7, full.stderr
        assert re.search(r"regard: .*there is no room to write [\d,]+ bytes \(No space left on device\)", full.stderr)
        assert "Traceback" not in full.stderr
        latest, damages = folder.checkpoints.latest()
        assert latest is not None
        assert (latest.step, damages) == (2, [])
        filler.unlink()
        run(command(*arguments, "training.steps=6"), disk / "again")
        assert "going on from step 2" in (disk / "again").read_text()

    on_a_small_disk(action, tmp_path)
    tally("R3", points=1)
