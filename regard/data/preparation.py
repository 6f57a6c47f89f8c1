"""Making a store: encode each example once, write everything beside its final name, then rename.

Two processes that prepare the same key both succeed: each writes its own temporary folder, the first rename wins and
the other takes what is there. Nothing is held in memory but a few buffers.
"""

import errno
import json
import os
import secrets
import shutil
import time
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

import numpy as np

from regard.data.example import Example, Misfit, NothingToLearn
from regard.data.ledger import Ledger
from regard.data.store import FORMAT, LEDGER, MANIFEST, Row, Store, hash_file
from regard.errors import DataError, ResourceError, UsageError
from regard.files import NO_SPACE, sync_folder
from regard.text.beginning import LONGEST_TEXT

Encode = Callable[[str, str], Mapping[str, Row]]
"""Rows of each stream of a source and its target; raises Misfit."""

BUFFER: Final = 2**16
STALE_SECONDS: Final = 24 * 3600


def prepare(
    examples: Iterable[Example],
    *,
    streams: Sequence[str],
    bounded: Sequence[str] | None = None,
    encode: Encode,
    folder: Path,
    key: str,
    bad_lines: Literal["refuse", "skip"],
    empty_lines: Literal["refuse", "skip"],
    long_lines: Literal["refuse", "skip", "cut"],
    max_length: int,
    ledger: Ledger,
) -> Store:
    """The store `folder/key`, made from examples if it is not there yet.

    `encode` makes the ids of each of the `streams` of an example; `max_length` is a limit of those that are `bounded`,
    of all if it is left out. `ledger` should be the one that the reader of the
    examples writes to: what is added to it meanwhile is saved, and told again when the store is used again. A store
    that is there but damaged is made anew.
    """
    final = folder / key
    if store := _existing(final):
        ledger.include(store.ledger())
        return store
    before = ledger.counts
    rules = _Rules(
        streams=tuple(streams),
        bounded=tuple(streams if bounded is None else bounded),
        encode=encode,
        bad_lines=bad_lines,
        empty_lines=empty_lines,
        long_lines=long_lines,
        max_length=max_length,
        ledger=ledger,
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _remove_stale(folder)
        draft = folder / f".tmp-{os.getpid()}-{secrets.token_hex(8)}"
        draft.mkdir()
        try:
            _write(draft, examples, rules, key, before)
            return _publish(draft, final)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    except OSError as error:
        raise _cannot_write(folder, error) from error


class _Rules:
    """What becomes of examples with empty, over-long or misfitting sides."""

    def __init__(
        self,
        *,
        streams: tuple[str, ...],
        bounded: tuple[str, ...],
        encode: Encode,
        bad_lines: str,
        empty_lines: str,
        long_lines: str,
        max_length: int,
        ledger: Ledger,
    ) -> None:
        self.streams = streams
        self.ledger = ledger
        self._bounded = bounded
        self._encode = encode
        self._bad_lines = bad_lines
        self._empty_lines = empty_lines
        self._long_lines = long_lines
        self._max_length = max_length

    def encode(self, example: Example) -> list[Row] | None:
        """Ids of each stream, or None for an example that is left out."""
        try:
            rows = self._encode(example.source, example.target)
        except NothingToLearn as nothing:
            self.ledger.add("nothing", example.place, str(nothing))
            return None
        except Misfit as misfit:
            self._leave_out_misfit(example, str(misfit))
            return None
        kept: list[Row] = []
        for name in self.streams:
            ids = rows[name]
            if not len(ids):
                self._leave_out_empty(example, name)
                return None
            if name in self._bounded and len(ids) > self._max_length:
                if self._long_lines != "cut":
                    self._leave_out_long(example, name, len(ids))
                    return None
                self.ledger.add("cut", example.place, f"{name}: {_told(len(ids))} tokens cut to {self._max_length}")
                ids = ids[: self._max_length]
            kept.append(ids)
        return kept

    def _leave_out_misfit(self, example: Example, detail: str) -> None:
        if self._bad_lines == "refuse":
            raise DataError(
                f"{example.place}: {detail}. Mend the line, or set `data.bad_lines: skip` to leave such lines out and "
                "have them listed"
            )
        self.ledger.add("misfit", example.place, detail)

    def _leave_out_empty(self, example: Example, name: str) -> None:
        if self._empty_lines == "refuse":
            raise DataError(
                f"{example.place}: the {name} side is empty. Fill it or take the line out, or set "
                "`data.empty_lines: skip` to leave such pairs out and have them listed"
            )
        self.ledger.add("empty", example.place, f"the {name} side is empty")

    def _leave_out_long(self, example: Example, name: str, length: int) -> None:
        found = f"the {name} side has {_told(length)} tokens, the limit is {self._max_length}"
        if self._long_lines == "refuse":
            raise DataError(
                f"{example.place}: {found}. Raise `data.max_length`, or set `data.long_lines` to `skip` or `cut`"
            )
        self.ledger.add("long", example.place, found)


def _told(length: int) -> str:
    """How many tokens a text has; of the longest not all are counted."""
    return f"more than {LONGEST_TEXT}" if length > LONGEST_TEXT else str(length)


def _write(draft: Path, examples: Iterable[Example], rules: _Rules, key: str, before: Mapping[str, int]) -> None:
    files: dict[str, int] = {}
    kept = 0
    with ExitStack() as stack:

        def writer(name: str, kind: Literal["i", "q"]) -> _ArrayWriter:
            return stack.enter_context(_ArrayWriter(draft / name, kind))

        lines, indices = writer("lines.npy", "q"), writer("files.npy", "i")
        streams = [(writer(f"{name}.ids.npy", "i"), writer(f"{name}.offsets.npy", "q")) for name in rules.streams]
        for _, offsets in streams:
            offsets.extend((0,))
        for example in examples:
            rows = rules.encode(example)
            if rows is None:
                continue
            kept += 1
            for (ids, offsets), row in zip(streams, rows, strict=True):
                ids.extend(row)
                offsets.extend((ids.count,))
            lines.extend((example.place.line,))
            indices.extend((files.setdefault(example.place.file, len(files)),))
    found = rules.ledger.since(before)
    if not kept:
        raise DataError(f"not one pair is left to learn from. {found.summary() or 'There were no examples'}")
    found.write(draft / LEDGER)
    contents = {
        path.name: {"bytes": path.stat().st_size, "sha256": hash_file(path)} for path in sorted(draft.iterdir())
    }
    manifest = {
        "format": FORMAT,
        "key": key,
        "examples": kept,
        "streams": rules.streams,
        "files": list(files),
        "contents": contents,
    }
    with (draft / MANIFEST).open("w", encoding="utf-8") as file:
        json.dump(manifest, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    sync_folder(draft)


class _ArrayWriter:
    """A one-dimensional .npy file of unknown length, written as it comes; the header is mended at the end.

    numpy leaves room in the header for a growing first dimension, so it keeps its size.
    """

    def __init__(self, path: Path, kind: Literal["i", "q"]) -> None:
        self._file = path.open("w+b")
        self._buffer: array[int] = array(kind)
        self._type = np.dtype({"i": "<i4", "q": "<i8"}[kind])
        self._header = 0
        self.count = 0

    def __enter__(self) -> Self:
        self._header = self._write_header()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._file:
            if kind is None:
                self._flush()
                self._file.seek(0)
                assert self._write_header() == self._header, "numpy changed the size of the header"
                self._file.flush()
                os.fsync(self._file.fileno())

    def extend(self, numbers: Iterable[int]) -> None:
        before = len(self._buffer)
        if isinstance(numbers, np.ndarray):  # a picture is long
            self._buffer.frombytes(numbers.astype(self._buffer.typecode).tobytes())
        else:
            self._buffer.extend(numbers)
        self.count += len(self._buffer) - before
        if len(self._buffer) > BUFFER:
            self._flush()

    def _flush(self) -> None:
        self._file.write(np.asarray(self._buffer).astype(self._type, copy=False).tobytes())
        del self._buffer[:]

    def _write_header(self) -> int:
        shape = {"descr": self._type.str, "fortran_order": False, "shape": (self.count,)}
        np.lib.format.write_array_header_1_0(self._file, shape)
        return self._file.tell()


def _existing(final: Path) -> Store | None:
    """The store that is there. One that is damaged is moved out of the way, so that nobody finds half of it."""
    if not final.exists():
        return None
    try:
        return Store.open(final)
    except DataError:
        _discard(final)
        return None


def _publish(draft: Path, final: Path) -> Store:
    try:
        draft.rename(final)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        if store := _existing(final):
            return store
        draft.rename(final)
    sync_folder(final.parent)
    return Store.open(final)


def _discard(folder: Path) -> None:
    grave = folder.parent / f".tmp-{os.getpid()}-{secrets.token_hex(8)}"
    with suppress(FileNotFoundError):
        folder.rename(grave)
        shutil.rmtree(grave, ignore_errors=True)


def _remove_stale(folder: Path) -> None:
    """Take away what a process that was killed left behind."""
    for path in folder.glob(".tmp-*"):
        with suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime > STALE_SECONDS:
                shutil.rmtree(path, ignore_errors=True)


def _cannot_write(folder: Path, error: OSError) -> ResourceError | UsageError:
    mend = "set REGARD_CACHE to a folder with room that you may write"
    if error.errno in NO_SPACE:
        return ResourceError(f"{folder}: no room for the prepared data ({error.strerror}). Free some, or {mend}")
    return UsageError(f"{folder}: the prepared data cannot be written ({error.strerror or error}); {mend}")
