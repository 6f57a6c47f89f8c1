"""A checkpoint folder of Hugging Face Transformers, read without that library: `config.json` and safetensors files.

What is read may be damaged or made to harm: nothing in it is run, and whatever is wrong becomes a ModelError. Every
tensor must be taken, or be named as one that is not needed: what is left over means that the model is another one.
"""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NoReturn

import torch
from pydantic import ValidationError
from safetensors import SafetensorError, safe_open
from torch import Tensor

from regard.errors import ModelError

LARGEST_JSON: Final = 1 << 28
PICKLED: Final = (
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
    "model.ckpt",
    "tf_model.h5",
    "flax_model.msgpack",
)


def read_json(path: Path) -> object:
    """What a JSON file holds."""
    try:
        if path.stat().st_size > LARGEST_JSON:
            raise ModelError(f"{path}: the file is larger than any of its kind ({LARGEST_JSON} bytes at most)")
        return json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise ModelError(
            f"{path}: there is no such file; give the folder of a Transformers checkpoint (`save_pretrained` makes one)"
        ) from error
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path}: cannot be read as JSON ({error})") from error


class Settings:
    """The settings of a JSON file, taken by name with their types checked; a setting that is null is not there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        content = read_json(path)
        if not isinstance(content, dict):
            self.refuse("the file holds no JSON object")
        self._content: dict[str, object] = content

    def refuse(self, reason: str) -> NoReturn:
        """Say what is wrong with this file."""
        raise ModelError(f"{self.path}: {reason}")

    def get(self, name: str) -> object:
        """Anything, None where it is missing."""
        return self._content.get(name)

    def whole(self, name: str, default: int | None = None, *, low: int = 0) -> int:
        """A whole number."""
        value = self._content.get(name)
        value = default if value is None else value
        if not isinstance(value, int) or isinstance(value, bool) or value < low:
            self.refuse(f"`{name}` must be a whole number of at least {low}, not {value!r}")
        return value

    def number(self, name: str, default: float) -> float:
        """Any number."""
        value = self._content.get(name)
        value = default if value is None else value
        if not isinstance(value, int | float) or isinstance(value, bool):
            self.refuse(f"`{name}` must be a number, not {value!r}")
        return float(value)

    def flag(self, name: str, default: bool) -> bool:
        """True or false."""
        value = self._content.get(name)
        value = default if value is None else value
        if not isinstance(value, bool):
            self.refuse(f"`{name}` must be true or false, not {value!r}")
        return value

    def choice(self, name: str, default: str, allowed: dict[str, str]) -> str:
        """What one of the allowed names is called here."""
        value = self._content.get(name)
        value = default if value is None else value
        if not isinstance(value, str) or value not in allowed:
            self.refuse(f"`{name}` is {value!r}; regard has {', '.join(allowed)}")
        return allowed[value]

    @contextmanager
    def possible(self) -> Iterator[None]:
        """Refuse settings of which no model can be built: what the schema of recipes says becomes our word."""
        try:
            yield
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            self.refuse(f"no model can be built of these settings: {place}: {first['msg']}")


class Checkpoint:
    """The tensors of a folder, each taken once."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise ModelError(f"{folder}: there is no such folder")
        self.folder = folder
        self.config = Settings(folder / "config.json")
        self._homes = self._find()
        self._taken: set[str] = set()

    def _find(self) -> dict[str, Path]:
        """In which file each tensor is."""
        single, index = self.folder / "model.safetensors", self.folder / "model.safetensors.index.json"
        if single.is_file():
            files = [single]
        elif index.is_file():
            names = Settings(index).get("weight_map")
            if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
                raise ModelError(f"{index}: `weight_map` must say for each tensor in which file it is")
            if any(Path(name).name != name for name in names.values()):
                raise ModelError(f"{index}: names a file outside of its folder")
            files = [self.folder / name for name in sorted(set(names.values()))]
        else:
            self._refuse_missing()
        homes: dict[str, Path] = {}
        for path in files:
            try:
                with safe_open(path, framework="pt") as file:
                    homes |= dict.fromkeys(file.keys(), path)
            except (SafetensorError, OSError) as error:
                raise ModelError(f"{path}: cannot be read as a safetensors file ({error})") from error
        return homes

    def _refuse_missing(self) -> NoReturn:
        for name in PICKLED:
            if (self.folder / name).exists():
                raise ModelError(
                    f"{self.folder / name}: not read, as files of this kind can run code when they are opened; convert "
                    "the checkpoint to safetensors where you trust it (load it with Transformers, `save_pretrained`)"
                )
        raise ModelError(f"{self.folder}: there are no weights; `model.safetensors` or its index is needed")

    def has(self, name: str) -> bool:
        return name in self._homes

    def take(self, name: str, *shape: int) -> Tensor:
        """One tensor in single precision; refused if it is not of this shape."""
        if name not in self._homes:
            raise ModelError(
                f"{self.folder}: the tensor {name} is missing, which a model of this config.json has; the weights and "
                "the config come from different models"
            )
        path = self._homes[name]
        try:
            with safe_open(path, framework="pt") as file:
                tensor: Tensor = file.get_tensor(name)
        except (SafetensorError, OSError) as error:
            raise ModelError(f"{path}: {name} cannot be read ({error})") from error
        if tuple(tensor.shape) != shape:
            raise ModelError(f"{path}: {name} should be {shape} by config.json and is {tuple(tensor.shape)}")
        if not tensor.is_floating_point():
            raise ModelError(f"{path}: {name} holds {tensor.dtype}; quantised checkpoints are not read")
        self._taken.add(name)
        return tensor.to(torch.float32)

    def first(self, names: Sequence[str], *shape: int) -> Tensor:
        """The first of these tensors that is there; files of tied weights hold one of several names."""
        return self.take(next((name for name in names if self.has(name)), names[0]), *shape)

    def finish(self, unneeded: Sequence[str]) -> None:
        """Refuse what nobody took, save names that match one of the `unneeded`."""
        left = sorted(self._homes.keys() - self._taken)
        unknown = [name for name in left if not any(re.fullmatch(pattern, name) for pattern in unneeded)]
        if unknown:
            more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
            raise ModelError(
                f"{self._homes[unknown[0]]}: the tensor {unknown[0]}{more} is not known in this layout, so the model "
                "would not compute what it did; only plain Marian, BART, T5 and BERT are read"
            )
