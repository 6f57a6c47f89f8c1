"""A disk that can lose what was not synced: what is on it after a crash before any call, in several models.

`Recorder` writes down every call that changes files, as `regard` makes it, and can end the process before the n-th of
them or let it fail. `Disk` plays calls back and keeps apart what is written and what is synced, as the strictest
reading of POSIX allows it: a synced file may have no name, and a name in a synced folder may be that of an empty file.
"""

import os
import random
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

Tree = dict[str, "bytes | Tree"]
PATCHED = ("open", "write", "fsync", "rename", "replace", "unlink", "mkdir", "rmdir")
CRASHED = 77
"""Exit code of a process that ended before a call."""


@dataclass(frozen=True)
class Call:
    """One call; `path` and `other` are relative to the disk's root."""

    kind: str
    path: Path
    other: Path | None = None
    content: bytes = b""


class Recorder:
    """Stands in for the functions of `os` that change files below `root`; syncs are only written down.

    `before(n)` is called before the n-th call, and may end the process or raise. Names that are drawn are the same in
    every process.
    """

    def __init__(self, root: Path, before: Callable[[int], None] = lambda number: None) -> None:
        self.root = root.resolve()
        self.before = before
        self.calls: list[Call] = []
        self.real = {name: getattr(os, name) for name in PATCHED}
        self.drawn = 0

    def install(self, patch: pytest.MonkeyPatch) -> None:
        for name in PATCHED:
            patch.setattr(os, name, lambda *arguments, _name=name, **named: self._call(_name, *arguments, **named))
        patch.setattr(os, "getpid", lambda: 4242)
        patch.setattr(secrets, "token_hex", self._token)

    def _token(self, size: int) -> str:
        self.drawn += 1
        return f"{self.drawn:0{2 * size}x}"

    def _call(self, name: str, *arguments: Any, **named: Any) -> Any:
        call = self._described(name, *arguments, **named)
        if call is None:
            return self.real[name](*arguments, **named)
        self.before(len(self.calls))
        self.calls.append(call)
        return None if name == "fsync" else self.real[name](*arguments, **named)

    def _described(self, name: str, first: Any, second: Any = 0, *_: Any, dir_fd: int | None = None) -> Call | None:
        if name == "open" and not second & os.O_CREAT:
            return None
        path = self._relative(first, dir_fd)
        if path is None:
            return None
        kind = {"replace": "rename", "open": "create"}.get(name, name)
        other = self._relative(second, None) if kind == "rename" else None
        return Call(kind, path, other, bytes(second) if name == "write" else b"")

    def _relative(self, path: Any, folder: int | None) -> Path | None:
        """Where below the root something is, given by name or handle; None if it is elsewhere."""
        if isinstance(path, int):
            whole = Path(f"/proc/self/fd/{path}").readlink()
        elif folder is not None:
            whole = Path(f"/proc/self/fd/{folder}").readlink() / path
        else:
            whole = Path(path).absolute()
        return whole.relative_to(self.root) if whole.is_relative_to(self.root) else None


@dataclass
class File:
    content: bytes = b""
    synced: bytes = b""


@dataclass
class Folder:
    """Names now, names when it was last synced, and each change since then as (name, what it is from now on)."""

    names: dict[str, "File | Folder"] = field(default_factory=dict)
    synced: dict[str, "File | Folder"] = field(default_factory=dict)
    changes: list[list[tuple[str, "File | Folder | None"]]] = field(default_factory=list)

    def change(self, *entries: tuple[str, "File | Folder | None"]) -> None:
        self.changes.append(list(entries))
        _apply(self.names, entries)


def _apply(names: dict[str, File | Folder], entries: Sequence[tuple[str, File | Folder | None]]) -> None:
    for name, node in entries:
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


@dataclass(frozen=True)
class Model:
    """What becomes of what was not synced: names and contents are kept, lost, or drawn."""

    names: str
    contents: str
    seed: int = 0


class Disk:
    """A disk on which everything is synced at first."""

    def __init__(self, tree: Mapping[str, "bytes | Tree"]) -> None:
        self.root = _synced(tree)

    def play(self, calls: Sequence[Call]) -> None:
        for call in calls:
            if call.kind == "fsync":
                self._sync(self._at(call.path))
                continue
            name, around = call.path.name, self._at(call.path.parent)
            assert isinstance(around, Folder)
            match call.kind:
                case "create":
                    around.change((name, File()))
                case "mkdir":
                    around.change((name, Folder()))
                case "unlink" | "rmdir":
                    around.change((name, None))
                case "rename":
                    assert call.other is not None
                    assert call.other.parent == call.path.parent, "only renames within a folder are modelled"
                    around.change((name, None), (call.other.name, around.names[name]))
                case "write":
                    file = around.names[name]
                    assert isinstance(file, File)
                    file.content += call.content

    def _at(self, path: Path) -> File | Folder:
        node: File | Folder = self.root
        for part in path.parts:
            assert isinstance(node, Folder)
            node = node.names[part]
        return node

    def _sync(self, node: File | Folder) -> None:
        if isinstance(node, File):
            node.synced = node.content
        else:
            node.synced, node.changes = dict(node.names), []

    def after_crash(self, model: Model) -> Tree:
        """What is found when the machine starts again."""
        return _found(self.root, model, random.Random(model.seed))


def _found(folder: Folder, model: Model, draw: random.Random) -> Tree:
    names = dict(folder.names if model.names == "kept" else folder.synced)
    if model.names == "drawn":
        for change in folder.changes:
            if draw.random() < 0.5:
                _apply(names, change)
    found: Tree = {}
    for name, node in sorted(names.items()):
        if isinstance(node, Folder):
            found[name] = _found(node, model, draw)
        elif model.contents == "kept" or node.content == node.synced:
            found[name] = node.content
        else:
            found[name] = (
                node.synced if model.contents == "lost" else node.content[: draw.randint(0, len(node.content))]
            )
    return found


def _synced(tree: Mapping[str, "bytes | Tree"]) -> Folder:
    names: dict[str, File | Folder] = {
        name: File(node, node) if isinstance(node, bytes) else _synced(node) for name, node in tree.items()
    }
    return Folder(names=names, synced=dict(names))


def read_tree(folder: Path) -> Tree:
    return {
        path.name: read_tree(path) if path.is_dir() else path.read_bytes()
        for path in sorted(folder.iterdir(), key=lambda path: path.name)
    }


def write_tree(folder: Path, tree: Mapping[str, "bytes | Tree"]) -> Path:
    folder.mkdir()
    for name, node in tree.items():
        if isinstance(node, bytes):
            (folder / name).write_bytes(node)
        else:
            write_tree(folder / name, node)
    return folder
