"""What a run will take: lines by hand, a trial that leaves nothing behind, and the command."""

import json
import shutil
import tempfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from regard.cli.estimate import lines_of
from regard.cli.main import app
from regard.recipe import dump_recipe
from regard.run.estimating import Estimate, estimate, line_at
from regard.run.training import train
from tests.toys import toy_pairs, toy_recipe, write_tsv

FOUND = Estimate(
    way="float32, 2 threads",
    steps=1000,
    tokens_per_second=4000.0,
    step_seconds=0.5,
    preparation_seconds=3.0,
    training_seconds=500.0,
    validations=10,
    validation_seconds=2.0,
    evaluation_seconds=17.0,
    memory=650_000_000,
    memory_free=8_000_000_000,
    advice="",
    by_patience=True,
    trial_seconds=20.0,
)


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    return write_tsv(tmp_path / "pairs.tsv", toy_pairs(120))


@pytest.mark.parametrize(
    ("points", "count", "expected"),
    [
        ([(8, 2.0)], 80, 20.0),
        ([(8, 2.0), (16, 3.0)], 80, 3.0 + 64 / 8),
        ([(8, 2.0), (16, 1.5)], 80, 1.5),  # noise does not make more examples cheaper
        ([(8, 0.1), (16, 3.0)], 80, 15.0),  # nor dearer than in proportion
        ([(8, 2.0), (16, 3.0)], 16, 3.0),
    ],
)
def test_a_line_is_carried_on(points: list[tuple[int, float]], count: int, expected: float) -> None:
    assert line_at(points, count) == pytest.approx(expected)


def test_the_parts_add_up() -> None:
    assert FOUND.total_seconds == 3 + 500 + 20 + 17
    assert FOUND.to_json()["total_seconds"] == 540
    assert lines_of(FOUND) == [
        "time           about 9 min 0 s, if patience does not end it sooner",
        "  preparation  3 s",
        "  training     8 min 20 s: 1,000 steps of 0.5 s, float32, 2 threads, 4,000 tokens/s",
        "  validation   20 s: 10 times 2 s",
        "  evaluation   17 s",
        "memory         about 650 MB; 8.0 GB are free",
    ]


def test_a_trial_leaves_nothing_behind(tmp_path: Path, pairs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    recipe = toy_recipe(tmp_path / "run", pairs, "training.steps=50", "training.average=2", "training.patience=null")
    found = estimate(recipe, seconds=1.0)
    assert not (tmp_path / "run").exists()
    assert list((tmp_path / "temporary").glob("regard-*")) == []
    assert (found.steps, found.validations, found.by_patience) == (50, 9 + 2, False)
    assert found.training_seconds == pytest.approx(50 * found.step_seconds)
    assert found.memory > 50e6
    straight = train(toy_recipe(tmp_path / "straight", pairs))
    shutil.rmtree(tmp_path / "straight")
    estimate(toy_recipe(tmp_path / "straight", pairs), seconds=1.0)
    again = train(toy_recipe(tmp_path / "straight", pairs))
    assert again.outcome.progress.best == straight.outcome.progress.best


def test_minutes_end_a_run(tmp_path: Path, pairs: Path) -> None:
    changes = ("training.steps=null", "training.minutes=2", "training.patience=null")
    found = estimate(toy_recipe(tmp_path / "run", pairs, *changes), seconds=1.0)
    learning = found.training_seconds + found.validations * found.validation_seconds
    assert learning == pytest.approx(120, rel=0.05)


def test_the_command(tmp_path: Path, pairs: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(dump_recipe(toy_recipe(tmp_path / "run", pairs)), encoding="utf-8")
    told = CliRunner().invoke(app, ["estimate", str(recipe), "training.steps=30", "--seconds", "1", "--json"])
    assert told.exit_code == 0
    assert json.loads(told.stdout)["steps"] == 30
    told = CliRunner().invoke(app, ["estimate", str(recipe), "--seconds", "1"])
    assert told.stdout.startswith("time  ")
    assert "12 steps of" in told.stdout


def test_the_command_needs_a_recipe() -> None:
    told = CliRunner().invoke(app, ["estimate", "training.steps=30"])
    assert "estimate needs a recipe or a file of pairs before the settings" in str(told.exception)
