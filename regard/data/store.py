"""Examples as ids on disk: encoded once, then memory-mapped, so that any number of processes share one copy.

A store is a folder that is named by a hash of everything that went into it, and that appears whole or not at all:

    manifest.json           format, key, streams, names of the files, size and sha256 of everything below
    source.ids.npy          int32, the ids of all examples one after the other
    source.offsets.npy      int64, example i has the ids [offsets[i], offsets[i + 1])
    target.ids.npy ...      the same for every stream
    lines.npy, files.npy    int64 and int32, where each example stands
    ledger.tsv              what was skipped or cut when the store was made; told again whenever it is used
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from regard.data.example import Place
from regard.data.excerpt import excerpt
from regard.data.ledger import Ledger
from regard.data.lines import STDIN, file_name, refuse_unreadable
from regard.errors import DataError, UsageError

FORMAT: Final = 1
MANIFEST: Final = "manifest.json"
LEDGER: Final = "ledger.tsv"

Ids = npt.NDArray[np.int32]
Row = Sequence[int] | Ids
"""The ids of one example in one stream."""

Counts = npt.NDArray[np.int64]


def cache_folder() -> Path:
    """Where stores are kept: $REGARD_CACHE, or $XDG_CACHE_HOME/regard, or ~/.cache/regard."""
    if own := os.environ.get("REGARD_CACHE"):
        return Path(own)
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared) / "regard"
    return Path.home() / ".cache" / "regard"


def store_key(files: Sequence[str | Path], settings: Mapping[str, Any]) -> str:
    """A sha256 of the names and bytes of files, and of settings (anything JSON can hold)."""
    digest = hashlib.sha256(f"regard store {FORMAT}\n".encode())
    for path in files:
        if str(path) == STDIN:
            raise UsageError("<stdin>: standard input can be read only once. Save it in a file first")
        digest.update(f"{hash_file(path)} {json.dumps(file_name(path))}\n".encode())
    digest.update(json.dumps(settings, sort_keys=True, allow_nan=False).encode())
    return digest.hexdigest()


def hash_file(path: str | Path) -> str:
    """The sha256 of a file's bytes, as they are on the disk."""
    refuse_unreadable(path)
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{file_name(path)}: cannot be read: {error.strerror}") from error


class Store:
    """A prepared corpus, memory-mapped and read-only."""

    def __init__(self, *, folder: Path, manifest: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        self.folder = folder
        self._manifest = manifest
        self._arrays = arrays

    @staticmethod
    def open(folder: Path) -> "Store":
        """Map a store. Sizes and shapes are checked; `verify` checks every byte."""
        manifest = _read_manifest(folder)
        for name, entry in manifest["contents"].items():
            _expect_size(folder / name, entry["bytes"])
        arrays = {
            name: _map(folder / name, np.dtype(dtype)) for name, dtype in _array_names(manifest["streams"]).items()
        }
        examples = manifest["examples"]
        for name, array in arrays.items():
            if not name.endswith(".ids.npy") and len(array) != examples + name.endswith(".offsets.npy"):
                raise _damaged(folder, f"{name} has {len(array)} entries for {examples} examples")
        for stream in manifest["streams"]:
            offsets, ids = arrays[f"{stream}.offsets.npy"], arrays[f"{stream}.ids.npy"]
            if offsets[0] != 0 or offsets[-1] != len(ids):
                raise _damaged(folder, f"the offsets of {stream} do not span its {len(ids)} ids")
        return Store(folder=folder, manifest=manifest, arrays=arrays)

    def __len__(self) -> int:
        return int(self._manifest["examples"])

    @property
    def key(self) -> str:
        return str(self._manifest["key"])

    @property
    def streams(self) -> tuple[str, ...]:
        return tuple(self._manifest["streams"])

    def ids(self, name: str, index: int) -> Ids:
        """Ids of one example in one stream, without start and end; a view of the disk."""
        self._expect(index)
        offsets = self._arrays[f"{name}.offsets.npy"]
        ids: Ids = self._arrays[f"{name}.ids.npy"][offsets[index] : offsets[index + 1]]
        return ids

    def rows(self, name: str, indices: npt.NDArray[np.integer]) -> list[Ids]:
        """The same of several examples."""
        for index in (indices.min(), indices.max()) if len(indices) else ():
            self._expect(int(index))
        offsets, ids = self._arrays[f"{name}.offsets.npy"], self._arrays[f"{name}.ids.npy"]
        bounds = zip(offsets[indices].tolist(), offsets[indices + 1].tolist(), strict=True)
        return [ids[first:last] for first, last in bounds]

    def lengths(self, name: str) -> Counts:
        """How many ids each example has in a stream."""
        lengths: Counts = np.diff(self._arrays[f"{name}.offsets.npy"])
        return lengths

    def place(self, index: int) -> Place:
        """The file and line that an example came from."""
        self._expect(index)
        file = self._manifest["files"][int(self._arrays["files.npy"][index])]
        return Place(file, int(self._arrays["lines.npy"][index]))

    def ledger(self) -> Ledger:
        """What was skipped or cut when the store was made."""
        return Ledger.read(self.folder / LEDGER)

    def verify(self) -> None:
        """Read every byte and compare with the manifest."""
        for name, entry in self._manifest["contents"].items():
            if hash_file(self.folder / name) != entry["sha256"]:
                raise _damaged(self.folder, f"the sha256 of {name} is not the one in the manifest")
        for stream in self.streams:
            if len(self) and self.lengths(stream).min() < 0:
                raise _damaged(self.folder, f"the offsets of {stream} do not rise")

    def _expect(self, index: int) -> None:
        if not 0 <= index < len(self):
            raise IndexError(f"example {index} of a store with {len(self)}")


def _array_names(streams: Sequence[str]) -> dict[str, str]:
    names = {"lines.npy": "<i8", "files.npy": "<i4"}
    for stream in streams:
        names |= {f"{stream}.ids.npy": "<i4", f"{stream}.offsets.npy": "<i8"}
    return names


def _read_manifest(folder: Path) -> dict[str, Any]:
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{folder}: is not a prepared store: it has no {MANIFEST}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(folder, f"{MANIFEST} cannot be read ({excerpt(str(error))})") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        found = manifest.get("format") if isinstance(manifest, dict) else None
        raise DataError(f"{folder}: a store of format {found!r}; this version reads format {FORMAT}. Delete the folder")
    if not _well_formed(manifest):
        raise _damaged(folder, f"{MANIFEST} lacks entries or holds wrong ones")
    return manifest


def _well_formed(manifest: Mapping[str, Any]) -> bool:
    match manifest:
        case {
            "key": str(),
            "examples": int(),
            "streams": [*streams],
            "files": [*files],
            "contents": dict() as contents,
        }:
            named = all(isinstance(name, str) for name in (*streams, *files))
            plain = named and set(contents) == {*_array_names(streams), LEDGER}
            return (
                plain
                and all(
                    isinstance(entry, dict)
                    and isinstance(entry.get("bytes"), int)
                    and isinstance(entry.get("sha256"), str)
                    for entry in contents.values()
                )
                and not any("/" in name for name in contents)
            )
        case _:
            return False


def _expect_size(path: Path, size: int) -> None:
    try:
        found = path.stat().st_size
    except OSError as error:
        raise _damaged(path.parent, f"{path.name}: {error.strerror}") from error
    if found != size:
        raise _damaged(path.parent, f"{path.name} has {found} bytes, and the manifest says {size}")


def _map(path: Path, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise _damaged(path.parent, f"{path.name} cannot be mapped ({excerpt(str(error))})") from error
    if array.dtype != dtype or array.ndim != 1:
        raise _damaged(
            path.parent, f"{path.name} holds {array.dtype} of {array.ndim} dimensions, expected 1 of {dtype}"
        )
    # The plain view keeps the mapping alive and is several times faster to slice than np.memmap.
    return array.view(np.ndarray)


def _damaged(folder: Path, what: str) -> DataError:
    return DataError(f"{folder}: the prepared store is damaged: {what}. Delete the folder; it will be made again")
