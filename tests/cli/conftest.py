"""The command line, called in this process: what it prints where, and the code it leaves with."""

import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from regard.cli.main import main
from regard.run.training import Trained


@dataclass(frozen=True)
class Result:
    """How a command ended."""

    code: int
    out: str
    err: str


Command = Callable[..., Result]


@pytest.fixture
def regard(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """`regard("predict", run, stdin=b"...")`."""
    monkeypatch.setenv("COLUMNS", "80")

    def call(*arguments: str | Path, stdin: bytes = b"") -> Result:
        capsys.readouterr()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", ["regard", *map(str, arguments)])
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
            try:
                main()
                code: object = 0
            except SystemExit as end:
                code = end.code or 0
        captured = capsys.readouterr()
        assert isinstance(code, int)
        return Result(code, captured.out, captured.err)

    return call


@pytest.fixture(scope="session")
def run(trained: Trained) -> Path:
    """The folder of a finished run."""
    return trained.model.folder
