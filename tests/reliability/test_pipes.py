"""Commands in pipes: every line answered in order, quiet when nobody listens, and never a traceback."""

import gzip
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.reliability.conftest import Tally
from tests.reliability.copying import copying_model, forked, line_of

PROGRAM = [sys.executable, "-m", "regard.cli.main"]
LINES = 10_000


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    model = copying_model(tmp_path_factory.mktemp("copying"))
    probe = [line_of(977 * number) for number in range(200)]
    assert [one.text for one in model.predict_many(probe)] == probe
    return str(model.folder)


@dataclass(frozen=True)
class Done:
    """How a command ended; a signal is a negative code."""

    code: int
    out: bytes
    err: str


def piped(
    tmp_path: Path, arguments: Sequence[str], given: bytes, *, read: int | None = None, slow: bool = False
) -> Done:
    """Run a command between two pipes. Only `read` bytes of its output are read, then the pipe is closed."""
    (source, feed), (drain, output) = os.pipe(), os.pipe()
    with (tmp_path / "err").open("wb") as messages:
        child = forked(arguments, stdin=source, stdout=output, stderr=messages.fileno())
    os.close(source)
    os.close(output)

    def write() -> None:
        try:
            with os.fdopen(feed, "wb") as file:
                file.write(given)
        except BrokenPipeError:
            pass

    writer = threading.Thread(target=write)
    writer.start()
    found = b""
    while block := os.read(drain, 4096 if slow else 2**16):
        found += block
        if slow:
            time.sleep(0.01)
        if read is not None and len(found) >= read:
            break
    os.close(drain)
    _, status = os.waitpid(child, 0)
    writer.join()
    return Done(os.waitstatus_to_exitcode(status), found, (tmp_path / "err").read_text(encoding="utf-8"))


def many(count: int = LINES) -> list[str]:
    """Lines that are all different, and blanks."""
    return ["" if number % 7 == 3 else line_of(number) for number in range(count)]


def joined(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def test_ten_thousand_lines_with_blanks(run: str, tmp_path: Path, tally: Tally) -> None:
    done = piped(tmp_path, ["predict", run], joined(many()))
    assert (done.code, done.out, done.err) == (0, joined(many()), "")
    tally("D3", cases=1, lines_in_order=LINES)


def test_a_slow_reader_gets_every_line(run: str, tmp_path: Path, tally: Tally) -> None:
    done = piped(tmp_path, ["predict", run, "-"], joined(many(3000)), slow=True)
    assert (done.code, done.out, done.err) == (0, joined(many(3000)), "")
    tally("D3", cases=1)


def test_a_reader_that_leaves_ends_the_command_quietly(run: str, tmp_path: Path, tally: Tally) -> None:
    done = piped(tmp_path, ["predict", run], joined(many(60_000)), read=1)
    assert (done.code, done.err) == (-13, "")
    assert joined(many()).startswith(done.out[:50])
    tally("D3", cases=1)


def test_a_bad_line_in_the_middle(run: str, tmp_path: Path, tally: Tally) -> None:
    lines = joined(many(500)).split(b"\n")
    lines[250] = b"a \xff b"
    done = piped(tmp_path, ["predict", run], b"\n".join(lines))
    lines[250] = b""
    assert (done.code, done.out) == (0, b"\n".join(lines))
    assert done.err == "regard: lines that are not UTF-8, answered with a blank line: 1 (<stdin>:251)\n"
    tally("D3", cases=1)


def test_noise_has_as_many_lines_of_answers(run: str, tmp_path: Path, tally: Tally) -> None:
    noise = b"x" + random.Random(4).randbytes(200_000)
    done = piped(tmp_path, ["predict", run], noise)
    assert done.code == 0
    assert done.out.count(b"\n") == noise.count(b"\n") + (not noise.endswith(b"\n"))
    assert 1 <= done.err.count("\n") <= 4
    assert "Traceback" not in done.err
    tally("D3", cases=1)


def test_nothing_gives_nothing_and_the_last_line_counts(run: str, tmp_path: Path, tally: Tally) -> None:
    assert piped(tmp_path, ["predict", run], b"") == Done(0, b"", "")
    assert piped(tmp_path, ["predict", run], b"a b\n\nc") == Done(0, b"a b\n\nc\n", "")
    tally("D3", cases=1)


def test_packed_lines_in_a_pipe(run: str, tmp_path: Path, tally: Tally) -> None:
    packed = gzip.compress(joined(many(300)))
    assert piped(tmp_path, ["predict", run], packed) == Done(0, joined(many(300)), "")
    cut = piped(tmp_path, ["predict", run], packed[:-4])
    assert cut.code == 4
    assert cut.err.startswith("regard: <stdin>:301: the gzip data is damaged or cut off after line 300")
    tally("D3", cases=1)


@pytest.mark.parametrize("verb", ["evaluate", "score"])
def test_files_of_unequal_lengths(verb: str, run: str, tmp_path: Path, tally: Tally) -> None:
    (tmp_path / "a.en").write_bytes(joined(many(10)[4:]))
    (tmp_path / "a.de").write_bytes(joined(many(9)[4:]))
    done = piped(tmp_path, [verb, run, str(tmp_path / "a.en"), str(tmp_path / "a.de")], b"")
    assert (done.code, done.out) == (4, b"")
    assert f"{tmp_path}/a.de:6: the line is missing. Parallel files need the same number of lines" in done.err
    tally("D3", cases=1)


@pytest.mark.parametrize("verb", ["predict", "score"])
def test_no_room_for_the_output(verb: str, run: str, tmp_path: Path, tally: Tally) -> None:
    (tmp_path / "in.tsv").write_bytes(b"".join(f"{line_of(n)}\t{line_of(n)}\n".encode() for n in range(3000)))
    full, nothing = os.open("/dev/full", os.O_WRONLY), os.open(os.devnull, os.O_RDONLY)
    with (tmp_path / "err").open("wb") as messages:
        child = forked([verb, run, str(tmp_path / "in.tsv")], stdin=nothing, stdout=full, stderr=messages.fileno())
    os.close(full)
    os.close(nothing)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7
    assert (tmp_path / "err").read_text(encoding="utf-8") == (
        "regard: standard output: cannot be written (No space left on device). Make room, or write elsewhere, and run "
        "the command again\n"
    )
    tally("D3", cases=1)


def shell(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = ["bash", "-c", script, "-", *PROGRAM, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)


@pytest.mark.cli
def test_an_endless_input_is_answered_as_it_comes(run: str, tally: Tally) -> None:
    done = shell('yes "a b c" | "$@" | head -2000; echo "${PIPESTATUS[1]}"', "predict", run)
    *lines, code = done.stdout.splitlines()
    assert (lines, code, done.stderr) == (["a b c"] * 2000, "141", "")
    tally("D3", cases=1)


@pytest.mark.cli
@pytest.mark.parametrize(
    ("closed", "code", "message"),
    [
        ("<&-", 4, "regard: <stdin>: standard input is closed. Name a file instead of `-`\n"),
        (
            ">&-",
            2,
            "regard: standard output is closed: nothing can be written. Leave out `>&-`, or name a file with `>`\n",
        ),
    ],
    ids=["input", "output"],
)
def test_what_is_closed(closed: str, code: int, message: str, run: str, tally: Tally) -> None:
    done = shell(f'echo a | {{ "$@" {closed}; }}', "predict", run)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", message)
    tally("D3", cases=1)
