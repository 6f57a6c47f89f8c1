"""Building the native library: `python -m regard.engine.build` in a source tree; wheels build it by themselves.

Needs a C++17 compiler (`CXX`, or g++, clang++ or c++) and nothing else. Each set of kernels is a source of its own with
its own instructions; which of them runs is decided when the library is loaded. Objects are kept in `build/`, and only
what changed is built anew.
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
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from regard.engine.library import LIBRARY

SOURCES: Final = Path(__file__).with_name("native")
ROOT: Final = SOURCES.parents[2]
KERNELS: Final = {
    "kernels_avx2": ["-mavx2", "-mfma"],
    "kernels_avx_vnni": ["-mavx2", "-mfma", "-mavxvnni"],
    "kernels_avx512": ["-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512vnni", "-mfma"],
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
    wanted = shlex.split(os.environ.get("CXX", ""))
    names = [wanted[0]] if wanted else ["g++", "clang++", "c++"]
    for name in names:
        if path := shutil.which(name):
            return [path, *wanted[1:]]
    raise BuildError(f"no C++ compiler was found ({', '.join(names)}); install one, or name it in CXX")


def instructions(name: str) -> list[str]:
    """Flags of one source; other processors than x86 get the portable kernels only."""
    return KERNELS.get(name, []) if platform.machine() in ("x86_64", "AMD64") else []


def build(library: Path = LIBRARY, *, sanitize: str = "", vnni_256: bool = False) -> Path:
    """Compile what is not up to date, and link it.

    `vnni_256` is for tests of kernels that this machine does not have.
    """
    extra = [f"-fsanitize={sanitize}", "-g", "-O1", "-fno-sanitize-recover=all"] if sanitize else []
    extra += ["-DREGARD_TEST_VNNI_256"] if vnni_256 else []
    with _objects(f"{zlib.crc32(repr((compiler(), FLAGS, KERNELS, extra)).encode()):08x}") as objects:
        built: list[Path] = []
        for source in sorted(SOURCES.glob("*.cpp")):
            target = objects / f"{source.stem}.o"
            built.append(target)
            if target.exists() and target.stat().st_mtime > _changed(source):
                continue
            flags = [*FLAGS, *QUIET, *instructions(source.stem), *extra]
            flags += ["-mavx512vl", "-mavx512vnni"] if vnni_256 and source.stem == "kernels_avx_vnni" else []
            _run([*compiler(), *flags, "-c", str(source), "-o", str(target)])
        if not library.exists() or library.stat().st_mtime < max(path.stat().st_mtime for path in built):
            linked = library.with_name(f".{library.name}.{os.getpid()}")
            alone = [] if sanitize or sys.platform != "linux" else ["-static-libstdc++", "-static-libgcc"]
            _run([*compiler(), "-shared", "-pthread", *alone, *extra, *map(str, built), "-o", str(linked)])
            linked.replace(library)
    return library


def _changed(source: Path) -> float:
    """When a source or a header that it may include was last changed; only kernels include kernel_*.h."""
    kernel = source.stem.startswith("kernels_")
    headers = [path for path in SOURCES.glob("*.h") if kernel or not path.name.startswith("kernel_")]
    return max(path.stat().st_mtime for path in (source, *headers))


@contextmanager
def _objects(name: str) -> Iterator[Path]:
    """A folder for objects that no other process builds in: kept in a source tree, passing elsewhere.

    Its name stands for the flags they are built with.
    """
    if not (ROOT / "pyproject.toml").exists():
        with tempfile.TemporaryDirectory() as passing:
            yield Path(passing)
        return
    folder = ROOT / "build" / "engine" / name
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise BuildError(f"{shlex.join(command)} failed:\n{done.stderr[-4000:]}")


def main() -> None:
    """Build in this tree, or say why it cannot be."""
    parser = argparse.ArgumentParser(prog="python -m regard.engine.build", description="Build the native engine.")
    parser.add_argument("--output", type=Path, default=LIBRARY, help="the library to write")
    parser.add_argument("--sanitize", choices=SANITIZERS, default="", help="build with sanitizers, for tests")
    asked = parser.parse_args()
    try:
        sys.stdout.write(f"{build(asked.output, sanitize=asked.sanitize)}\n")
    except BuildError as error:
        sys.exit(f"regard: the engine cannot be built: {error}")


if __name__ == "__main__":
    main()
