"""`regard train` with several processes: what is refused, warned of, and told once."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from regard.cli import train as train_command
from regard.errors import UsageError
from regard.process import MEETING
from regard.run.training import train
from regard.training.processes import Alone
from tests.cli.conftest import Command
from tests.toys import toy_pairs, toy_recipe, write_tsv


class Many(Alone):
    """Looks like so many processes on this machine."""

    def __init__(self, count: int) -> None:
        self.world = self.local_world = count


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    return write_tsv(tmp_path / "pairs.tsv", toy_pairs(120))


def test_restarts_are_about_workers(pairs: Path, regard: Command) -> None:
    result = regard("train", pairs, "--max-restarts", "2")
    assert result.code == 2
    assert "--max-restarts is about several workers, and there is one; give --workers, or leave it out" in result.err


def test_workers_are_not_started_by_workers(pairs: Path, regard: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", MEETING: "nowhere"}.items():
        monkeypatch.setenv(name, value)
    result = regard("train", pairs, "--workers", "2")
    assert result.code == 2
    assert "this is one of several processes already, so --workers cannot start more; leave it out" in result.err


def test_restarts_of_torchrun_do_not_start_anew(pairs: Path, regard: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {"RANK": "0", "WORLD_SIZE": "2", MEETING: "nowhere", "TORCHELASTIC_MAX_RESTARTS": "3"}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    result = regard("train", pairs, "--overwrite")
    assert result.code == 2
    assert "--overwrite would delete what is saved at every restart that torchrun --max-restarts allows" in result.err


def test_one_process_has_no_one_to_share_a_model_with(pairs: Path, regard: Command, tmp_path: Path) -> None:
    result = regard("train", pairs, f"run={tmp_path / 'run'}", "model.width=16", "training.parallel=fsdp")
    assert result.code == 2
    assert "start several with --workers or torchrun, or leave it out" in result.err


def test_more_processes_than_examples_are_refused(pairs: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="500 processes cannot share 80 training examples; start at most 80"):
        train(toy_recipe(tmp_path / "run", pairs), processes=Many(500))


@pytest.mark.parametrize(
    ("count", "threads", "expected"),
    [
        (1, 3, ""),
        (1, 9, "`training.threads: 9` on 3 cores: threads hold each other up; give no more than there are cores"),
        (2, 1, ""),
        (2, 2, "2 processes with `training.threads: 2` share 3 cores and hold each other up; give fewer threads"),
        (3, 1, ""),
    ],
)
def test_more_threads_than_cores_are_warned_of(
    tmp_path: Path, pairs: Path, monkeypatch: pytest.MonkeyPatch, count: int, threads: int, expected: str
) -> None:
    monkeypatch.setattr(train_command, "cores", lambda: 3)
    recipe = toy_recipe(tmp_path / "run", pairs, f"training.threads={threads}")
    assert train_command._oversubscribed(recipe, Many(count)) == expected


@pytest.mark.cli
def test_a_mistake_is_told_once_by_all_workers(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "regard", "train", str(tmp_path / "none.tsv"), "--workers", "2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)
    assert done.returncode == 4, done.stderr
    assert (done.stdout, done.stderr.count("none.tsv"), done.stderr.count("regard")) == ("", 1, 1)
