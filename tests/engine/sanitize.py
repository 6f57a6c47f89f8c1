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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from regard.engine.build import build
from regard.engine.library import WHERE
from regard.engine.preparation import contained
from tests.engine.searching import system_named

ROOT = Path(__file__).parents[2]
NAMES = (
    "transformer post",
    "transformer rotary",
    "t5",
    "learned, gelu",
    "alibi, silu, rms",
    "halves",
    "bahdanau gru_cho",
    "transformer to bahdanau",
    "luong lstm",
    "gru, at the output, projected",
    "sutskever",
    "every step",
)


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


def hostile(folder: Path, mutations: int, *, seed: int = 2, **environment: str) -> tuple[bool, str]:
    """So many hostile files, shared between the cores: whether all were refused or answered, and what was said."""
    processes = min(mutations, os.cpu_count() or 1)
    parts = [mutations * (part + 1) // processes - mutations * part // processes for part in range(processes)]

    def one(part: int) -> subprocess.CompletedProcess[str]:
        return run("-m", "tests.engine.fuzz", str(folder), str(parts[part]), str(seed + part), **environment)

    with ThreadPoolExecutor(processes) as pool:
        done = list(pool.map(one, range(processes)))
    passed = all(each.returncode == 0 for each in done)
    return passed, "".join(each.stdout + ("" if passed else each.stderr) for each in done)


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
        tests = [f"tests/engine/test_{name}.py" for name in ("kernels", "fused_kernels", "shapes")]
        kernels = run("-m", "pytest", "-q", *tests, ASAN_OPTIONS=quiet, **address)
        results.append(("kernels, address and undefined", kernels.returncode == 0, kernels.stdout + kernels.stderr))
        results.append((f"{mutations:,} hostile files", *hostile(folder, mutations, ASAN_OPTIONS=quiet, **address)))
        counted = "detect_leaks=1:exitcode=0:allocator_may_return_null=1"
        fuzz = ("-m", "tests.engine.fuzz", str(folder), "300", "1")
        found = run(*fuzz, ASAN_OPTIONS=counted, PYTHONMALLOC="malloc", **address)
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
