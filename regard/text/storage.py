"""Tokenizer files: written whole or not at all, and read with every field checked.

A tokenizer is `name.json` with `{"format": 1, "unit": ...}`, and `name.spm` where sentencepiece has a model of its own.
What is read may be damaged or made to harm: whatever is wrong with it becomes a ModelError that names the file.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NoReturn, Protocol, TypeVar

from regard.errors import ModelError
from regard.files import replace_file
from regard.text.tokenizer import Tokenizer

Choice = TypeVar("Choice", bound=str)

FORMAT: Final = 1
LARGEST_FILE: Final = 1 << 28
"""Bytes of a tokenizer file that are read at most; a million words need a tenth of it."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What a tokenizer leaves in its files: fields for the JSON file, and the bytes of the sentencepiece model."""

    fields: Mapping[str, object]
    model: bytes | None = field(default=None, repr=False)


class StoredTokenizer(Tokenizer, Protocol):
    """A tokenizer that can say what it leaves in its files."""

    def stored(self) -> Stored:
        """All that is needed to build the same tokenizer again."""
        ...


def write_tokenizer(folder: Path, name: str, stored: Stored) -> None:
    """Write the files of a tokenizer; the JSON file, which the reader starts from, comes last."""
    text = json.dumps({"format": FORMAT, **stored.fields}, ensure_ascii=False, indent=1)
    if stored.model is not None:
        replace_file(folder / f"{name}.spm", stored.model)
    replace_file(folder / f"{name}.json", text.encode("utf-8") + b"\n")


def refuse(path: Path, reason: str) -> NoReturn:
    """Say what is wrong with a file of a tokenizer."""
    raise ModelError(f"{path}: {reason}; restore the file from a copy or train the model again")


def read_bytes(path: Path) -> bytes:
    """All bytes of a regular file of reasonable size."""
    try:
        if not path.is_file():
            refuse(path, "there is no such file" if not path.exists() else "this is not a file")
        if (size := path.stat().st_size) > LARGEST_FILE:
            refuse(path, f"the file has {size} bytes, more than the {LARGEST_FILE} that a tokenizer may have")
        return path.read_bytes()
    except (OSError, ValueError) as error:
        refuse(path, f"the file cannot be read ({error})")


def read_fields(path: Path) -> "Fields":
    """The fields of a tokenizer's JSON file."""
    content = read_bytes(path)
    try:
        data = json.loads(content.decode("utf-8"), object_pairs_hook=_distinct_keys)
    except (ValueError, RecursionError) as error:
        refuse(path, f"the file is not valid JSON ({error})")
    if not isinstance(data, dict):
        refuse(path, f"the file holds a JSON {type(data).__name__}, not an object")
    fields = Fields(path, data)
    if (number := fields.whole("format", low=0)) != FORMAT:
        refuse(path, f"the file has format {number}, but this version of regard reads format {FORMAT}")
    return fields


def _distinct_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    keys = dict(pairs)
    if len(keys) != len(pairs):
        raise ValueError("a key occurs twice in one object")
    return keys


class Fields:
    """The fields of one file, taken out one by one with their types checked."""

    def __init__(self, path: Path, data: dict[str, object]) -> None:
        self.path = path
        self._data = data

    def refuse(self, reason: str) -> NoReturn:
        """Say what is wrong with this file."""
        refuse(self.path, reason)

    def whole(self, key: str, *, low: int) -> int:
        """A whole number that is not smaller than `low`."""
        value = self._take(key)
        if not isinstance(value, int) or isinstance(value, bool) or value < low:
            self.refuse(f"`{key}` must be a whole number of at least {low}")
        return value

    def choice(self, key: str, allowed: Sequence[Choice]) -> Choice:
        """One of the allowed texts."""
        value = self._take(key)
        found = next((choice for choice in allowed if choice == value), None)
        if found is None:
            self.refuse(f"`{key}` must be one of {', '.join(allowed)}")
        return found

    def flag(self, key: str) -> bool:
        """True or false."""
        value = self._take(key)
        if not isinstance(value, bool):
            self.refuse(f"`{key}` must be true or false")
        return value

    def text(self, key: str) -> str:
        """A text."""
        return self._valid(key, self._take(key))

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts that are not empty and all different."""
        entries = tuple(self._valid(key, entry) for entry in self._list(key))
        if len(set(entries)) != len(entries):
            self.refuse(f"`{key}` holds an entry twice")
        return entries

    def pairs(self, key: str) -> tuple[tuple[str, str], ...]:
        """A list of pairs of texts that are not empty."""
        pairs = []
        for pair in self._list(key):
            if not isinstance(pair, list) or len(pair) != 2:
                self.refuse(f"`{key}` must be a list of pairs of texts")
            pairs.append((self._valid(key, pair[0]), self._valid(key, pair[1])))
        return tuple(pairs)

    def finish(self) -> None:
        """Refuse what nobody took: a file with more fields says more than this version would heed."""
        if self._data:
            self.refuse(f"the field `{sorted(self._data)[0]}` is not known for this unit")

    def has(self, key: str) -> bool:
        """Whether the field is there and not taken yet."""
        return key in self._data

    def _take(self, key: str) -> object:
        if key not in self._data:
            self.refuse(f"the field `{key}` is missing")
        return self._data.pop(key)

    def _list(self, key: str) -> list[object]:
        value = self._take(key)
        if not isinstance(value, list):
            self.refuse(f"`{key}` must be a list")
        return value

    def _valid(self, key: str, value: object) -> str:
        if not isinstance(value, str) or not value:
            self.refuse(f"`{key}` must hold texts that are not empty")
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            self.refuse(f"`{key}` holds a lone surrogate, which is no Unicode character")
        return value
