"""`regard train`, `new` and `demo`: from a file of pairs to a run."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from regard.cli import console
from regard.cli.progress import TrainingProgress, sample_lines
from regard.recipe import load_recipe, tasks
from regard.report import display_width, read_log
from regard.run import demo as run_demo
from regard.run.folder import RunFolder
from regard.run.model import Model
from regard.training import (
    Ended,
    LeftOut,
    Progress,
    Sampled,
    Saved,
    Shown,
    Skipped,
    Started,
    Stepped,
    Validated,
    Warned,
)
from tests.cli.conftest import Command
from tests.toys import toy_pairs, write_tsv

SMALL = ("training.steps=20", "training.save_every=5", "model.layers=1", "model.width=16", "evaluation.resamples=50")


@pytest.fixture
def pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write_tsv(tmp_path / "my pairs ü.tsv", toy_pairs(200))


@pytest.mark.cli
def test_a_file_of_pairs_is_enough(pairs: Path, regard: Command) -> None:
    """The real command, in a folder with blanks and letters, whatever the locale says; then again, and longer."""
    environment = {**os.environ, "NO_COLOR": "1", "LC_ALL": "C", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "regard.cli.main", "train", pairs.name, "run=runs/the ü run", *SMALL]
    done = subprocess.run(command, capture_output=True, env=environment, timeout=120, check=False)
    out, err = done.stdout.decode(), done.stderr.decode()
    assert done.returncode == 0, err
    assert "\x1b" not in out + err
    assert out.startswith("test (20 pairs)\n")
    assert all(line.startswith("  ") for line in out.splitlines()[1:])
    for told in (
        "· format tsv: columns separated by tabs",
        "· valid data split off the 200 pairs",
        "· but as you say: run=runs/the ü run, training.steps=20",
        "training: 20 steps, at most about",
        "step 20: validation loss",
        "training ended after",
        ": 20 steps done; evaluating",
        "the model is in runs/the ü run, the report in runs/the ü run/report.html",
    ):
        assert told in err, told
    folder = pairs.parent / "runs" / "the ü run"
    saved = read_log(folder / "log.jsonl").saved
    assert saved == (5, 10, 15, 20)
    again = regard("train", pairs.name, "run=runs/the ü run", *SMALL)
    assert (again.code, again.out) == (0, out)
    assert "going on from step 20" in again.err
    assert "· format tsv" not in again.err
    assert "runs/the ü run has begun; the choices made for it are in runs/the ü run/recipe.yaml" in again.err
    fewer = regard("train", pairs.name, "run=runs/the ü run", *SMALL, "training.steps=5")
    assert fewer.code == 0
    assert "20 steps are done already, more than the 5 that are asked for: nothing is left to train" in fewer.err
    assert "at most about" not in again.err
    longer = regard("train", pairs.name, "run=runs/the ü run", *SMALL, "training.steps=25")
    assert longer.code == 0
    assert "25 steps done" in longer.err
    other = regard("train", pairs.name, "run=runs/the ü run", *SMALL, "model.width=32")
    assert (other.code, other.out) == (2, "")
    assert "(model.width: 16 there, 32 here)" in other.err
    anew = regard("train", pairs.name, "run=runs/the ü run", *SMALL, "model.width=8", "--overwrite")
    assert anew.code == 0
    assert "going on" not in anew.err
    assert "· format tsv" in anew.err
    assert Model.load(folder).recipe.model.width == 8


def test_what_was_left_out_is_told(tmp_path: Path, regard: Command) -> None:
    lines = [f"{source}\t{target}\n" for source, target in toy_pairs(150)]
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join([*lines, "\n", "a b\t\n"]))
    result = regard("train", pairs, f"run={tmp_path / 'run'}", *SMALL, "training.steps=2")
    assert result.code == 0
    assert f"pairs with an empty side, skipped: 1 ({pairs}:152)" in result.err
    assert f"blank lines between records, passed over: 1 ({pairs}:151)" in result.err


def test_brackets_in_names_are_text(tmp_path: Path, regard: Command) -> None:
    pairs = write_tsv(tmp_path / "a=[b].tsv", toy_pairs(60))
    result = regard("train", pairs, f"run={tmp_path / '[red] run'}", *SMALL, "training.steps=1")
    assert result.code == 0, result.err
    assert f"the model is in {tmp_path / '[red] run'}" in result.err


def test_a_folder_of_others_is_left_alone(tmp_path: Path, regard: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_tsv(tmp_path / "pairs.tsv", toy_pairs(60))
    (tmp_path / "README.md").write_text("mine")
    for option in ([], ["--overwrite"]):
        result = regard("train", "pairs.tsv", "run=.", *SMALL, *option)
        assert (result.code, result.out) == (2, "")
        assert "a run would write over what is in it (README.md)" in result.err
    assert (tmp_path / "README.md").read_text() == "mine"


@pytest.mark.parametrize("task", tasks())
def test_a_new_recipe_is_a_recipe(tmp_path: Path, regard: Command, task: str) -> None:
    printed = regard("new", task)
    assert (printed.code, printed.err) == (0, "")
    path = tmp_path / "neu ü.yaml"
    written = regard("new", task, "-o", path)
    assert (written.code, written.out) == (0, "")
    assert f"wrote {path}; name your data in it, then: regard train {path}" in written.err
    assert f"# Train with:     regard train '{path}'\n" in path.read_text(encoding="utf-8")
    assert path.read_text(encoding="utf-8").replace(f"'{path}'", f"{task}.yaml") == printed.out
    assert load_recipe(path).task == task
    again = regard("new", task, "-o", path)
    assert again.code == 2
    assert "there is a file already" in again.err
    nowhere = regard("new", task, "-o", tmp_path / "nowhere" / "x.yaml")
    assert nowhere.code == 2
    assert "x.yaml: cannot be written (No such file or directory); choose another name" in nowhere.err


def test_the_demo_shows_scores_and_alignments(tmp_path: Path, regard: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_demo, "SIZE", 300)
    folder = tmp_path / "my demo"
    settings = ("training.epochs=1", "model.width=16", "model.layers=1", "evaluation.resamples=10", "search.beam=1")
    result = regard("demo", *settings, folder)
    assert result.code == 0, result.err
    assert "test (" in result.out
    assert "combinations (" in result.out
    assert "alignment error" in result.out
    assert f"report: {folder / 'report.html'}" in result.out
    assert (folder / "report.html").is_file()
    assert RunFolder(folder).read_recipe().training.epochs == 1


# What is shown while it goes


def shown(*events: object, width: int = 80, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", str(width))
    made = console.messages()
    with made.capture() as captured, TrainingProgress(made) as progress:
        for event in events:
            progress(event)  # type: ignore[arg-type]
    return captured.get()


def test_progress_tells_damage_skips_and_gains(monkeypatch: pytest.MonkeyPatch) -> None:
    told = shown(
        Started(Progress(step=1200), 2000, 130.0, ("runs/[x]/step-00001300: damaged",)),
        Skipped(Progress(step=1200), "step 1201: loss nan, gradient norm nan"),
        Validated(Progress(step=1250), 2.0, {"exact": 12.345}, True),
        Validated(Progress(step=1300), 1e6, {}, False),
        Sampled(Progress(step=1300), (Shown("a [b]", "A [B]", "A [B]"), Shown("c", "C", "\x1b[2J"))),
        Warned(Progress(step=1300), "flat", "the loss [red] is flat"),
        Saved(Progress(step=1300)),
        Ended(Progress(step=2000, seconds=3723.0), "2,000 steps done"),
        monkeypatch=monkeypatch,
    )
    assert re.sub(r" \(memory at most .*?\)", "", told).splitlines() == [
        "runs/[x]/step-00001300: damaged; it is set aside",
        "going on from step 1,200",
        "training: 2,000 steps, at most about 2 min 10 s without validation",
        "an update was left out, its numbers were not finite: step 1201: loss nan, gradient norm nan",
        "step 1,250: validation loss 2.0000, perplexity 7.39, exact 12.35  ← best",
        "step 1,300: validation loss 1000000.0000, perplexity 5,184,705,528,587,072,045,056.00",
        "  a [b] → A [B] ✓",
        "  c → \ufffd[2J ≠ C",
        "warning at step 1,300: the loss [red] is flat",
        "saved step 1,300",
        "training ended after 1 h 2 min: 2,000 steps done; evaluating",
    ]


def test_progress_tells_what_validations_took(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.cli.progress.memory_peak", lambda: 3_210_000_000)
    told = shown(
        LeftOut(Progress(), ("pairs with an empty side, skipped: 1 (a:3)",)),
        Started(Progress(), 20, 100.0, validate_every=10, validation_seconds=4.0),
        Validated(Progress(step=10, seconds=50.0), 2.0, {}, True, seconds=5.0),
        Sampled(Progress(step=10, seconds=50.0), (), 0.2),
        Ended(Progress(step=20, seconds=100.0), "20 steps done"),
        monkeypatch=monkeypatch,
    ).splitlines()
    assert told[:2] == ["pairs with an empty side, skipped: 1 (a:3)", "training: 20 steps, at most about 1 min 40 s"]
    assert told[-1] == (
        "training ended after 1 min 40 s (validation 5.0%, of it the outputs shown 0.2%, memory at most 3.2 GB): 20 "
        "steps done; evaluating"
    )


@pytest.mark.parametrize("width", [20, 40, 80])
@pytest.mark.parametrize(
    "sample",
    [
        Shown("a b c " * 20, "A B C " * 20, "A B " * 30),
        Shown("短い文です。" * 10, "短い文", "長い" * 40),
        Shown("", None, "a text that was drawn " * 5),
        Shown("x", "y", ""),
    ],
)
def test_outputs_fit_a_narrow_terminal(sample: Shown, width: int) -> None:
    lines = sample_lines(sample, width)
    assert 1 <= len(lines) <= 3
    assert all(display_width(line) < width for line in lines)


def test_progress_without_a_known_end(monkeypatch: pytest.MonkeyPatch) -> None:
    told = shown(Started(Progress(), None, None, ("a: damaged",)), monkeypatch=monkeypatch)
    assert told.splitlines() == ["a: damaged; it is set aside", "no checkpoint is left to go on from; starting anew"]
    assert "training: at most about 1 min 0 s" in shown(Started(Progress(), None, 60.0), monkeypatch=monkeypatch)


def test_lines_come_now_and_then_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 1000, 4))
    monkeypatch.setattr("regard.cli.progress.time.monotonic", lambda: float(next(clock)))
    told = shown(
        Started(Progress(), 100, 50.0),
        *(
            Stepped(Progress(step=step, seconds=step / 4), 1.5, 1.4, 0.1, 0.2, 12345.6, memory=412_000_000)
            for step in (20, 40, 60, 80)
        ),
        monkeypatch=monkeypatch,
    ).splitlines()
    lines = [line for line in told if line.startswith("step ")]
    assert 1 <= len(lines) < 4
    assert re.fullmatch(r"step (40, 15|60, 10) s left, loss 1\.500, 12,346 tokens/s, 412 MB", lines[0])


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0.2, "less than 1 s"),
        (1.2, "1 s"),
        (59.4, "59 s"),
        (61, "1 min 1 s"),
        (3599.9, "1 h 0 min"),
        (7260, "2 h 1 min"),
    ],
)
def test_durations(seconds: float, told: str) -> None:
    assert console.duration(seconds) == told


@pytest.mark.parametrize(
    ("environment", "expected"),
    [({}, False), ({"FORCE_COLOR": "1"}, True), ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False)],
)
def test_colour_is_for_those_who_want_it(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], expected: bool
) -> None:
    for name in ("FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert console.colour() == expected
