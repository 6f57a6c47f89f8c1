"""`regard sweep` and `regard backtranslate`; runs in processes of their own are in tests/run/test_series.py."""

import json
from pathlib import Path

import pytest

from regard.run import backtranslation, sweep
from regard.run.folder import RunFolder
from tests.cli.conftest import Command
from tests.in_process import train_all_here
from tests.toys import toy_pairs, write_tsv

SMALL = ("training.steps=3", "model.layers=1", "evaluation.resamples=20", "evaluation.metrics=[BLEU]")


@pytest.fixture
def pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sweep, "train_all", train_all_here)
    monkeypatch.setattr(backtranslation, "train_all", train_all_here)
    return write_tsv(tmp_path / "pairs.tsv", toy_pairs(60))


@pytest.mark.cli
def test_a_sweep_ends_with_a_table(pairs: Path, regard: Command) -> None:
    command = ("sweep", pairs.name, "run=runs/toy", *SMALL, "model.width=8,7", "model.encoder.heads=2")
    result = regard(*command)
    assert (result.code, result.out) == (3, "")
    assert not Path("runs").exists()
    result = regard(*command[:-2], "model.width=8,16")
    assert result.code == 0, result.err
    assert "→ model.width=" in result.out
    assert "the table is in runs/toy-sweep/sweep.md, with a picture in runs/toy-sweep/sweep.html" in result.err
    record = json.loads(Path("runs/toy-sweep/sweep.json").read_bytes())
    assert [row["chosen"] for row in record["rows"]] == [True, False]
    again = regard(*command[:-2], "model.width=8,16")
    assert again.out == result.out
    assert "training" not in again.err
    run = Path("runs/toy-sweep/model.width=8/seed-1")
    (run / "finished.json").unlink()
    with RunFolder(run).locked():
        failed = regard(*command[:-2], "model.width=8,16")
    assert failed.code == 8
    assert f"failed: model.width=8, seed 1: {run}: another process is training into this folder" in failed.err
    assert "→ model.width=16" in failed.out


@pytest.mark.cli
def test_back_translation_ends_with_its_gain(pairs: Path, regard: Command) -> None:
    mono = pairs.parent / "mono.txt"
    mono.write_text("".join(f"{target}\n" for _, target in toy_pairs(90)[60:]), encoding="utf-8")
    settings = (*SMALL, "run=runs/toy", "model.width=8", "final.training.steps=4", "text.unit=word")
    result = regard("backtranslate", pairs.name, mono.name, *settings)
    assert result.code == 0, result.err
    assert result.out.splitlines()[0].startswith("gain of back-translation (")
    assert result.out.splitlines()[2].split()[0] == "BLEU"
    assert "of 30 lines became synthetic pairs" in result.err
    folder = Path("runs/toy-backtranslation")
    assert f"the model is in {folder}/round1/final, the table in {folder}/backtranslation.md" in result.err
    assert json.loads((folder / "backtranslation.json").read_bytes())["rounds"][0]["final"]["steps"] == 4


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("sweep", "model.width=8,16"), "sweep needs a recipe or a file of pairs before the settings"),
        (("backtranslate", "pairs.tsv"), "backtranslate needs a recipe and a file of text in the target language"),
        (("backtranslate", "pairs.tsv", "mono", "--draw", "all"), "--draw all: there are sample and beam"),
    ],
)
def test_calls_that_make_no_sense(pairs: Path, regard: Command, arguments: tuple[str, ...], told: str) -> None:
    result = regard(*arguments)
    assert (result.code, result.out) == (2, "")
    assert told in result.err
