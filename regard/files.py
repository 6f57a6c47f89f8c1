"""Writing so that a crash leaves the old file or the new one, never a part."""

import errno
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

from regard.errors import RegardError, ResourceError, UsageError

NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def write_synced(path: Path, content: bytes) -> None:
    """Write a new file and wait until it is on the disk."""
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace_file(path: Path, content: bytes) -> None:
    """Put a file in place, whole: written and synced under another name, then renamed."""
    waiting = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            waiting.unlink()
        write_synced(waiting, content)
        waiting.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            waiting.unlink()
        raise cannot_write(path, len(content), error) from error


def cannot_write(path: Path, size: int, error: OSError) -> RegardError:
    """What to tell a user when a file cannot be written. What was there before is still there."""
    if error.errno in NO_SPACE:
        return ResourceError(
            f"{path}: there is no room to write {size:,} bytes ({error.strerror}). What was saved before is intact; "
            "make room, then run the same command again"
        )
    return UsageError(
        f"{path}: cannot be written ({error.strerror or error}). What was saved before is intact; choose a folder that "
        "can be written to"
    )
