"""Writing so that a crash leaves the old file or the new one, never a part.

A file is written under another name, synced, renamed, and its folder is synced. A folder that is made is synced into
the one around it: without that a power cut can take a folder away with everything that was synced in it.
"""

import errno
import os
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from regard.errors import RegardError, ResourceError, UsageError

NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
FAILING: Final = (errno.EIO, errno.ENODEV, errno.ENXIO, errno.ESTALE)
"""The disk is ill or gone: another folder on it would not help."""

NOT_FOR_FOLDERS: Final = (errno.EINVAL, errno.EBADF, errno.ENOTSUP)
"""What file systems say that cannot sync a folder; they keep names in order by themselves, or nothing helps."""

_WAITING: Final = re.compile(r"\.(.+)\.\d+\.\d+\.tmp")
"""What a file is called while it is being written: with the numbers of the process and the thread."""


def write_synced(path: Path, content: bytes) -> None:
    """Write a new file and wait until it is on the disk."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(handle, rest) :]
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in NOT_FOR_FOLDERS:
            raise
    finally:
        os.close(handle)


def make_folder(path: Path) -> None:
    """Make a folder, and those around it that are missing, so that they survive a power cut.

    Each is synced before the next is made in it, so of those that are there already only the innermost can have been
    made by a process that ended before it came to that; it is synced again.
    """
    missing: list[Path] = []
    there = path.absolute()
    while not there.is_dir() and there != there.parent:
        missing.append(there)
        there = there.parent
    with suppress(PermissionError):  # a folder of others; whoever made it has seen to it
        sync_folder(there.parent)
    for folder in reversed(missing):
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


def replace_file(path: Path, content: bytes) -> None:
    """Put a file in place, whole: written and synced under another name, then renamed."""
    waiting = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        make_folder(path.parent)
        with suppress(FileNotFoundError):
            waiting.unlink()
        write_synced(waiting, content)
        waiting.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            waiting.unlink()
        raise cannot_write(path, len(content), error) from error


def remove_waiting(folder: Path, ours: Callable[[str], bool]) -> None:
    """Delete what replacements of files left behind whose process was killed.

    Only for who holds the folder: a replacement that is still going on would fail. `ours` says whose names may go.
    """
    with suppress(OSError):
        for path in folder.iterdir():
            if (found := _WAITING.fullmatch(path.name)) and ours(found[1]):
                path.unlink()


def cannot_write(path: Path, size: int, error: OSError) -> RegardError:
    """What to tell a user when a file cannot be written. What was there before is still there."""
    if error.errno in NO_SPACE:
        return ResourceError(
            f"{path}: there is no room to write {size:,} bytes ({error.strerror}). What was saved before is intact; "
            "make room, then run the same command again"
        )
    if error.errno in FAILING:
        return ResourceError(
            f"{path}: the disk does not take {size:,} bytes ({error.strerror}). What was saved before is intact; mend "
            "the disk or make it writable, then run the same command again"
        )
    if error.errno == errno.EROFS:
        return ResourceError(
            f"{path}: the disk does not take {size:,} bytes ({error.strerror}). What was saved before is intact; make "
            "the disk writable (it was mounted so, or has errors), or choose another place, then run the same command "
            "again"
        )
    if isinstance(error, IsADirectoryError):
        return UsageError(f"{path}: is a folder, and a file must be written there. Remove it or give it another name")
    return UsageError(
        f"{path}: cannot be written ({error.strerror or error}). What was saved before is intact; choose a folder that "
        "can be written to"
    )
