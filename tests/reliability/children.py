"""Processes that are made to end badly: forked after torch is loaded, which takes milliseconds instead of seconds."""

import ctypes
import io
import os
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

FAILED = 99
"""A child's exit code when an assertion in it failed; its output says which."""

_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_MS_RDONLY, _MS_REMOUNT, _MS_REC, _MS_PRIVATE = 1, 32, 16384, 1 << 18


def fork(action: Callable[[], object], errors: Path | None = None) -> int:
    """Run something in a child, whose number this returns; what it writes to standard error goes to a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch has threads; they do nothing while we fork
        child = os.fork()
    if child:
        return child
    code = FAILED
    try:
        if errors is not None:
            handle = os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            sys.stderr = io.TextIOWrapper(os.fdopen(handle, "wb", buffering=0), write_through=True)
        action()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else FAILED
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def ended(child: int, seconds: float = 120) -> int:
    """Wait for a child: its exit code, or minus the signal that ended it. One that hangs is killed."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.001)
    kill(child)
    raise AssertionError(f"a child did not end within {seconds} s")


def kill(child: int) -> None:
    """End a child of ours as a power cut would, and wait until it is gone."""
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def run(action: Callable[[], object], errors: Path) -> None:
    """Run assertions in a child of their own, and fail with what it wrote if one of them fails."""
    code = ended(fork(action, errors))
    assert code == 0, f"exit code {code}\n{errors.read_text(encoding='utf-8')}"


def command(*arguments: str | Path) -> Callable[[], None]:
    """The real command line, for a child."""

    def call() -> None:
        from regard.cli.main import main

        sys.argv = ["regard", *map(str, arguments)]
        sys.stdin, sys.stdout = io.TextIOWrapper(io.BytesIO()), io.TextIOWrapper(io.BytesIO())
        main()

    return call


def mount_small(folder: Path, megabytes: int) -> bool:
    """Mount a small disk, which only this process and its children see; False where that is not allowed."""
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    if libc.unshare(_CLONE_NEWNS | (_CLONE_NEWUSER if user else 0)):
        return False
    if user:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    if libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None):
        return False
    return not libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, b"size=%dm" % megabytes)


def make_read_only(folder: Path, yes: bool) -> None:
    """What a kernel does with a disk that has errors."""
    flags = _MS_REMOUNT | (_MS_RDONLY if yes else 0)
    assert not ctypes.CDLL(None).mount(b"none", os.fsencode(folder), None, flags, None)
