"""Standard output that cannot be written to."""

import errno
import os
import sys
from pathlib import Path

import pytest

from regard.cli.console import score_lines, standard_output
from regard.errors import RegardError, ResourceError, UsageError


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
        monkeypatch.setattr(sys, "stdout", file)
        with pytest.raises(kind, match=f"standard output: {message}"), standard_output():
            raise OSError(number, os.strerror(number))
        file.write("what is still held goes nowhere")
    assert (tmp_path / "out").read_text(encoding="utf-8") == ""


def test_no_output_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(UsageError, match="standard output is closed: nothing can be written"), standard_output():
        pass


def test_a_set_without_scores() -> None:
    assert score_lines("test", ()) == ["test: nothing could be judged"]
