"""Checkpoints on disk: written whole or not at all, checked before they are used.

A checkpoint is a folder `step-00001200/` with `model.safetensors`, `optimizer.safetensors`, `state.json` and, written
last, `manifest.json` with size and sha256 of each. It is written as `.tmp-…/`, every file and the folder are synced,
and only then renamed. A name is never written twice. The latest is the highest step with a valid manifest; a damaged
one is passed over and set aside as `damaged-00001200/`. Old ones are deleted only after a new one is safe, and under
another name, so that one that is half deleted is never taken for damaged. No pickle anywhere.
"""

import errno
import fcntl
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from regard.errors import ModelError, ResourceError
from regard.files import cannot_write, make_folder, sync_folder, write_synced

FORMAT = 1
MODEL = "model.safetensors"
_NAMES = (MODEL, "optimizer.safetensors", "state.json")
_DAMAGE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EIO, errno.EUCLEAN, errno.EBADMSG)
"""Errors of reading that mean damage: a file is not there, or the disk cannot give it. Others may be gone next time."""

_TOLD = 3
"""So many tensors that do not fit are told."""


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
        try:
            names = [path.name.removeprefix("step-") for path in self.folder.iterdir()]
            steps = {int(name) for name in names if name.isascii() and name.isdigit()}
            return sorted(step for step in steps if self.path(step).is_dir())
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise _cannot_read(self.folder, error) from error

    def path(self, step: int) -> Path:
        return self.folder / f"step-{step:08d}"

    def save(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint; when this returns, it survives a crash at any later instant."""
        contents = {
            MODEL: save(dict(checkpoint.model)),
            "optimizer.safetensors": save(dict(checkpoint.optimizer)),
            "state.json": json.dumps({**checkpoint.state, "format": FORMAT, "step": checkpoint.step}).encode(),
        }
        files = {
            name: {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            for name, content in contents.items()
        }
        contents["manifest.json"] = json.dumps({"format": FORMAT, "files": files}).encode()
        final = self.path(checkpoint.step)
        try:
            make_folder(self.folder)
            with self._draft() as draft:
                for name, content in contents.items():
                    write_synced(draft / name, content)
                sync_folder(draft)
                draft.rename(final)
            sync_folder(self.folder)
        except OSError as error:
            raise cannot_write(final, sum(map(len, contents.values())), error) from error

    @contextmanager
    def _draft(self) -> Iterator[Path]:
        """A new folder that nobody else cleans away while this process lives; it goes unless it is renamed."""
        held = None
        while held is None:
            draft = self._other_name()
            draft.mkdir()
            held = _hold(draft)
        try:
            yield draft
        finally:
            shutil.rmtree(draft, ignore_errors=True)
            os.close(held)

    def _other_name(self) -> Path:
        return self.folder / f".tmp-{os.getpid()}-{secrets.token_hex(4)}"

    def load(self, step: int) -> Checkpoint:
        """Read a checkpoint, refusing one whose files differ from its manifest."""
        folder = self.path(step)
        contents = {name: self._checked(folder, name) for name in _NAMES}
        return Checkpoint(
            step=step,
            model=_tensors(folder, contents[MODEL]),
            optimizer=_tensors(folder, contents["optimizer.safetensors"]),
            state=_state(folder, contents["state.json"], step),
        )

    def model(self, step: int) -> dict[str, Tensor]:
        """Only the weights of a checkpoint."""
        return _tensors(self.path(step), self._checked(self.path(step), MODEL))

    def state(self, step: int) -> dict[str, Any]:
        """Only the state of a checkpoint."""
        return _state(self.path(step), self._checked(self.path(step), "state.json"), step)

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
        except OSError as error:
            if error.errno not in _DAMAGE:
                raise _cannot_read(folder, error) from error
            raise ModelError(f"{folder}: the checkpoint is incomplete or damaged ({name}: {error!r})") from error
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ModelError(f"{folder}: the checkpoint is incomplete or damaged ({name}: {error!r})") from error
        if version != FORMAT:
            raise ModelError(f"{folder}: a checkpoint of format {version!r}; this version reads format {FORMAT}")
        if (len(content), hashlib.sha256(content).hexdigest()) != expected[name]:
            raise ModelError(f"{folder}: the checkpoint is damaged ({name} differs from its manifest)")
        return content

    def latest(self) -> tuple[Checkpoint | None, list[str]]:
        """The newest valid checkpoint, and what is wrong with newer ones that were passed over.

        One that only cannot be read now, for want of permission or memory, is not passed over: that would lose steps.
        """
        damages: list[str] = []
        for step in reversed(self.steps()):
            try:
                return self.load(step), damages
            except ModelError as error:
                damages.append(str(error))
        return None, damages

    @contextmanager
    def fitting(self, checkpoint: Checkpoint, parameters: Iterable[tuple[str, Tensor]]) -> Iterator[None]:
        """Take up a checkpoint inside; one of another model, or whose state is not what is read, is refused."""
        folder, there = self.path(checkpoint.step), dict(checkpoint.model)
        wrong = [problem for name, here in parameters if (problem := _misfit(name, there.pop(name, None), here))]
        wrong += [f"{name} is there and not in the model" for name in there]
        if wrong:
            more = f"; and {len(wrong) - _TOLD} more" if len(wrong) > _TOLD else ""
            raise ModelError(
                f"{folder}: the checkpoint is of another model ({'; '.join(wrong[:_TOLD])}{more}). Go on with the "
                "recipe it was made with, choose another folder with run=FOLDER, or start anew with --overwrite"
            )
        try:
            yield
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ModelError(
                f"{folder}: the state of the checkpoint is not what this training reads ({error!r}). Go on with the "
                "version of regard that made it, or start anew with --overwrite"
            ) from error

    def keep(self, steps: Collection[int]) -> None:
        """Delete all checkpoints but these, and what interrupted saves left behind.

        They lose their names first, for good, and then their files. What cannot be deleted now is tried again later.
        """
        with suppress(OSError):
            gone = [step for step in self.steps() if step not in steps]
            for step in gone:
                self.path(step).rename(self._other_name())
            if gone:
                sync_folder(self.folder)
            self.clean()

    def set_aside(self, steps: Iterable[int]) -> None:
        """Give damaged checkpoints another name, so that they are not in the way and can still be looked at."""
        for step in steps:
            path, aside = self.path(step), self.folder / f"damaged-{step:08d}"
            try:
                if path.exists() and aside.exists():
                    aside.rename(self._other_name())
                if path.exists():
                    path.rename(aside)
            except OSError as error:
                raise ResourceError(
                    f"{path}: damaged, and cannot be set aside as {aside.name} ({error.strerror}); make the folder "
                    "writable, then run the same command again"
                ) from error
        self.clean()

    def clear(self) -> None:
        """Delete all checkpoints, at once: a crash leaves all of them or none."""
        if self.folder.is_dir():
            self.folder.rename(self.folder.with_name(f".tmp-{self.folder.name}-{secrets.token_hex(4)}"))
            sync_folder(self.folder.parent)
        self.clean()

    def clean(self) -> None:
        """Delete what interrupted saves and deletions left behind; what a living process is writing stays."""
        cleared = self.folder.parent.glob(f".tmp-{self.folder.name}-*")
        for path in (*self.folder.glob(".tmp-*"), *cleared):
            with suppress(OSError):
                if (held := _hold(path, wait=False)) is not None:
                    shutil.rmtree(path, ignore_errors=True)
                    os.close(held)


def _hold(folder: Path, *, wait: bool = True) -> int | None:
    """Lock a folder until the handle that is returned is closed, or the process ends; None if the folder is gone.

    Some file systems have no locks for folders; what is there is then as good as held.
    """
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise
    except OSError:
        pass
    if folder.is_dir():
        return handle
    os.close(handle)
    return None


def _cannot_read(path: Path, error: OSError) -> ResourceError:
    return ResourceError(
        f"{path}: cannot be read ({error.strerror or error}). Nothing was changed; mend that, then run the same "
        "command again"
    )


def _misfit(name: str, there: Tensor | None, here: Tensor) -> str:
    if there is None:
        return f"{name} is missing"
    if (there.shape, there.dtype) != (here.shape, here.dtype):
        return f"{name} is {_described(there)} there and {_described(here)} here"
    return ""


def _described(tensor: Tensor) -> str:
    return f"{' × '.join(map(str, tensor.shape)) or 'one number'} of {str(tensor.dtype).removeprefix('torch.')}"


def _state(folder: Path, content: bytes, step: int) -> dict[str, Any]:
    try:
        state = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{folder}: the checkpoint holds no state (state.json: {error})") from error
    if not isinstance(state, dict) or (state.pop("format", None), state.pop("step", None)) != (FORMAT, step):
        raise ModelError(f"{folder}: the checkpoint holds no state of format {FORMAT} and step {step} (state.json)")
    return state


def _tensors(folder: Path, content: bytes) -> dict[str, Tensor]:
    try:
        return load(content)
    except SafetensorError as error:
        raise ModelError(f"{folder}: the checkpoint holds no tensors ({error})") from error
