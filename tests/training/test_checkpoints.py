"""Checkpoints are whole or not there, and damage of any kind is noticed."""

import errno
import fcntl
import hashlib
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.errors import ModelError, ResourceError, UsageError
from regard.training import Checkpoint, Checkpoints, checkpoints

FILES = ("manifest.json", "model.safetensors", "optimizer.safetensors", "state.json")


def checkpoint(step: int) -> Checkpoint:
    generator = torch.Generator().manual_seed(step)
    return Checkpoint(
        step=step,
        model={"a": torch.randn(3, 4, generator=generator), "b": torch.randn(2, generator=generator).double()},
        optimizer={"a/step": torch.tensor(float(step)), "random": torch.get_rng_state()},
        state={"progress": {"step": step, "seconds": 0.1 + step}, "name": "ü"},
    )


@pytest.fixture
def folder(tmp_path: Path) -> Checkpoints:
    return Checkpoints(tmp_path / "checkpoints")


def same(one: Checkpoint, other: Checkpoint) -> bool:
    return (
        (one.step, one.state) == (other.step, other.state)
        and one.model.keys() == other.model.keys()
        and one.optimizer.keys() == other.optimizer.keys()
        and all(torch.equal(one.model[name], other.model[name]) for name in one.model)
        and all(one.model[name].dtype == other.model[name].dtype for name in one.model)
        and all(torch.equal(one.optimizer[name], other.optimizer[name]) for name in one.optimizer)
    )


def test_what_is_saved_is_what_is_loaded(folder: Checkpoints) -> None:
    assert folder.steps() == []
    assert folder.latest() == (None, [])
    for step in (5, 120, 30):
        folder.save(checkpoint(step))
    assert folder.steps() == [5, 30, 120]
    assert same(folder.load(30), checkpoint(30))
    latest, damages = folder.latest()
    assert latest is not None
    assert same(latest, checkpoint(120))
    assert damages == []
    assert torch.equal(folder.model(5)["a"], checkpoint(5).model["a"])
    assert sorted(path.name for path in folder.folder.iterdir()) == ["step-00000005", "step-00000030", "step-00000120"]
    assert sorted(path.name for path in folder.path(5).iterdir()) == list(FILES)


def test_only_checkpoints_are_listed(folder: Checkpoints) -> None:
    folder.save(checkpoint(7))
    for name in ("step-", "step-8", "step-00000009.old", "step-²", "step--0000001", "other", ".tmp-1-9"):
        (folder.folder / name).mkdir()
    (folder.folder / "step-00000010").write_text("a file")
    assert folder.steps() == [7]


@pytest.mark.parametrize("case", range(32))
def test_damage_is_noticed_and_the_one_before_is_taken(folder: Checkpoints, case: int) -> None:
    draw = random.Random(case)
    folder.save(checkpoint(1))
    folder.save(checkpoint(2))
    victim = folder.path(2) / FILES[case % len(FILES)]
    content = bytearray(victim.read_bytes())
    place = draw.randrange(len(content))
    if case % 8 < 4:
        content[place] ^= 1 << draw.randrange(8)
        victim.write_bytes(content)
    elif case % 16 < 12:
        victim.write_bytes(content[:place])
    else:
        victim.unlink()
    latest, damages = folder.latest()
    assert latest is not None
    assert same(latest, checkpoint(1))
    assert len(damages) == 1
    assert str(folder.path(2)) in damages[0]
    with pytest.raises(ModelError, match=r"step-00000002: (the checkpoint is|a checkpoint of format)"):
        folder.load(2)


def test_every_bit_of_the_manifest_counts(folder: Checkpoints) -> None:
    folder.save(checkpoint(1))
    manifest = folder.path(1) / "manifest.json"
    content = manifest.read_bytes()
    for place in range(len(content)):
        changed = content[place] ^ 1 << place % 8
        manifest.write_bytes(content[:place] + bytes([changed]) + content[place + 1 :])
        assert folder.latest()[0] is None, content[: place + 1]
    manifest.write_bytes(content)
    assert folder.damage(1) == ""


@pytest.mark.parametrize("manifest", ["", "[]", "null", "{}", '{"format": 1, "files": []}', "[" * 100_000])
def test_a_manifest_of_another_kind_is_damage(folder: Checkpoints, manifest: str) -> None:
    folder.save(checkpoint(1))
    (folder.path(1) / "manifest.json").write_text(manifest)
    with pytest.raises(ModelError, match="step-00000001: the checkpoint is incomplete or damaged"):
        folder.load(1)


def test_another_format_is_refused(folder: Checkpoints) -> None:
    folder.save(checkpoint(1))
    manifest = folder.path(1) / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 2}))
    with pytest.raises(ModelError, match="a checkpoint of format 2; this version reads format 1"):
        folder.load(1)


def test_a_manifest_over_something_that_holds_no_tensors(folder: Checkpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "save", lambda tensors: b"junk")
    folder.save(checkpoint(1))
    with pytest.raises(ModelError, match="step-00000001: the checkpoint holds no tensors"):
        folder.model(1)
    assert folder.latest()[0] is None


FAILURES = [*(("fsync", times) for times in range(7)), ("mkdir", 0), ("rename", 0)]
"""A call, and how often it works before it fails: a save syncs the run folder, four files, theirs, and that around it.
"""


@pytest.mark.parametrize(("call", "times"), FAILURES)
def test_a_save_that_fails_leaves_what_was_there(
    folder: Checkpoints, monkeypatch: pytest.MonkeyPatch, call: str, times: int
) -> None:
    folder.save(checkpoint(1))
    owner = os if call == "fsync" else Path
    real = getattr(owner, call)
    calls = 0

    def failing(*arguments: object, **named: object) -> object:
        nonlocal calls
        calls += 1
        if calls > times:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(*arguments, **named)

    monkeypatch.setattr(owner, call, failing)
    with pytest.raises(ResourceError, match=r"step-00000002: .* [\d,]+ bytes \(No space left") as caught:
        folder.save(checkpoint(2))
    monkeypatch.undo()
    assert caught.value.exit_code == 7
    latest, damages = folder.latest()
    assert latest is not None
    assert damages == []
    assert same(latest, checkpoint(latest.step))
    assert not list(folder.folder.glob(".tmp-*"))


def test_a_name_is_never_written_twice(folder: Checkpoints) -> None:
    folder.save(checkpoint(1))
    with pytest.raises(UsageError, match="step-00000001"):
        folder.save(checkpoint(1))
    assert same(folder.load(1), checkpoint(1))


def test_keep_deletes_the_others_and_what_was_left_behind(folder: Checkpoints) -> None:
    for step in range(1, 6):
        folder.save(checkpoint(step))
    (folder.folder / ".tmp-123-4").mkdir()
    folder.keep({2, 5, 99})
    assert sorted(path.name for path in folder.folder.iterdir()) == ["step-00000002", "step-00000005"]
    folder.keep(())
    assert list(folder.folder.iterdir()) == []
    Checkpoints(folder.folder / "nowhere").keep(())


def test_what_is_set_aside_is_out_of_the_way_and_still_there(folder: Checkpoints) -> None:
    for _ in range(2):
        folder.save(checkpoint(4))
        folder.set_aside([4, 5])
        assert folder.steps() == []
    assert [path.name for path in folder.folder.iterdir()] == ["damaged-00000004"]


def respoiled(folder: Checkpoints, name: str, content: bytes) -> None:
    """A file of checkpoint 1 with other content, and a manifest that agrees."""
    path = folder.path(1) / "manifest.json"
    manifest = json.loads(path.read_bytes())
    manifest["files"][name] = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    path.write_text(json.dumps(manifest))
    (folder.path(1) / name).write_bytes(content)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[" * 100_000, r"holds no state \(state\.json"),
        (b"{", r"holds no state \(state\.json"),
        (b"\xff", r"holds no state \(state\.json"),
        (b"[]", "holds no state of format 1 and step 1"),
        (b"null", "holds no state of format 1 and step 1"),
        (b'{"format": 1, "step": 2}', "holds no state of format 1 and step 1"),
        (b'{"format": 2, "step": 1}', "holds no state of format 1 and step 1"),
    ],
)
def test_a_state_of_another_kind_is_refused(folder: Checkpoints, content: bytes, message: str) -> None:
    folder.save(checkpoint(1))
    respoiled(folder, "state.json", content)
    with pytest.raises(ModelError, match=f"step-00000001: the checkpoint {message}") as caught:
        folder.load(1)
    assert caught.value.exit_code == 5
    assert folder.latest()[0] is None


def unreadable(number: int) -> Callable[[Path], bytes]:
    real = Path.read_bytes

    def read(path: Path) -> bytes:
        if path.name == "optimizer.safetensors" and path.parent.name == "step-00000002":
            raise OSError(number, os.strerror(number))
        return real(path)

    return read


def test_what_the_disk_cannot_give_is_damage(folder: Checkpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    for step in (1, 2):
        folder.save(checkpoint(step))
    monkeypatch.setattr(Path, "read_bytes", unreadable(errno.EIO))
    latest, damages = folder.latest()
    assert latest is not None
    assert latest.step == 1
    assert "step-00000002: the checkpoint is incomplete or damaged (optimizer.safetensors" in damages[0]
    assert "Input/output error" in damages[0]


@pytest.mark.parametrize("number", [errno.EACCES, errno.EMFILE, errno.ENOMEM, errno.ESTALE], ids=errno.errorcode.get)
def test_what_cannot_be_read_now_is_not_passed_over(
    folder: Checkpoints, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    for step in (1, 2):
        folder.save(checkpoint(step))
    monkeypatch.setattr(Path, "read_bytes", unreadable(number))
    with pytest.raises(ResourceError, match=rf"step-00000002: cannot be read \({os.strerror(number)}\)\. Nothing was"):
        folder.latest()
    assert folder.steps() == [1, 2]


def test_a_folder_that_cannot_be_listed_is_not_empty(folder: Checkpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.save(checkpoint(1))

    def failing(path: Path) -> object:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Path, "iterdir", failing)
    with pytest.raises(ResourceError, match=r"checkpoints: cannot be read \(Input/output error\)"):
        folder.latest()


def test_a_checkpoint_of_another_model_is_refused(folder: Checkpoints) -> None:
    made = checkpoint(1)
    with folder.fitting(made, made.model.items()):
        pass
    others: list[tuple[dict[str, torch.Tensor], str]] = [
        ({"a": torch.zeros(3, 5)}, r"a is 3 × 4 of float32 there and 3 × 5 of float32 here\)"),
        ({"a": torch.zeros(3, 4).half()}, r"a is 3 × 4 of float32 there and 3 × 4 of float16 here\)"),
        ({"c": torch.tensor(1.0)}, r"c is missing\)"),
        ({"a": torch.tensor(1.0)}, r"a is 3 × 4 of float32 there and one number of float32 here\)"),
    ]
    for changes, message in others:
        with (
            pytest.raises(ModelError, match=rf"step-00000001: the checkpoint is of another model \({message}\. Go on"),
            folder.fitting(made, {**made.model, **changes}.items()),
        ):
            pass
    with (
        pytest.raises(ModelError, match="b is there and not in the model") as caught,
        folder.fitting(made, [("a", made.model["a"])]),
    ):
        pass
    assert caught.value.exit_code == 5
    many = {f"x{number}": torch.zeros(1) for number in range(9)}
    with (
        pytest.raises(ModelError, match="x0 is missing; x1 is missing; x2 is missing; and 8 more"),
        folder.fitting(made, many.items()),
    ):
        pass


@pytest.mark.parametrize(
    "read", [lambda state: state["meter"], lambda state: state["name"]["x"], lambda state: state.x]
)
def test_a_state_that_is_not_what_is_read_is_refused(folder: Checkpoints, read: Callable[[Any], object]) -> None:
    made = checkpoint(1)
    with (
        pytest.raises(ModelError, match=r"step-00000001: the state of the checkpoint is not what this training"),
        folder.fitting(made, made.model.items()),
    ):
        read(made.state)


def test_what_is_half_deleted_is_never_a_checkpoint(folder: Checkpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    for step in (1, 2, 3):
        folder.save(checkpoint(step))
    monkeypatch.setattr(shutil, "rmtree", lambda path, ignore_errors: (path / "manifest.json").unlink())
    folder.keep({3})
    monkeypatch.undo()
    assert folder.steps() == [3]
    assert len(list(folder.folder.glob(".tmp-*"))) == 2
    folder.clean()
    assert [path.name for path in folder.folder.iterdir()] == ["step-00000003"]


def test_deleting_that_fails_does_not_stop_a_training(folder: Checkpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    for step in (1, 2):
        folder.save(checkpoint(step))

    def failing(*arguments: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Path, "rename", failing)
    folder.keep({2})
    with pytest.raises(
        ResourceError, match=r"step-00000002: damaged, and cannot be set aside as damaged-00000002 \(Input/output error"
    ):
        folder.set_aside([2])
    monkeypatch.undo()
    folder.keep({2})
    assert folder.steps() == [2]


def test_a_file_system_without_locks_for_folders(folder: Checkpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(handle: int, operation: int) -> None:
        raise OSError(errno.EBADF, "Bad file descriptor")

    monkeypatch.setattr(fcntl, "flock", failing)
    folder.save(checkpoint(1))
    (folder.folder / ".tmp-1-x").mkdir()
    folder.clean()
    assert [path.name for path in folder.folder.iterdir()] == ["step-00000001"]


def test_a_draft_that_another_cleans_away_at_once_is_made_anew(
    folder: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.save(checkpoint(1))
    real, made = Path.mkdir, []

    def mkdir(path: Path, *arguments: Any, **named: Any) -> None:
        real(path, *arguments, **named)
        made.append(path)
        if len(made) == 1:
            folder.clean()

    monkeypatch.setattr(Path, "mkdir", mkdir)
    folder.save(checkpoint(2))
    assert len(made) == 2
    assert same(folder.load(2), checkpoint(2))
