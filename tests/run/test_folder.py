"""The run folder: whose it is, who holds it, and what in it is refused."""

import errno
import json
import os
import resource
import shutil
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from regard.errors import BusyError, ModelError, UsageError
from regard.recipe import dump_recipe, override_recipe
from regard.run.folder import RunFolder
from regard.run.model import Model
from regard.run.training import Trained
from tests.toys import toy_recipe


@pytest.fixture
def copy(trained: Trained, tmp_path: Path) -> Path:
    """A copy of the finished run that may be spoiled."""
    shutil.copytree(trained.model.folder, tmp_path / "copy")
    return tmp_path / "copy"


def refused(folder: Path, message: str) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        Model.load(folder)
    assert caught.value.exit_code == 5


def test_a_folder_is_made_with_its_parents(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "a b" / "ü")
    folder.create()
    folder.create()
    assert folder.path.is_dir()
    assert not folder.begun


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(UsageError, match=r"file.*: the run folder cannot be made \(.*\); choose another"):
            RunFolder(path).create()


def test_a_folder_that_cannot_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(UsageError, match="the run folder cannot be written to; make it writable, or choose another"):
        RunFolder(tmp_path).create()


@pytest.mark.parametrize("name", ["README.md", "recipe.yaml", "data", "text.json", "attribute2.json"])
def test_files_of_others_are_not_written_over(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(UsageError, match=rf"not a run folder, and a run would write over what is in it \({name}\)"):
        RunFolder(tmp_path).create()
    assert (tmp_path / name).read_text() == "mine"


def test_a_run_that_was_copied_without_its_lock_is_still_one(copy: Path) -> None:
    (copy / ".lock").unlink()
    RunFolder(copy).create()


def test_clearing_leaves_what_is_not_of_the_run(copy: Path) -> None:
    others = ("notes.txt", "factor0.json", "factors.json", "attribute1.txt", "mytext.json")
    for name in (*others, "factor1.json", "factor12.json", "attribute1.json", "source.spm"):
        (copy / name).write_text("mine")
    folder = RunFolder(copy)
    assert folder.begun
    folder.clear()
    assert not folder.begun
    assert sorted(path.name for path in copy.iterdir()) == sorted([".lock", "data", *others])


def test_one_trainer_at_a_time(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    with (
        folder.locked(),
        pytest.raises(
            BusyError, match=rf"another process is training into this folder \(process {os.getpid()}\)"
        ) as caught,
        RunFolder(tmp_path).locked(),
    ):
        pass
    assert caught.value.exit_code == 8
    with folder.locked():
        assert folder.lock.read_text() == str(os.getpid())


def test_json_that_is_missing_or_damaged_is_nothing(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.write_json(tmp_path / "a.json", {"ü": [1, None]})
    assert folder.read_json(tmp_path / "a.json") == {"ü": [1, None]}
    (tmp_path / "a.json").write_text('{"ü"')
    assert folder.read_json(tmp_path / "a.json") is None
    assert folder.read_json(tmp_path / "b.json") is None


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    refused(tmp_path / "nowhere", "nowhere: there is no such run folder")
    refused(tmp_path, "not a run folder, recipe.yaml is missing")
    (tmp_path / "recipe.yaml").mkdir()
    refused(tmp_path, r"recipe\.yaml: cannot be read \(.*[Ii]s a directory")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff", r"recipe\.yaml: cannot be read \(.*utf-8"),
        (b"!!python/object:os.system {}", r"the recipe of this run folder cannot be used"),
        (b"model: {width: 3}", r"cannot be used\. .*recipe\.yaml"),
        (b"format: 2", r"cannot be used"),
    ],
)
def test_a_recipe_that_cannot_be_read_is_a_matter_of_the_model(copy: Path, content: bytes, message: str) -> None:
    (copy / "recipe.yaml").write_bytes(content)
    refused(copy, message)


def test_weights_that_are_missing(copy: Path) -> None:
    (copy / "weights.safetensors").unlink()
    refused(copy, r"weights\.safetensors is missing; training has not finished\. Run its train command again")


@pytest.mark.parametrize(
    "content", [b"", b"junk", b"\xff" * 64, b"\x80\x04K\x01.", (2**62).to_bytes(8, "little") + b"{}"]
)
def test_weights_that_are_junk(copy: Path, content: bytes) -> None:
    (copy / "weights.safetensors").write_bytes(content)
    refused(copy, r"weights\.safetensors: not a weights file")


def test_weights_that_are_cut_off(copy: Path) -> None:
    whole = (copy / "weights.safetensors").read_bytes()
    for size in (7, 9, len(whole) // 2, len(whole) - 1):
        (copy / "weights.safetensors").write_bytes(whole[:size])
        refused(copy, r"weights\.safetensors: not a weights file")


def respoiled(copy: Path, tensors: dict[str, torch.Tensor], version: str | None = "1") -> None:
    save_file(tensors, copy / "weights.safetensors", metadata={"format": version} if version else None)


def test_weights_of_another_model(copy: Path) -> None:
    tensors = load_file(copy / "weights.safetensors")
    name = "decoder.embedding.weight"
    shape = tuple(tensors[name].shape)
    respoiled(copy, {**tensors, name: torch.zeros(shape[0], shape[1] + 1)})
    told = rf"does not fit recipe\.yaml: {name} should be \({shape[0]}, 16\) and is \({shape[0]}, 17\)"
    refused(copy, told)
    respoiled(copy, {other: tensor for other, tensor in tensors.items() if other != name})
    refused(copy, rf"{name} should be \(12, 16\) and is absent")
    respoiled(copy, {**tensors, "extra": torch.zeros(1)})
    refused(copy, "extra should be absent and is")


@pytest.mark.parametrize("version", [None, "2"])
def test_weights_of_another_format(copy: Path, version: str | None) -> None:
    respoiled(copy, load_file(copy / "weights.safetensors"), version)
    refused(copy, f"weights of format {version!r}; this version reads format '1'")


def test_a_tokenizer_that_is_missing(copy: Path) -> None:
    (copy / "source.json").unlink()
    refused(copy, r"source\.json: there is no such file")


def test_a_recipe_that_asks_for_more_than_the_weights_is_refused_before_memory_is_taken(copy: Path) -> None:
    recipe = RunFolder(copy).read_recipe()
    large = override_recipe(recipe, ["model.width=16384", "model.layers=64"])
    (copy / "recipe.yaml").write_text(dump_recipe(large), encoding="utf-8")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.monotonic()
    refused(copy, r"does not fit recipe\.yaml: decoder\.")
    assert time.monotonic() - began < 10
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 * 1024


def test_written_weights_come_back(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    tensors = {"a": torch.randn(3, 2), "b": torch.randn(4, 2).T}
    folder.write_weights(tensors)
    assert folder.shapes() == {"a": (3, 2), "b": (2, 4)}
    assert all(torch.equal(tensor, folder.read_weights()[name]) for name, tensor in tensors.items())
    folder.weights.write_bytes(b"junk")
    with pytest.raises(ModelError, match=r"weights\.safetensors: cannot be read"):
        folder.read_weights()


def test_a_written_recipe_comes_back(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    recipe = toy_recipe(tmp_path, tmp_path / "pairs ü.tsv")
    folder.write_recipe(recipe)
    assert folder.read_recipe() == recipe
    assert json.dumps(recipe.model_dump())


def test_an_earlier_run_that_cannot_be_deleted(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*arguments: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(UsageError, match=r"copy: the earlier run cannot be deleted \(.*Operation not permitted\)"):
        RunFolder(copy).clear()
    assert RunFolder(copy).begun


def test_a_beginning_that_cannot_be_deleted(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").mkdir()
    with pytest.raises(
        UsageError, match=r"cannot be deleted \(.*recipe\.yaml'\); delete it yourself, or choose another"
    ):
        RunFolder(tmp_path).clear_beginning()
