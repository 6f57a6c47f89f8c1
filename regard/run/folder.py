"""The run folder: what is where, and how it is held by one process at a time.

recipe.yaml             the resolved recipe
text.json, text.spm     the tokenizer (or source.* and target.*); factor1.json, attribute1.json, … of further columns
weights.safetensors     the best weights
engine.bin              the same weights for the native engine, where `regard prepare` has made it
engine.json             what `regard-runtime` must know beside them
ctranslate2/            the same weights for CTranslate2, where `--engine ctranslate2` has made it
metrics.json            scores with intervals and signatures
checkpoints/            what training goes on from
log.jsonl               one line for each event of training
data/                   validation and test pairs that were split off, what was skipped, and which stores were made
README.md, report.html  the model card, and the page to look at
"""

import fcntl
import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import load, save
from torch import Tensor

from regard.errors import BusyError, ModelError, RecipeError, UsageError
from regard.files import cannot_write, make_folder, remove_waiting, replace_file
from regard.recipe import dump_recipe, parse_recipe
from regard.recipe.schema import Recipe
from regard.training import Checkpoints

FORMAT = "1"
FILES = (
    "recipe.yaml", "weights.safetensors", "engine.bin", "engine.json", "metrics.json", "log.jsonl", "README.md",
    "report.html",
)  # fmt: skip
PATIENCE = 1.0
"""Seconds to wait for the number of the process that holds a folder."""

EXPORT = re.compile("[0-9a-f]{16}")
TEXT = re.compile(r"(text|source|target|(factor|attribute)[1-9][0-9]*)\.(json|spm)")


class RunFolder:
    """Paths of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.recipe = path / "recipe.yaml"
        self.weights = path / "weights.safetensors"
        self.metrics = path / "metrics.json"
        self.log = path / "log.jsonl"
        self.card = path / "README.md"
        self.report = path / "report.html"
        self.data = path / "data"
        self.stores = self.data / "stores.json"
        self.exported = path / "ctranslate2"
        self.lock = path / ".lock"
        self.checkpoints = Checkpoints(path / "checkpoints")

    def make(self) -> None:
        """Make the folder, or say why it cannot be."""
        try:
            make_folder(self.path)
        except OSError as error:
            raise UsageError(
                f"{self.path}: the run folder cannot be made ({error.strerror}); choose another with run=FOLDER"
            ) from error
        if not os.access(self.path, os.W_OK):
            raise UsageError(
                f"{self.path}: the run folder cannot be written to; make it writable, or choose another with run=FOLDER"
            )

    def create(self) -> None:
        """Make the folder for a run. Files of others are never written over."""
        self.make()
        taken = [name for name in (*FILES, *self._texts(), self.data.name) if (self.path / name).exists()]
        if taken and not (self.lock.exists() or self.begun):
            raise UsageError(
                f"{self.path}: not a run folder, and a run would write over what is in it ({', '.join(taken)}); choose "
                "another with run=FOLDER"
            )

    @property
    def begun(self) -> bool:
        """Whether anything has been learned here."""
        return self.weights.exists() or bool(self.checkpoints.steps())

    def clear(self) -> None:
        """Delete what an earlier run left in its folder, and nothing else."""
        try:
            self.checkpoints.clear()
            for name in FILES:
                (self.path / name).unlink(missing_ok=True)
            for folder in self.exports():
                shutil.rmtree(folder)
        except OSError as error:
            raise self._cannot_delete(error) from error
        self.clear_beginning()

    def clear_beginning(self) -> None:
        """Delete what a run writes before it learns anything."""
        try:
            for path in (self.recipe, self.log, self.stores, *(self.path / name for name in self._texts())):
                path.unlink(missing_ok=True)
        except OSError as error:
            raise self._cannot_delete(error) from error

    def _cannot_delete(self, error: OSError) -> UsageError:
        return UsageError(
            f"{self.path}: the earlier run cannot be deleted ({error}); delete it yourself, or choose another folder "
            "with run=FOLDER"
        )

    def exports(self) -> list[Path]:
        """Folders of weights for CTranslate2, each called by a checksum of what it was made of."""
        return [path for path in self.exported.glob("*") if EXPORT.fullmatch(path.name)]

    def _texts(self) -> list[str]:
        """The files of tokenizers that are there, of whichever recipe."""
        return sorted(path.name for path in self.path.glob("*") if TEXT.fullmatch(path.name))

    def read_recipe(self) -> Recipe:
        """The recipe of a run that exists."""
        if not self.path.is_dir():
            raise ModelError(f"{self.path}: there is no such run folder")
        try:
            text = self.recipe.read_bytes().decode()
        except FileNotFoundError as error:
            raise ModelError(f"{self.path}: not a run folder, recipe.yaml is missing") from error
        except (OSError, UnicodeDecodeError) as error:
            raise ModelError(f"{self.recipe}: cannot be read ({error})") from error
        try:
            recipe = parse_recipe(text, str(self.recipe))
        except RecipeError as error:
            raise ModelError(f"the recipe of this run folder cannot be used. {error}") from error
        return _as_it_was(recipe)

    def write_recipe(self, recipe: Recipe) -> None:
        replace_file(self.recipe, dump_recipe(recipe).encode())

    def write_weights(self, tensors: Mapping[str, Tensor]) -> None:
        content = save({name: tensor.contiguous() for name, tensor in tensors.items()}, metadata={"format": FORMAT})
        replace_file(self.weights, content)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Names and shapes of the weights, from the head of the file only."""
        if not self.weights.is_file():
            raise ModelError(
                f"{self.path}: weights.safetensors is missing; training has not finished. Run its train command again"
            )
        try:
            with safe_open(self.weights, framework="pt") as file:
                version = (file.metadata() or {}).get("format")
                shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError) as error:
            raise ModelError(f"{self.weights}: not a weights file ({error})") from error
        if version != FORMAT:
            raise ModelError(f"{self.weights}: weights of format {version!r}; this version reads format {FORMAT!r}")
        return shapes

    def read_weights(self) -> dict[str, Tensor]:
        try:
            return load(self.weights.read_bytes())
        except (SafetensorError, OSError) as error:
            raise ModelError(f"{self.weights}: cannot be read ({error})") from error

    def write_json(self, path: Path, record: object) -> None:
        replace_file(path, (json.dumps(record, indent=2, ensure_ascii=False) + "\n").encode())

    def read_json(self, path: Path) -> object:
        """What `write_json` wrote; None where it is missing or damaged."""
        try:
            return json.loads(path.read_bytes())
        except (OSError, ValueError, RecursionError):
            return None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder for training; a second trainer is refused. The lock ends with the process.

        What a process that was killed was just writing is taken away.
        """
        holder = str(os.getpid()).encode()
        try:
            handle = os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise cannot_write(self.lock, len(holder), error) from error
        try:
            self._take(handle, holder)
            remove_waiting(self.path, lambda name: name in FILES or TEXT.fullmatch(name) is not None)
            remove_waiting(self.data, lambda _: True)
            yield
        finally:
            os.close(handle)

    def _take(self, handle: int, holder: bytes) -> None:
        """Take the lock and write down who holds it; who is refused is told the process that does.

        Another process may hold it and not yet have written its number: then there is none, or that of a dead one.
        """
        until = time.monotonic() + PATIENCE
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                other = os.pread(handle, 20, 0).decode(errors="replace").strip()
                if _lives(other) or time.monotonic() > until:
                    raise BusyError(
                        f"{self.path}: another process is training into this folder (process {other or 'unknown'}); "
                        "wait for it, or choose another folder with run=FOLDER"
                    ) from error
            except OSError as error:
                raise UsageError(
                    f"{self.lock}: cannot be locked ({error.strerror}); choose a folder on another disk with run=FOLDER"
                ) from error
            time.sleep(0.01)
        try:
            os.ftruncate(handle, 0)
            os.pwrite(handle, holder, 0)
        except OSError as error:
            raise cannot_write(self.lock, len(holder), error) from error


def _lives(process: str) -> bool:
    """Whether a number is that of a process that runs here."""
    try:
        os.kill(int(process), 0)
    except PermissionError:
        return True
    except (ValueError, OverflowError, ProcessLookupError):
        return False
    return True


def _as_it_was(recipe: Recipe) -> Recipe:
    """A recipe of a run from before there was a choice, with what was the case then."""
    search, training = recipe.search, recipe.training
    if "stopping" not in search.model_fields_set:
        search = search.model_copy(update={"stopping": "exact"})
    if "lanes" not in training.model_fields_set:
        training = training.model_copy(update={"lanes": 1})
    return recipe.model_copy(update={"search": search, "training": training})
