"""The native engine under sanitizers: `make engine-sanitize`, or `python -m tests.engine.sanitize --mutations N`.

Address and undefined behaviour: every kernel test, searches of several families, and N hostile engine files. Leaks: the
same searches, where a leak counts that has the engine in its stack (Python itself leaks at its end). Threads: several
of them searching with one engine.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from regard.engine.build import build
from regard.engine.library import WHERE
from regard.engine.preparation import contained
from tests.engine.searching import system_named

ROOT = Path(__file__).parents[2]
NAMES = ("transformer post", "t5", "bahdanau gru_cho", "luong lstm", "sutskever")


def write_files(folder: Path) -> None:
    """Engine files of several families, with floats and bytes."""
    for number, name in enumerate(NAMES):
        for int8 in (False, True):
            contained(system_named(name), int8=int8).write(folder / f"{number}{int8}.bin")


def sanitized(folder: Path, what: str, runtime: str) -> dict[str, str]:
    """The environment in which a child uses a library with sanitizers."""
    library = build(folder / f"{runtime}.engine.so", sanitize=what)
    names = (runtime, "libstdc++.so.6")  # the latter so that the runtime finds what throws
    told = [subprocess.check_output(["g++", f"-print-file-name={name}"], text=True).strip() for name in names]
    return {WHERE: str(library), "LD_PRELOAD": " ".join(told)}


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A Python program with this tree, and what it said."""
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, check=False, env={**os.environ, **environment}
    )


def leaks(told: str) -> list[str]:
    """Of the leaks that were reported, those that the engine has made."""
    return [part for part in told.split("\n\n") if "leak of" in part and "regard" in part]


def passes(mutations: int) -> list[tuple[str, bool, str]]:
    """Each check, whether it passed, and the end of what was said."""
    results = []
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        write_files(folder)
        address = sanitized(folder, "address,undefined", "libasan.so")
        quiet = "detect_leaks=0:allocator_may_return_null=1"
        tests = ("tests/engine/test_kernels.py", "tests/engine/test_fused_kernels.py")
        kernels = run("-m", "pytest", "-q", *tests, ASAN_OPTIONS=quiet, **address)
        results.append(("kernels, address and undefined", kernels.returncode == 0, kernels.stdout + kernels.stderr))
        fuzz = ("-m", "tests.engine.fuzz", str(folder))
        hostile = run(*fuzz, str(mutations), "2", ASAN_OPTIONS=quiet, **address)
        results.append((f"{mutations:,} hostile files", hostile.returncode == 0, hostile.stdout + hostile.stderr))
        counted = "detect_leaks=1:exitcode=0:allocator_may_return_null=1"
        found = run(*fuzz, "300", "3", ASAN_OPTIONS=counted, PYTHONMALLOC="malloc", **address)
        own = leaks(found.stderr)
        results.append(("leaks", found.returncode == 0 and not own, "\n".join(own) or found.stdout))
        races = run("-m", "tests.engine.threads", str(folder), **sanitized(folder, "thread", "libtsan.so"))
        results.append(("threads", races.returncode == 0, races.stdout + races.stderr))
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description="The native engine under sanitizers.")
    parser.add_argument("--mutations", type=int, default=2000, help="hostile engine files")
    results = passes(parser.parse_args().mutations)
    for name, passed, told in results:
        sys.stdout.write(
            f"{'passed' if passed else 'FAILED'}: {name}: {told.strip()[-200:] if passed else told[-6000:]}\n"
        )
    sys.exit(not all(passed for _, passed, _ in results))


if __name__ == "__main__":
    main()
