"""Long inputs in little memory: many lines, and one line of ten megabytes, predicted and prepared for training."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from regard.data import Ledger, read_lines
from regard.run.model import Model
from regard.run.training import Trained
from tests.reliability.conftest import Tally
from tests.reliability.copying import copying_model, line_of

GROWTH = 50 * 2**20
SETTLED = 8192
"""Lines after which everything has been loaded and every cache has its size."""


@pytest.fixture(scope="module")
def copying(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return copying_model(tmp_path_factory.mktemp("copying"))


def resident() -> int:
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def through(model: Model, path: Path, count: int) -> int:
    """Predict a file of lines and compare each; how much the process grew meanwhile, at most."""

    def sizes() -> Iterator[int]:
        for number, prediction in enumerate(model.predict_many(read_lines(path, ledger=Ledger()))):
            assert prediction.text == ("" if number % 11 == 5 else line_of(number))
            if number % 4096 == 0:
                yield resident()
        assert number + 1 == count

    found = list(sizes())
    settled = SETTLED // 4096
    return max(found[settled:]) - found[settled]


def written(path: Path, count: int) -> Path:
    with path.open("w", encoding="utf-8") as file:
        file.writelines("\n" if number % 11 == 5 else f"{line_of(number)}\n" for number in range(count))
    return path


def test_thirty_thousand_lines(copying: Model, tmp_path: Path, tally: Tally) -> None:
    assert through(copying, written(tmp_path / "many.txt", 30_000), 30_000) <= GROWTH


@pytest.mark.long
def test_two_hundred_thousand_lines(copying: Model, tmp_path: Path, tally: Tally) -> None:
    growth = through(copying, written(tmp_path / "many.txt", 200_000), 200_000)
    assert growth <= GROWTH
    tally("D4", lines=200_000, megabytes_grown=growth / 2**20)


PREPARING = """
import resource, sys
from pathlib import Path
from regard.recipe.read import recipe_from
from regard.run.folder import RunFolder
from regard.run.preparation import prepare_run

def most():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

for name, unit in (("few", "bpe"), ("many", sys.argv[2])):
    if name == "many":
        before = most()
    folder = Path(sys.argv[1])
    (folder / f"run-{name}").mkdir()
    settings = {"data": {"train": str(folder / f"{name}.tsv")}, "text": {"unit": unit, "size": 400}}
    prepared = prepare_run(recipe_from(settings, name="a recipe"), RunFolder(folder / f"run-{name}"))
print(len(prepared.train), most() - before)
"""


def pairs_written(path: Path, count: int) -> Path:
    """Pairs that are all different, of few words."""
    words = [f"{first}{second}" for first in "abcdefghij" for second in "klmnopqrst"]
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            text = " ".join(words[number * 7919 // 100**place % 100] for place in range(8))
            file.write(f"{text}\t{text} {text}\n")
    return path


@pytest.mark.parametrize("unit", ["bpe", "word", "character"])
def test_preparation_holds_no_corpus(tmp_path: Path, unit: str, tally: Tally) -> None:
    """Pairs of 9 MB are 40 MB as Python has them; what is kept of each is far less."""
    pairs_written(tmp_path / "few.tsv", 2_000)
    size = pairs_written(tmp_path / "many.tsv", 60_000).stat().st_size
    environment = {**os.environ, "REGARD_CACHE": str(tmp_path / "cache")}
    call = [sys.executable, "-c", PREPARING, str(tmp_path), unit]
    told = subprocess.run(call, capture_output=True, text=True, check=True, env=environment).stdout.split()
    pairs, grown = int(told[0]), int(told[1]) * 2**10
    assert pairs == 58_000
    assert grown < size, f"{grown / 2**20:.0f} MB for a file of {size / 2**20:.0f} MB"
    tally("D4", pairs_prepared=pairs)


@pytest.mark.parametrize("text", ["a b c d ", "h", "a\tb"], ids=["words", "one word", "tabs"])
def test_a_line_of_ten_megabytes(trained: Trained, copying: Model, tmp_path: Path, text: str, tally: Tally) -> None:
    (tmp_path / "long.txt").write_bytes(b"c a\n" + text.encode() * (10 * 2**20 // len(text)) + b"\nb\n")
    for model in (trained.model, copying):
        before, began = resident(), time.process_time()
        first, long, last = model.predict_many(read_lines(tmp_path / "long.txt"))
        seconds = time.process_time() - began
        assert seconds <= 3, f"{seconds:.1f} s on {sys.platform}"
        assert resident() - before <= 4 * GROWTH
        assert first.text == model.predict("c a").text
        assert last.text == model.predict("b").text
        if text.startswith("a b"):
            assert long.cut_source or long.fault.startswith("the source has more than 65,536 tokens")
    tally("D4", lines_of_ten_megabytes=1)
