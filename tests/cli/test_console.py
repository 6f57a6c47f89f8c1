"""Standard output that cannot be written to."""

import errno
import os
import sys
from pathlib import Path
from typing import TextIO

import pytest

from regard.cli.console import score_lines, standard_output
from regard.errors import RegardError, ResourceError, UsageError


class Failing:
    """A stream on which nothing can be written."""

    def __init__(self, file: TextIO, number: int) -> None:
        self.fileno = file.fileno
        self.number = number

    def write(self, text: str) -> None:
        raise OSError(self.number, os.strerror(self.number), text)

    def flush(self) -> None:
        raise OSError(self.number, os.strerror(self.number))


@pytest.mark.parametrize(
    ("number", "kind", "message"),
    [
        (errno.ENOSPC, ResourceError, r"cannot be written \(No space left on device\)\. Make room, or write elsewhere"),
        (errno.EIO, UsageError, r"cannot be written \(Input/output error\); write to a file or a pipe that is open"),
    ],
)
def test_an_output_that_fails(
    number: int, kind: type[RegardError], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (tmp_path / "out").open("w", encoding="utf-8") as file:
        monkeypatch.setattr(sys, "stdout", Failing(file, number))
        with pytest.raises(kind, match=f"standard output: {message}"), standard_output() as output:
            output.write("what cannot be written")
        file.write("what is still held goes nowhere")
    assert (tmp_path / "out").read_text(encoding="utf-8") == ""


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_what_is_held_until_the_end_fails_alike(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "out").open("w", encoding="utf-8") as file:
        monkeypatch.setattr(sys, "stdout", Failing(file, number))
        with pytest.raises(RegardError, match="standard output: cannot be written"), standard_output():
            pass


def test_errors_of_other_things_are_not_told_as_those_of_the_output() -> None:
    with pytest.raises(ChildProcessError, match="No child"), standard_output():
        raise ChildProcessError(errno.ECHILD, "No child processes")


def test_no_output_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(UsageError, match="standard output is closed: nothing can be written"), standard_output():
        pass


def test_a_set_without_scores() -> None:
    assert score_lines("test", ()) == ["test: nothing could be judged"]
