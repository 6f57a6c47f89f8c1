"""Checkpoints on disk: written whole or not at all, checked before they are used.

A checkpoint is a folder `step-00001200/` with `model.safetensors`, `optimizer.safetensors`, `state.json` and, written
last, `manifest.json` with size and sha256 of each. It is written under another name, every file and the folder are
synced, and only then renamed. A name is never written twice. The latest is the highest step with a valid manifest; a
damaged one is passed over and set aside as `damaged-00001200/`. Old ones are deleted only after a new one is safe. No
pickle anywhere.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from regard.errors import ModelError
from regard.files import cannot_write, sync_folder, write_synced

FORMAT = 1
_NAMES = ("model.safetensors", "optimizer.safetensors", "state.json")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Everything that a training goes on from."""

    step: int
    model: Mapping[str, Tensor]
    optimizer: Mapping[str, Tensor]
    state: Mapping[str, Any]


class Checkpoints:
    """The folder that holds the checkpoints of one run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def steps(self) -> list[int]:
        """Steps that have a checkpoint folder, oldest first; whether they are valid shows when they are read."""
        if not self.folder.is_dir():
            return []
        names = (path.name.removeprefix("step-") for path in self.folder.iterdir() if path.is_dir())
        steps = (int(name) for name in names if name.isascii() and name.isdigit())
        return sorted(step for step in steps if self.path(step).is_dir())

    def path(self, step: int) -> Path:
        return self.folder / f"step-{step:08d}"

    def save(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint; when this returns, it survives a crash at any later instant."""
        contents = {
            "model.safetensors": save(dict(checkpoint.model)),
            "optimizer.safetensors": save(dict(checkpoint.optimizer)),
            "state.json": json.dumps({"format": FORMAT, "step": checkpoint.step, **checkpoint.state}).encode(),
        }
        manifest = {
            "format": FORMAT,
            "files": {
                name: {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
                for name, content in contents.items()
            },
        }
        final = self.path(checkpoint.step)
        temporary = self.folder / f".tmp-{os.getpid()}-{checkpoint.step}"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir()
            for name, content in contents.items():
                write_synced(temporary / name, content)
            write_synced(temporary / "manifest.json", json.dumps(manifest).encode())
            sync_folder(temporary)
            temporary.rename(final)
            sync_folder(self.folder)
        except OSError as error:
            shutil.rmtree(temporary, ignore_errors=True)
            raise cannot_write(final, sum(map(len, contents.values())), error) from error

    def load(self, step: int) -> Checkpoint:
        """Read a checkpoint, refusing one whose files differ from its manifest."""
        folder = self.path(step)
        contents = {name: self._checked(folder, name) for name in _NAMES}
        state = json.loads(contents["state.json"])
        return Checkpoint(
            step=step,
            model=_tensors(folder, contents["model.safetensors"]),
            optimizer=_tensors(folder, contents["optimizer.safetensors"]),
            state={key: value for key, value in state.items() if key not in ("format", "step")},
        )

    def model(self, step: int) -> dict[str, Tensor]:
        """Only the weights of a checkpoint."""
        return _tensors(self.path(step), self._checked(self.path(step), "model.safetensors"))

    def damage(self, step: int) -> str:
        """What is wrong with the weights of a checkpoint; empty if nothing is."""
        try:
            self.model(step)
        except ModelError as error:
            return str(error)
        return ""

    def _checked(self, folder: Path, name: str) -> bytes:
        try:
            manifest = json.loads((folder / "manifest.json").read_bytes())
            version, files = manifest["format"], manifest["files"]
            expected = {each: (files[each]["size"], files[each]["sha256"]) for each in _NAMES}
            content = (folder / name).read_bytes()
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise ModelError(f"{folder}: the checkpoint is incomplete or damaged ({name}: {error!r})") from error
        if version != FORMAT:
            raise ModelError(f"{folder}: a checkpoint of format {version!r}; this version reads format {FORMAT}")
        if (len(content), hashlib.sha256(content).hexdigest()) != expected[name]:
            raise ModelError(f"{folder}: the checkpoint is damaged ({name} differs from its manifest)")
        return content

    def latest(self) -> tuple[Checkpoint | None, list[str]]:
        """The newest valid checkpoint, and what is wrong with newer ones that were passed over."""
        damages: list[str] = []
        for step in reversed(self.steps()):
            try:
                return self.load(step), damages
            except ModelError as error:
                damages.append(str(error))
        return None, damages

    def keep(self, steps: Collection[int]) -> None:
        """Delete all checkpoints but these, and what interrupted saves left behind."""
        for step in self.steps():
            if step not in steps:
                shutil.rmtree(self.path(step), ignore_errors=True)
        self.clean()

    def set_aside(self, steps: Iterable[int]) -> None:
        """Give damaged checkpoints another name, so that they are not in the way and can still be looked at."""
        for step in steps:
            aside = self.folder / f"damaged-{step:08d}"
            shutil.rmtree(aside, ignore_errors=True)
            if self.path(step).exists():
                self.path(step).rename(aside)

    def clean(self) -> None:
        """Delete what interrupted saves left behind."""
        if self.folder.is_dir():
            for path in self.folder.glob(".tmp-*"):
                shutil.rmtree(path, ignore_errors=True)


def _tensors(folder: Path, content: bytes) -> dict[str, Tensor]:
    try:
        return load(content)
    except SafetensorError as error:
        raise ModelError(f"{folder}: the checkpoint holds no tensors ({error})") from error
