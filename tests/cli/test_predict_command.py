"""`regard predict`: a line in, a line out, and data only on standard output."""

import gzip
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from regard.cli.main import main
from regard.run.model import Model
from regard.run.shards import Answer
from regard.run.training import Trained
from regard.run.written import Tally
from tests.cli.conftest import Command
from tests.toys import toy_sources

LINES = ["a b c", "", "h g", "  ", "e"]
PROGRAM = [sys.executable, "-m", "regard.cli.main"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "LC_ALL": "C"}


@pytest.fixture
def expected(trained: Trained) -> list[str]:
    return [prediction.text for prediction in trained.model.predict_many(LINES)]


@pytest.fixture
def content() -> bytes:
    return "".join(f"{line}\n" for line in LINES).encode()


def test_standard_input_files_and_gzip_give_the_same(
    regard: Command, run: Path, tmp_path: Path, expected: list[str], content: bytes
) -> None:
    (tmp_path / "in ü.txt").write_bytes(content)
    (tmp_path / "in.gz").write_bytes(gzip.compress(content))
    out = "".join(f"{line}\n" for line in expected)
    for arguments in ([], ["-"], [tmp_path / "in ü.txt"], [tmp_path / "in.gz"]):
        result = regard("predict", run, *arguments, stdin=content)
        assert (result.code, result.out, result.err) == (0, out, "")
    assert expected[1] == expected[3] == ""
    assert expected[0].split()


def test_several_processes_write_what_one_writes(regard: Command, run: Path, tmp_path: Path) -> None:
    file = tmp_path / "in"
    file.write_text("".join(f"{line}\n" for line in [*toy_sources(60, seed=5), "", "a \t b", *LINES]))
    for options in ([], ["--sample", "--seed", "3"]):
        alone = regard("predict", run, file, *options, "--workers", "1")
        shared = regard("predict", run, file, *options, "--workers", "3")
        assert (shared.code, shared.out, shared.err) == (0, alone.out, alone.err)
        assert "line 62" in alone.err


def test_standard_input_has_one_process(regard: Command, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments in ([], ["-"]):
        result = regard("predict", run, *arguments, "--workers", "2", stdin=b"a\n")
        assert (result.code, result.out) == (2, "")
        assert "--workers 2: standard input is answered by one process, as its lines come; name a" in result.err
        assert "or leave --workers out" in result.err
    monkeypatch.setattr("regard.run.forks.answers", None)
    monkeypatch.setattr("regard.run.forks.usual_processes", lambda: 2)
    for options in ([], ["--workers", "1"]):
        assert regard("predict", run, *options, stdin=b"a\n" * 40).out.count("\n") == 40


def test_a_pipe_is_refused_before_any_process_is_forked(regard: Command, run: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for options in ([], ["--workers", "2"]):
        result = regard("predict", run, tmp_path / "pipe", *options)
        assert (result.code, result.out) == (4, "")
        assert "is a pipe or a device, which can be read only once" in result.err


def test_files_have_several_processes_without_asking(
    regard: Command, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(lines: Iterable[str], predict: object, processes: int, faults: object) -> Iterator[Answer]:
        yield Answer(content=f"{len(list(lines))} lines, {processes} processes\n".encode(), tally=Tally())

    monkeypatch.setattr("regard.run.forks.answers", told)
    monkeypatch.setattr("regard.run.forks.usual_processes", lambda: 2)
    (tmp_path / "in").write_text("a\n" * 40)
    assert regard("predict", run, tmp_path / "in").out == "40 lines, 2 processes\n"
    assert regard("predict", run, tmp_path / "in", "--at-once").out.count("\n") == 40


def test_processes_are_forked_on_linux_only(
    regard: Command, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").write_text("a\n")
    monkeypatch.setattr("regard.run.forks.can_fork", lambda: False)
    result = regard("predict", run, tmp_path / "in", "--workers", "2")
    assert (result.code, result.out) == (2, "")
    assert "--workers 2: only on Linux do several processes predict without --output; give --output" in result.err
    assert regard("predict", run, tmp_path / "in", "--workers", "1").code == 0


def test_a_file_that_is_cut_off_is_answered_up_to_there(regard: Command, run: Path, tmp_path: Path) -> None:
    file = tmp_path / "in.gz"
    lines = [line for source in toy_sources(250, seed=3) for line in (source, *[""] * 9)]
    whole = gzip.compress("".join(f"{line}\n" for line in lines).encode())
    file.write_bytes(whole[: len(whole) * 5 // 6])
    alone = regard("predict", run, file, "--beam", "1", "--workers", "1")
    shared = regard("predict", run, file, "--beam", "1", "--workers", "2")
    assert (shared.code, shared.err) == (alone.code, alone.err)
    assert shared.code
    assert alone.out
    assert shared.out.startswith(alone.out)


def test_a_process_that_is_killed_costs_no_line(run: Path, tmp_path: Path) -> None:
    file = tmp_path / "in"
    lines = [line for source in toy_sources(500, seed=4) for line in (source, *[""] * 5)]
    file.write_text("".join(f"{line}\n" for line in lines))
    command = [*PROGRAM, "predict", str(run), str(file), "--beam", "1", "--workers", "2"]
    process = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        children: list[str] = []
        while len(children) < 2 and process.poll() is None:
            time.sleep(0.01)
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(children[0]), signal.SIGKILL)
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, err
    assert out.count(b"\n") == len(lines)


def test_a_last_line_without_an_end_counts_and_nothing_gives_nothing(regard: Command, run: Path) -> None:
    assert len(regard("predict", run, stdin=b"a b\n\nc").out.splitlines()) == 3
    assert regard("predict", run, stdin=b"").out == ""


def test_a_line_that_cannot_be_read_gives_a_blank_one_and_a_warning(regard: Command, run: Path) -> None:
    result = regard("predict", run, stdin=b"a b\nc \xff d\ne f\n")
    alone = regard("predict", run, stdin=b"a b\n\ne f\n")
    assert (result.code, result.out) == (0, alone.out)
    assert result.err == "regard: lines that are not UTF-8, answered with a blank line: 1 (<stdin>:2)\n"


@pytest.mark.parametrize("how", [[], ["--workers", "2"], ["--output", "OUT"], ["--output", "OUT", "--workers", "1"]])
def test_json_tells_a_line_that_is_no_text_from_a_blank_one(
    regard: Command, run: Path, tmp_path: Path, how: list[str]
) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_bytes(b"a b\n\nc \xff d\n" + b"e f\n" * 20 + b"\xfe\n")
    result = regard("predict", run, lines, "--jsonl", *(str(tmp_path / "out") if one == "OUT" else one for one in how))
    written = (tmp_path / "out").read_text() if "OUT" in how else result.out
    records = [json.loads(line) for line in written.splitlines()]
    assert [record["line"] for record in records] == list(range(1, 25))
    told = "byte 0xFF at byte 3 of the line is not UTF-8 (invalid start byte): "
    assert {record["line"]: record["fault"][: len(told)] for record in records if "fault" in record} == {
        3: told,
        24: told.replace("0xFF at byte 3", "0xFE at byte 1"),
    }
    assert {name: records[2][name] for name in ("text", "score", "complete")} == {
        "text": "",
        "score": None,
        "complete": True,
    }
    assert result.err.count(f"lines that are not UTF-8, answered with a blank line: 2 ({lines}:3, {lines}:24)") == 1
    assert "could not be read" not in result.err


def test_lengths_are_bounded_by_options(regard: Command, run: Path, trained: Trained) -> None:
    result = regard("predict", run, "--max-length", "3", stdin=b"a b c d e f\n")
    bounded = trained.model.predict("a b c d e f", options=trained.model.options(max_length=3))
    assert (result.code, result.out) == (0, f"{bounded.text}\n")
    assert len(bounded.outputs[0].pieces) + bounded.outputs[0].complete == 3
    assert trained.model.options(max_ratio=0.5).limit(4) == 12
    longest = regard("predict", run, "--max-ratio", "0.1", "--min-length", "11", "--jsonl", stdin=b"a b\n")
    assert len(json.loads(longest.out)["text"].split()) in (10, 11)
    refused = regard("predict", run, "--max-length", "3", "--min-length", "4", stdin=b"a b\n")
    assert refused.code == 2
    assert "min_length must lie between 1 and max_length (3), not be 4" in " ".join(refused.err.split())


@pytest.mark.parametrize(
    ("options", "narrow", "variable", "expected"),
    [
        (["--at-once"], 128, None, 1),
        (["--at-once"], 4, None, 2),  # wider than that
        (["--at-once"], 128, "2", 2),  # asked for
        ([], 128, None, 2),
    ],
)
def test_a_narrow_model_answers_single_sentences_on_one_thread(
    regard: Command,
    run: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    narrow: int,
    variable: str | None,
    expected: int,
) -> None:
    threads: list[int] = []
    predict_many = Model.predict_many

    def counting(model: Model, texts: Iterable[str], **further: Any) -> Iterator[Any]:
        for prediction in predict_many(model, texts, **further):
            threads.append(torch.get_num_threads())
            yield prediction

    monkeypatch.setattr(Model, "predict_many", counting)
    monkeypatch.setattr("regard.cli.predict.NARROW", narrow)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if variable is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", variable)
    torch.set_num_threads(2)
    assert regard("predict", run, *options, stdin=b"a b\nc\n").code == 0
    assert threads == [expected] * 2
    assert torch.get_num_threads() == 2


def test_a_model_changes_no_threads(trained: Trained) -> None:
    """It is shared, and the setting is that of the whole process."""
    torch.set_num_threads(2)
    trained.model.predict("a b")
    assert torch.get_num_threads() == 2


def test_nbest_tells_line_score_and_text(regard: Command, run: Path, content: bytes) -> None:
    result = regard("predict", run, "--nbest", "3", stdin=content)
    rows = [line.split("\t") for line in result.out.splitlines()]
    assert [int(number) for number, _, _ in rows] == [1, 1, 1, 2, 3, 3, 3, 4, 5, 5, 5]
    assert [text for number, _, text in rows if number in "24"] == ["", ""]
    assert [score for number, score, _ in rows if number in "24"] == ["", ""]
    scores = [float(score) for number, score, _ in rows if number == "1"]
    assert scores == sorted(scores, reverse=True)
    best = regard("predict", run, "--beam", "3", stdin=content)
    assert rows[0][2] == best.out.splitlines()[0]


def test_samples_are_told_with_their_log_probability(
    regard: Command, run: Path, content: bytes, trained: Trained
) -> None:
    rules = ["--sample", "--temperature", "2", "--top-k", "9", "--top-p", "0.99", "--min-p", "0.001", "--typical", "1"]
    result = regard("predict", run, *rules, "--seed", "3", "--nbest", "2", stdin=content)
    assert (result.code, result.err) == (0, "")
    options = trained.model.options(
        best=2, sample=True, temperature=2.0, top_k=9, top_p=0.99, min_p=0.001, typical=1.0, seed=3
    )
    expected = []
    for number, one in enumerate(trained.model.predict_many(LINES, options=options), start=1):
        expected += [f"{number}\t{output.log_probability:.6f}\t{output.text}" for output in one.outputs]
        expected += [] if one.outputs else [f"{number}\t\t"]
    assert result.out.splitlines() == expected
    assert regard("predict", run, *rules, "--seed", "4", "--nbest", "2", stdin=content).out != result.out
    single = regard("predict", run, *rules, "--seed", "3", stdin=content)
    assert single.out.splitlines()[0] == trained.model.predict("a b c", options=options).text


def test_a_prefix_begins_every_output(regard: Command, run: Path, content: bytes) -> None:
    result = regard("predict", run, "--prefix", "H A", stdin=content)
    assert [line[:3] for line in result.out.splitlines()] == ["H A", "", "H A", "", "H A"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--top-k", "3"], "top_k can only have an effect on samples; ask for sample as well"),
        (["--sample", "--beam", "3"], "a beam (3) has no effect on samples; leave it out"),
        (["--sample", "--temperature", "0"], "temperature must be a number above 0, not 0.0"),
        (["--prefix", "§"], "outputs cannot begin with '§'"),
    ],
)
def test_what_cannot_be_asked_for(regard: Command, run: Path, arguments: list[str], message: str) -> None:
    result = regard("predict", run, *arguments, stdin=b"a\n")
    assert (result.code, result.out) == (2, "")
    assert message in result.err


def test_json_lines(regard: Command, run: Path, content: bytes, trained: Trained) -> None:
    result = regard("predict", run, "--jsonl", "--nbest", "2", "--align", stdin=content)
    records = [json.loads(line) for line in result.out.splitlines()]
    assert [record["line"] for record in records] == [1, 2, 3, 4, 5]
    assert [record["source"] for record in records] == LINES
    first = records[0]
    prediction = trained.model.predict("a b c", best=2)
    assert first["text"] == prediction.text
    assert first["log_probability"] == pytest.approx(prediction.log_probability, abs=1e-5)
    assert first["score"] == pytest.approx(prediction.score, abs=1e-5)
    assert [one["text"] for one in first["nbest"]] == [one.text for one in prediction.outputs]
    assert first["complete"] is True
    assert len(first["alignment"].split()) == len(first["text"].split())
    blank = {"text": "", "score": None, "log_probability": None, "complete": True, "nbest": [], "alignment": ""}
    assert {name: records[1][name] for name in blank} == blank
    assert "nbest" not in json.loads(regard("predict", run, "--jsonl", stdin=b"a\n").out)
    assert "cut_source" not in json.loads(regard("predict", run, "--jsonl", stdin=b"a\n").out)
    assert json.loads(regard("predict", run, "--jsonl", stdin=b"a " * 1000 + b"\n").out)["cut_source"] > 0


def test_alignments_are_a_column(regard: Command, run: Path, content: bytes, expected: list[str]) -> None:
    result = regard("predict", run, "--align", stdin=content)
    rows = [line.split("\t") for line in result.out.splitlines()]
    assert [row[0] for row in rows] == expected
    for text, links in rows:
        assert sorted(int(link.split("-")[1]) for link in links.split()) == list(range(len(text.split())))
    assert rows[0][1] == "0-0 1-1 2-2"


def test_what_was_cut_is_told(regard: Command, run: Path) -> None:
    result = regard("predict", run, stdin=(b"a " * 300 + b"\n"))
    assert result.code == 0
    assert len(result.out.splitlines()) == 1
    assert "regard: 1 line was longer than 256 tokens (data.max_length) and only its beginning was read" in result.err


def test_a_file_that_is_not_there(regard: Command, run: Path) -> None:
    result = regard("predict", run, "nowhere.txt")
    assert (result.code, result.out) == (4, "")
    assert "nowhere.txt: there is no such file" in result.err


@pytest.mark.cli
def test_a_reader_that_leaves_early_is_no_error(run: Path, tmp_path: Path) -> None:
    lines = tmp_path / "many.txt"
    lines.write_text("".join(f"{source}\n" for source in toy_sources(60) * 60))
    script = '"$@" | head -1; echo "${PIPESTATUS[0]}"'
    command = ["bash", "-c", script, "-", *PROGRAM, "predict", str(run), str(lines), "--beam", "1", "--engine", "torch"]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=120, check=True)
    first, code = done.stdout.splitlines()
    assert first == Model.load(run).predict(toy_sources(60)[0], beam=1).text
    assert code in ("141", "0")
    assert done.stderr == ""


@pytest.mark.cli
def test_the_real_command_reads_and_writes_utf8_whatever_the_locale(run: Path) -> None:
    command = [*PROGRAM, "predict", str(run), "--jsonl"]
    given = "a ü b\n\n日\n".encode() + b"\xff\n"
    done = subprocess.run(command, input=given, capture_output=True, env=ENVIRONMENT, timeout=120, check=True)
    records = [json.loads(line) for line in done.stdout.decode("utf-8").splitlines()]
    assert [record["source"] for record in records] == ["a ü b", "", "日", ""]
    assert done.stderr.decode().count("\n") == 1


class Keyboard(io.RawIOBase):
    """Gives a line at a time, and writes down what has been answered before it was typed."""

    def __init__(self, lines: list[bytes]) -> None:
        self.lines = lines
        self.answered: list[str] = []

    def readable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        written = cast(io.BytesIO, cast(io.TextIOWrapper, sys.stdout).buffer).getvalue()
        self.answered.append(written.decode())
        line = self.lines.pop(0) if self.lines else b""
        buffer[: len(line)] = line
        return len(line)


def test_what_is_typed_is_answered_at_once(run: Path, monkeypatch: pytest.MonkeyPatch, regard: Command) -> None:
    keyboard = Keyboard([b"a b\n", b"\n", b"c\n"])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(keyboard)))
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO()))
    monkeypatch.setattr(sys, "argv", ["regard", "predict", str(run)])
    with pytest.raises(SystemExit):
        main()
    assert [answers.count("\n") for answers in keyboard.answered] == [0, 1, 2, 3]


def test_a_pipe_is_answered_line_by_line_if_asked(run: Path) -> None:
    """A program that writes a line and waits for the answer gets it."""
    command = [sys.executable, "-m", "regard.cli.main", "predict", str(run), "--at-once"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for line in ("a b c", "", "c a"):
            process.stdin.write(line + "\n")
            process.stdin.flush()
            assert bool(process.stdout.readline().strip()) == bool(line)
        process.stdin.close()
        assert process.wait(timeout=60) == 0
