"""Bad corpora: each is read and counted, or refused with file, line and remedy; quickly, and in little memory."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from regard.data import check_files, read_examples, render
from regard.errors import DataError, RegardError
from regard.run.folder import RunFolder
from regard.run.preparation import Prepared, prepare_run
from regard.special import END, PAD, START
from tests.reliability.conftest import Tally
from tests.reliability.corpora import LAYOUTS, Case
from tests.reliability.corpora_kinds import CASES

SECONDS = 10.0
MEMORY = 300 * 2**20


def _status(key: str) -> int:
    """A size of this process in bytes."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{key}:"))


@contextmanager
def bounded() -> Iterator[None]:
    """What happens here takes at most `SECONDS` of a processor and `MEMORY`."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak begins anew
    before, began = _status("VmRSS"), time.process_time()
    yield
    assert time.process_time() - began <= SECONDS
    assert _status("VmHWM") - before <= MEMORY


def prepared(case: Case, folder: Path, paths: list[str], *, lenient: bool) -> Prepared:
    recipe = case.recipe(folder, paths, lenient=lenient)
    run = RunFolder(folder / ("lenient" if lenient else "strict"))
    run.create()
    return prepare_run(recipe, run)


def check_message(case: Case, folder: Path, error: RegardError) -> None:
    """A refusal names the place and the remedy, in one line that a terminal can show."""
    assert case.refusal is not None
    message = str(error)
    assert f"{folder}/{case.refusal[0]}" in message
    assert case.refusal[1] in message
    assert isinstance(error, DataError)
    assert error.exit_code == 4
    assert message.isprintable()
    assert len(message) < 900


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 240
    assert {case.layout for case in CASES.values()} == set(LAYOUTS)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", CASES)
def test_a_bad_corpus_is_read_or_refused(name: str, tmp_path: Path, tally: Tally) -> None:
    case = CASES[name]
    paths = case.write(tmp_path)
    with bounded():
        if case.refusal is None:
            found = prepared(case, tmp_path, paths, lenient=False)
        else:
            with pytest.raises(RegardError) as caught:
                prepared(case, tmp_path, paths, lenient=False)
            check_message(case, tmp_path, caught.value)
    if case.refusal is not None and case.kept is not None:
        with bounded():
            found = prepared(case, tmp_path, paths, lenient=True)
    if case.kept is not None:
        assert len(found.train) == case.kept
        assert found.ledger.counts == case.counts
        assert f": {next(iter(case.counts.values()), '')}" in f"{found.ledger.summary()}: "
        for stream in found.train.streams:
            if stream in ("source", "target") and LAYOUTS[case.layout].sections["text"].get("unit") == "word":
                ids = {int(id_) for row in range(case.kept) for id_ in found.train.ids(stream, row)}
                assert case.layout == "rated" or not ids & {PAD, START, END}
    tally("D1", cases=1)


def _checked(name: str) -> bool:
    """A bomb is unpacked as a whole, which once is enough."""
    return LAYOUTS[CASES[name].layout].checkable and ("bomb" not in name or name == "jsonl: gzip_bomb")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", [name for name in CASES if _checked(name)])
def test_a_bad_corpus_can_be_checked(name: str, tmp_path: Path) -> None:
    """`regard data check` sees what training would refuse, but for what only a model's shape can know."""
    case = CASES[name]
    paths = case.write(tmp_path)
    with bounded():
        report = check_files([",".join(paths)])
        text = render(report)
    assert text.replace("\n", "").isprintable()
    assert max(map(len, text.split("\n"))) <= 60
    kinds = {issue.kind for file in report.files for issue in file.issues}
    if case.checked:
        assert case.checked in kinds
    if case.refusal is not None and "misfit" not in case.counts:
        assert not report.ok
    if case.refusal is None:
        assert report.ok


@pytest.mark.parametrize("layout", ["parallel", "tsv", "jsonl", "lines", "sigmorphon2023", "tagged"])
def test_a_file_that_may_not_be_read(layout: str, tmp_path: Path, tally: Tally) -> None:
    files = LAYOUTS[layout].contents(LAYOUTS[layout].good())
    case = Case(layout, files, refusal=("", "Permission denied"))
    paths = case.write(tmp_path)
    recipe = case.recipe(tmp_path, paths, lenient=True)
    tmp_path.chmod(0o700)
    for path in paths:
        Path(path).chmod(0)
    somebody = 65534 if os.getuid() == 0 else os.getuid()
    os.seteuid(somebody)
    try:
        with pytest.raises(DataError, match=r"a\.[a-z]+(:1)?: cannot be (opened|read): Permission denied") as caught:
            prepare_run(recipe, RunFolder(tmp_path / "run"))
    finally:
        os.seteuid(os.getuid())
    check_message(case, tmp_path, caught.value)
    tally("D1", cases=1)


MILLION = 1_000_000


def test_a_million_lines_of_one_letter_are_read(tmp_path: Path, tally: Tally) -> None:
    for name in ("a.txt", "a.en", "a.de"):
        (tmp_path / name).write_bytes(b"a\n" * MILLION)
    with bounded():
        lines = read_examples(tmp_path / "a.txt", format="lines", source=None, target=0)
        assert sum(example.target == "a" for example in lines) == MILLION
    with bounded():
        pairs = read_examples([tmp_path / "a.en", tmp_path / "a.de"])
        assert sum(example.source == example.target for example in pairs) == MILLION
    tally("D1", cases=2)


@pytest.mark.parametrize("layout", ["tsv", "jsonl", "sigmorphon2016", "sigmorphon2023", "labelled", "tagged"])
def test_a_million_lines_of_one_letter_are_refused(layout: str, tmp_path: Path, tally: Tally) -> None:
    name = LAYOUTS[layout].name
    case = Case(layout, {name: b"a\n" * MILLION}, refusal=(f"{name}:1: ", "Found: a"))
    paths = case.write(tmp_path)
    for lenient in (False, True) if layout != "sigmorphon2023" else (False,):
        with bounded(), pytest.raises(DataError) as caught:
            prepared(case, tmp_path, paths, lenient=lenient)
        if not lenient:
            check_message(case, tmp_path, caught.value)
    tally("D1", cases=1)


COMMANDS = (
    "tsv: latin1",
    "jsonl: deep_objects",
    "jsonl: half_surrogate",
    "parallel: by_one 1",
    "parallel: gzip_cut",
    "tsv: gzip_bomb",
    "tsv: utf16_le",
    "tsv: pipe",
    "tsv: link_loop",
    "tsv: terminal_escape",
    "sigmorphon2017: no_lemma",
    "labelled: ten_megabytes",
)


@pytest.mark.cli
@pytest.mark.parametrize("name", COMMANDS)
def test_the_command_says_what_is_wrong(name: str, tmp_path: Path, tally: Tally) -> None:
    case = CASES[name]
    command = [sys.executable, "-m", "regard.cli.main", "data", "check", ",".join(case.write(tmp_path))]
    environment = {**os.environ, "COLUMNS": "2000", "LC_ALL": "C"}
    done = subprocess.run(command, capture_output=True, env=environment, timeout=60, check=False)
    told = done.stdout.decode()
    assert done.stderr == b""
    assert "Traceback" not in told
    assert done.returncode == (4 if case.refusal else 0)
    if case.refusal and case.kept is None:
        assert f"{tmp_path}/{case.refusal[0]}" in told
    tally("D1", real_commands=1)


@pytest.mark.cli
@pytest.mark.parametrize("name", ["tsv: byte_ff", "parallel: by_a_thousand 0"])
def test_training_leaves_with_4(name: str, tmp_path: Path, tally: Tally) -> None:
    case = CASES[name]
    command = [sys.executable, "-m", "regard.cli.main", "train", *case.write(tmp_path), f"run={tmp_path}/run"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (4, "")
    assert case.refusal is not None
    assert f"{tmp_path}/{case.refusal[0]}" in done.stderr
    assert "Traceback" not in done.stderr
    tally("D1", real_commands=1)
