"""Large blocks come from the heap in processes that are ours, from before torch is loaded on, and in no others."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.reliability.copying import copying_model
from tests.reliability.test_bounded_memory import written
from tests.untrained import untrained_run

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only glibc is told")

BLOCK = """
import ctypes, sys
from pathlib import Path

def from_heap():
    libc = ctypes.CDLL("libc.so.6")
    libc.malloc.restype = ctypes.c_void_p
    block = libc.malloc(ctypes.c_size_t(200_000_000))
    maps = Path("/proc/self/maps").read_text().splitlines()
    heaps = [line.split()[0].split("-") for line in maps if "[heap]" in line]
    found = any(int(first, 16) <= block < int(last, 16) for first, last in heaps)
    libc.free(ctypes.c_void_p(block))
    return "from the heap" if found else "mapped"
"""
"""Where a block of 200 MB lies."""

AT_TORCH = (
    BLOCK
    + """
class Finder:
    def find_spec(name, path=None, target=None):
        if name == "torch":
            print(from_heap(), flush=True)
            os._exit(0)

import os
sys.meta_path.insert(0, Finder)
"""
)
"""The same, told when torch is about to be loaded; the process then ends."""


def told(program: str, *arguments: str, **environment: str) -> str:
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("before", "environment", "expected"),
    [
        ("", {}, "from the heap"),
        ("sys.modules['torch'] = sys", {}, "mapped"),
        ("", {"MALLOC_MMAP_THRESHOLD_": "1000000"}, "mapped"),
        ("", {"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=1000000"}, "mapped"),
        ("", {"GLIBC_TUNABLES": "glibc.rtld.nns=4"}, "from the heap"),
        ("sys.platform = 'darwin'", {}, "mapped"),
    ],
)
def test_large_blocks_come_from_the_heap_unless_the_process_is_somebody_elses(
    before: str, environment: dict[str, str], expected: str
) -> None:
    program = f"{BLOCK}\nfrom regard.process import keep_heap\n{before}\nkeep_heap()\nprint(from_heap())"
    assert told(program, **environment) == expected


def test_without_it_they_are_mapped() -> None:
    assert told(f"{BLOCK}\nprint(from_heap())") == "mapped"


@pytest.mark.parametrize(
    "arguments",
    [
        ["predict", "RUN", "FILE"],
        ["evaluate", "RUN", "FILE"],
        ["score", "RUN", "FILE"],
        ["inspect", "RUN", "a b"],
        ["train", "FILE", "run=OUT"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_commands_settle_it_before_torch_is_loaded(tmp_path: Path, arguments: list[str]) -> None:
    (tmp_path / "pairs.tsv").write_text("a b\tA B\n" * 20)
    names = {
        "RUN": str(untrained_run(tmp_path / "run", seed=1)),
        "FILE": str(tmp_path / "pairs.tsv"),
        "OUT": str(tmp_path / "out"),
    }
    for name, path in names.items():
        arguments = [argument.replace(name, path) for argument in arguments]
    assert told(f"{AT_TORCH}\nfrom regard.cli.main import main\nmain()", *arguments) == "from the heap"


@pytest.mark.parametrize("name", ["load", "train", "Model", "JointModel"])
def test_the_python_interface_settles_it_before_torch_is_loaded(name: str) -> None:
    assert told(f"{AT_TORCH}\nimport regard\nregard.{name}") == "from the heap"


@pytest.mark.parametrize("use", ["", "regard.Recipe"])
def test_importing_alone_settles_nothing(use: str) -> None:
    assert told(f"{BLOCK}\nimport regard\n{use}\nprint(from_heap())") == "mapped"


MANY_LINES = """
import sys
from pathlib import Path
import regard
regard.load  # before torch is loaded by what follows
from tests.reliability.test_bounded_memory import GROWTH, through
grown = through(regard.load(sys.argv[1]), Path(sys.argv[2]), 30_000)
print("bounded" if grown <= GROWTH else f"grew by {grown:,} bytes")
"""


def test_predictions_of_many_lines_are_bounded_in_memory_with_a_heap_that_is_kept(tmp_path: Path) -> None:
    run = copying_model(tmp_path).folder
    file = written(tmp_path / "many.txt", 30_000)
    paths = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    assert told(MANY_LINES, str(run), str(file), PYTHONPATH=paths, OMP_NUM_THREADS="1") == "bounded"
