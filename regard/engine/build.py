"""Building the native libraries: `python -m regard.engine.build` in a source tree; wheels build them by themselves.

There are two: the engine, and the kernels of training. They need a C++17 compiler (`CXX`, or g++, clang++ or c++) and
nothing else. Each set of kernels is a source of its own with its own instructions; which of them runs is decided when a
library is loaded. Objects are kept in `build/`, and only what changed is built anew.
"""

import argparse
import fcntl
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from regard.engine.library import LIBRARY
from regard.kernels.library import LIBRARY as TRAINING_LIBRARY

ROOT: Final = LIBRARY.parents[3]


@dataclass(frozen=True, slots=True)
class Native:
    """A library and the folder of its sources."""

    name: str
    library: Path
    sources: Path


ENGINE: Final = Native("engine", LIBRARY, LIBRARY.parent)
TRAINING: Final = Native("kernels", TRAINING_LIBRARY, TRAINING_LIBRARY.parent)
KERNELS: Final = {
    "kernels_avx2": ["-mavx2", "-mfma"],
    "kernels_avx_vnni": ["-mavx2", "-mfma", "-mavxvnni"],
    "kernels_avx512": ["-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512vnni", "-mfma"],
    "kernels_amx": [
        *("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512vnni", "-mfma"),
        *("-mamx-tile", "-mamx-int8"),
    ],
    "training_avx2": ["-mavx2", "-mfma"],
    "training_avx512": ["-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mfma"],
    "training_avx512_bf16": ["-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512bf16", "-mfma"],
    "training_amx_bf16": [
        *("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512bf16", "-mfma"),
        *("-mamx-tile", "-mamx-bf16"),
    ],
}
"""Instructions that a source may use beyond those that every processor of its kind has."""

FLAGS: Final = [
    "-std=c++17",
    "-O3",
    "-fPIC",
    "-fvisibility=hidden",
    "-ffp-contract=fast",
    "-pthread",
    "-Wall",
    "-Wextra",
]
QUIET: Final = ["-Wno-maybe-uninitialized", "-Wno-psabi"]
"""GCC's own headers of vector instructions are not free of what these warn of."""

SANITIZERS: Final = ("address,undefined", "thread")


class BuildError(Exception):
    """There is no compiler, or it did not accept a source; the text says what it said."""


def compiler() -> list[str]:
    """The compiler and its first arguments."""
    try:
        wanted = shlex.split(os.environ.get("CXX", ""))
    except ValueError as error:
        raise BuildError(f"CXX is no command ({error}): {os.environ['CXX']}") from error
    names = [wanted[0]] if wanted else ["g++", "clang++", "c++"]
    for name in names:
        if path := shutil.which(name):
            return [path, *wanted[1:]]
    raise BuildError(f"no C++ compiler was found ({', '.join(names)}); install one, or name it in CXX")


def instructions(name: str) -> list[str]:
    """Flags of one source. Without them it has no kernels: for other processors than x86, and older compilers."""
    flags = KERNELS.get(name, []) if platform.machine() in ("x86_64", "AMD64") else []
    return flags if knows(flags) else []


def knows(flags: list[str]) -> bool:
    """Whether the compiler and its assembler have heard of all flags."""
    call = [*compiler(), *flags, "-x", "c++", "-c", "-", "-o", os.devnull]
    probe = 'asm("tilerelease");' if "-mamx-tile" in flags else ""
    return not flags or _called(call, probe).returncode == 0


def build(library: Path | None = None, *, native: Native = ENGINE, sanitize: str = "", vnni_256: bool = False) -> Path:
    """Compile what is not up to date, and link it, into its own place or another one.

    `vnni_256` is for tests of kernels that this machine does not have.
    """
    library = native.library if library is None else library
    try:
        _build(library, native, sanitize=sanitize, vnni_256=vnni_256)
    except (OSError, RuntimeError) as error:  # folders, locks, threads: whatever a system may refuse
        raise BuildError(f"{library} cannot be made: {error}") from error
    return library


def _build(library: Path, native: Native, *, sanitize: str, vnni_256: bool) -> None:
    extra = [f"-fsanitize={sanitize}", "-g", "-O1", "-fno-sanitize-recover=all"] if sanitize else []
    extra += ["-DREGARD_TEST_VNNI_256"] if vnni_256 else []
    resolved = {name: instructions(name) for name in KERNELS}
    with _objects(native.name, f"{zlib.crc32(repr((compiler(), FLAGS, resolved, extra)).encode()):08x}") as objects:
        built, stale = list[Path](), list[list[str]]()
        for source in sorted(native.sources.glob("*.cpp")):
            target = objects / f"{source.stem}.o"
            built.append(target)
            if target.exists() and target.stat().st_mtime > _changed(source):
                continue
            flags = [*FLAGS, *QUIET, *resolved.get(source.stem, []), *extra]
            if vnni_256 and source.stem == "kernels_avx_vnni":  # nor may the compiler choose the other spelling
                flags = [flag for flag in flags if flag != "-mavxvnni"] + ["-mavx512vl", "-mavx512vnni"]
            stale.append([*compiler(), *flags, "-c", str(source), "-o", str(target)])
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(_run, stale))
        if not library.exists() or library.stat().st_mtime < max(path.stat().st_mtime for path in built):
            linked = library.with_name(f".{library.name}.{os.getpid()}")
            alone = [] if sanitize or sys.platform != "linux" else ["-static-libstdc++", "-static-libgcc"]
            try:
                _run([*compiler(), "-shared", "-pthread", *alone, *extra, *map(str, built), "-o", str(linked)])
                linked.replace(library)
            finally:
                linked.unlink(missing_ok=True)


def _changed(source: Path) -> float:
    """When a source or a header that it may include was last changed; only kernels include kernel_*.h."""
    kernel = source.stem.startswith("kernels_")
    headers = [path for path in source.parent.glob("*.h") if kernel or not path.name.startswith("kernel_")]
    return max(path.stat().st_mtime for path in (source, *headers))


@contextmanager
def _objects(library: str, flags: str) -> Iterator[Path]:
    """A folder for objects that no other process builds in: kept in a source tree, passing elsewhere.

    Its name stands for the `flags` they are built with.
    """
    if not (ROOT / "pyproject.toml").exists():
        with tempfile.TemporaryDirectory() as passing:
            yield Path(passing)
        return
    folder = ROOT / "build" / library / flags
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


def _run(command: list[str]) -> None:
    done = _called(command)
    if done.returncode:
        raise BuildError(f"{shlex.join(command)} failed:\n{done.stderr[-4000:]}")


def _called(command: list[str], given: str = "") -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, input=given, capture_output=True, text=True, errors="replace", check=False)  # noqa: S603
    except OSError as error:
        raise BuildError(f"{command[0]} cannot be started: {error.strerror or error}") from error


def main() -> None:
    """Build in this tree, or say why it cannot be."""
    parser = argparse.ArgumentParser(prog="python -m regard.engine.build", description="Build the native libraries.")
    parser.add_argument("--output", type=Path, help="write the engine alone, to this place")
    parser.add_argument("--sanitize", choices=SANITIZERS, default="", help="build with sanitizers, for tests")
    asked = parser.parse_args()
    failed = ""
    for native in (ENGINE,) if asked.output else (ENGINE, TRAINING):
        try:
            sys.stdout.write(f"{build(asked.output, native=native, sanitize=asked.sanitize)}\n")
        except BuildError as error:
            failed += f"regard: a native library ({native.name}) cannot be built: {error}\n"
    if failed:
        sys.exit(failed.rstrip("\n"))


if __name__ == "__main__":
    main()
