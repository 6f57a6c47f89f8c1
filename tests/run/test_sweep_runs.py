"""Sweeps over toy runs: what is told of them, and that validation alone chooses."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.errors import BusyError, RecipeError, UsageError
from regard.recipe import dump_recipe
from regard.run import sweep as sweeping
from regard.run.folder import RunFolder
from regard.run.grid import Combination
from regard.run.series import Failed, Finished, Job, Result
from regard.run.sweep import sweep
from regard.run.sweep_results import sweep_lines, sweep_record, sweep_table, write_sweep
from tests.in_process import train_all_here
from tests.toys import toy_pairs, toy_recipe, write_tsv


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    pairs = write_tsv(tmp_path / "pairs.tsv", toy_pairs(60))
    made = toy_recipe(Path("runs/toy"), pairs, f"data.valid={pairs}", f"data.test={pairs}", "training.steps=4")
    path = tmp_path / "recipe.yaml"
    path.write_text(dump_recipe(made), encoding="utf-8")
    return path


def test_every_combination_is_a_run_and_none_is_trained_twice(recipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "train_all", train_all_here)
    told: list[str] = []
    result = sweep(recipe, "model.width=8,16", seeds=2, tell=told.append)
    assert sorted(told) == [
        f"[{2 * number + seed}/4] model.width={width}, seed {seed}: training"
        for number, width in enumerate((8, 16))
        for seed in (1, 2)
    ]
    folder = Path("runs/toy-sweep")
    for width in (8, 16):
        for seed in (1, 2):
            assert (folder / f"model.width={width}" / f"seed-{seed}" / "report.html").is_file()
    assert [row.validation.count for row in result.rows if row.validation] == [2, 2]
    told.clear()
    again = sweep(recipe, "model.width=8,16,4", seeds=2, tell=told.append)
    assert len(told) == 2
    assert all("model.width=4" in line for line in told)
    assert {row.combination: row.validation for row in result.rows}.items() <= {
        row.combination: row.validation for row in again.rows
    }.items()


def test_a_second_sweep_into_the_same_folder_is_refused(recipe: Path) -> None:
    folder = RunFolder(Path("runs/toy-sweep"))
    folder.make()
    with folder.locked(), pytest.raises(BusyError, match=r"runs/toy-sweep: another process is training into this"):
        sweep(recipe, "model.width=8,16")
    assert [path.name for path in folder.path.iterdir()] == [".lock"]


def answers(values: dict[str, tuple[float, float]]) -> Callable[..., dict[str, Result]]:
    """A stand-in for training: validation loss and BLEU by width, a little worse for each seed."""

    def run(jobs: list[Job], *, workers: int, tell: object, overwrite: bool) -> dict[str, Result]:
        results: dict[str, Result] = {}
        for job in jobs:
            key = str(job.recipe.model.width)
            if key not in values:
                results[job.name] = Failed("no space", 7)
                continue
            loss, score = values[key]
            results[job.name] = Finished(
                validation=loss + job.recipe.seed / 100,
                steps=4,
                seconds=60.0,
                scores={"test": {"BLEU": score - job.recipe.seed}, "further <b>": {"BLEU": score}},
                outputs=[],
            )
        return results

    return run


def test_the_choice_is_made_by_validation_whatever_the_test_says(recipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "train_all", answers({"8": (2.0, 90.0), "16": (1.0, 50.0)}))
    result = sweep(recipe, "model.width=8,16,32", seeds=3)
    assert [row.combination.settings for row in result.rows] == [
        ("model.width=16",),
        ("model.width=8",),
        ("model.width=32",),
    ]
    assert result.chosen is result.rows[0]
    assert result.rows[0].scores["test"]["BLEU"].mean == pytest.approx(48)
    assert result.failures == [f"model.width=32, seed {seed}: no space" for seed in (1, 2, 3)]
    assert result.exit_code == 7
    write_sweep(result)
    record: Any = json.loads((result.folder / "sweep.json").read_bytes())
    assert record == json.loads(json.dumps(sweep_record(result)))
    assert [row["chosen"] for row in record["rows"]] == [True, False, False]
    assert record["rows"][0]["validation"]["n"] == 3
    assert record["rows"][0]["validation"]["low"] == pytest.approx(1.02 - 4.3027 * 0.01 / 3**0.5, abs=1e-5)
    assert record["rows"][2]["failures"]["2"] == "no space"
    page = (result.folder / "sweep.md").read_text(encoding="utf-8")
    assert "| **model.width=16** (chosen) | 3 | 1.020 ± 0.025 | 48.00 ± 2.48 | 50.00 ± 0.00 |" in page
    assert "| model.width=32 | 0 | – | – | – |" in page
    html = (result.folder / "sweep.html").read_text(encoding="utf-8")
    assert "further &lt;b&gt; BLEU" in html
    assert "<b>" not in html
    assert html.count("<svg") == 3
    assert html.count("<circle") == 3 * 6
    assert "chosen by validation" in html


def test_the_table_fits_the_terminal(recipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "train_all", answers({"8": (2.0, 90.0), "16": (1.0, 50.0)}))
    table = sweep_table(sweep(recipe, "model.width=8,16", seeds=2))
    wide = sweep_lines(table, 100)
    assert wide[0].split() == ["n", "validation", "loss", "test", "BLEU", "further", "<b>", "BLEU"]
    assert wide[1].startswith("→ model.width=16  2")
    assert len({len(line) for line in wide[:3]}) == 1
    narrow = sweep_lines(table, 50)
    assert narrow[0] == "→ model.width=16"
    assert "    test BLEU         48.50 ± 6.35" in narrow
    assert "→ chosen by validation loss" in wide[-1]
    alone = sweep_lines(sweep_table(sweep(recipe, "model.width=8", seeds=2)), 100)
    assert "as the recipe says" in alone[1]
    assert "→" not in "".join(alone)


def test_higher_is_better_where_a_metric_judges(recipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "train_all", answers({"8": (20.0, 9.0), "16": (10.0, 50.0)}))
    result = sweep(recipe, "model.width=8,16", "training.select=BLEU")
    assert (result.criterion, result.lower_is_better, result.exit_code) == ("BLEU", False, 0)
    assert result.rows[0].combination == Combination(("model.width=8",))
    lower = sweep(recipe, "model.width=8,16", "training.select=TER", "evaluation.metrics=[TER]")
    assert lower.rows[0].combination == Combination(("model.width=16",))


def test_what_cannot_be_compared_is_told(recipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "train_all", answers({"16": (1.0, 50.0)}))
    assert sweep(recipe, "model.layers=1,2", seeds=2).notes == ()
    (note,) = sweep(recipe, "text.size=20,50").notes
    assert "the validation loss is per token, and cannot be compared between other texts or vocabularies" in note
    (note,) = sweep(recipe, "data.test=null", seeds=2).notes
    assert "is split off by the seed: seeds differ in their data, too" in note


def test_all_recipes_are_read_before_anything_is_trained(recipe: Path) -> None:
    with pytest.raises(RecipeError, match=r"model\.width"):
        sweep(recipe, "model.width=16,wide")
    with pytest.raises(UsageError, match="seeds = 0: there must be at least 1"):
        sweep(recipe, seeds=0)
    assert not Path("runs").exists()
