"""Runs in processes of their own: what is finished stays, what fails is told, what is stopped goes on."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from regard.errors import BusyError, DivergedError, UsageError
from regard.recipe.schema import Recipe
from regard.report import read_log
from regard.run import series
from regard.run.folder import RunFolder
from regard.run.series import Failed, Finished, Job, finished_run, lower_is_better, remember, runs_at_once, train_all
from regard.run.training import train
from tests.toys import toy_pairs, toy_recipe, write_tsv

ROOT = Path(__file__).parents[2]


def toy(folder: Path, name: str, *overrides: str) -> Recipe:
    pairs = folder / "pairs.tsv"
    if not pairs.exists():
        write_tsv(pairs, toy_pairs(60))
    return toy_recipe(folder / name, pairs, "training.steps=4", *overrides)


def test_a_run_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    good, bad = toy(tmp_path, "good"), toy(tmp_path, "bad", f"data.test={tmp_path / 'nowhere.tsv'}")
    told: list[str] = []
    jobs = [Job("bad", bad), Job("good", good)]
    results = train_all(jobs, workers=1, tell=told.append)
    failed, finished = results["bad"], results["good"]
    assert isinstance(failed, Failed)
    assert failed.code == 4
    assert "nowhere.tsv" in failed.message
    assert isinstance(finished, Finished)
    assert finished.steps == 4
    metrics = json.loads((tmp_path / "good/metrics.json").read_bytes())["metrics"]
    assert finished.scores["test"] == {name: score["value"] for name, score in metrics.items()}
    validations = [point.loss for point in read_log(tmp_path / "good/log.jsonl").validation]
    assert finished.validation == pytest.approx(min(validations))
    assert len(finished.outputs) == metrics["BLEU"]["count"]
    assert told[0] == "bad: training"
    assert told[1].startswith("bad: failed with exit code 4: ")
    assert told[3].startswith("good: exact ")
    told.clear()
    assert train_all([Job("good", good)], workers=1, tell=told.append) == {"good": finished}
    assert told == ["good: finished before"]
    other = toy(tmp_path, "good", "model.width=8")
    refused = train_all([Job("good", other)], workers=1, tell=told.append)["good"]
    assert isinstance(refused, Failed)
    assert "this folder holds a run of another recipe" in refused.message
    anew = train_all([Job("good", other)], workers=1, tell=told.append, overwrite=True)["good"]
    assert isinstance(anew, Finished)
    assert RunFolder(tmp_path / "good").read_recipe().model.width == 8


def test_a_run_is_finished_for_its_recipe_data_and_metrics_only(tmp_path: Path) -> None:
    recipe = toy(tmp_path, "run")
    assert finished_run(recipe) is None
    remember(recipe, train(recipe))
    assert finished_run(recipe) is not None
    threads = recipe.model_copy(update={"training": recipe.training.model_copy(update={"threads": 2})})
    assert finished_run(threads) is not None
    longer = recipe.model_copy(update={"training": recipe.training.model_copy(update={"steps": 5})})
    assert finished_run(longer) is None
    metrics = tmp_path / "run/metrics.json"
    content = metrics.read_bytes()
    metrics.write_bytes(content + b" ")
    assert finished_run(recipe) is None
    metrics.write_bytes(content)
    assert finished_run(recipe) is not None
    write_tsv(tmp_path / "pairs.tsv", toy_pairs(61))
    assert finished_run(recipe) is None
    (tmp_path / "pairs.tsv").unlink()
    assert finished_run(recipe) is None
    write_tsv(tmp_path / "pairs.tsv", toy_pairs(60))
    assert finished_run(recipe) is not None
    (tmp_path / "run" / series.FINISHED).write_text("{")
    assert finished_run(recipe) is None


def test_a_run_without_any_validation_is_not_finished(tmp_path: Path) -> None:
    recipe = toy(tmp_path, "run", "training.steps=1")
    trained = train(recipe)
    outcome = replace(trained.outcome, progress=replace(trained.outcome.progress, best=None))
    with pytest.raises(DivergedError, match=r"no validation gave a number; lower training\.learning_rate"):
        remember(recipe, replace(trained, outcome=outcome))
    assert finished_run(recipe) is None


def waiting_sweep(folder: Path) -> tuple["subprocess.Popen[str]", Path]:
    """A sweep that has saved a first checkpoint and goes on for long."""
    write_tsv(folder / "pairs.tsv", toy_pairs(60))
    settings = ["run=runs/toy", "model.width=8", "model.layers=1", "training.save_every=3", "training.batch_tokens=50"]
    command = [sys.executable, "-m", "regard.cli.main", "sweep", "pairs.tsv", *settings, "training.steps=1000000"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    process = subprocess.Popen(
        [*command, "training.patience=null"], cwd=folder, env=environment, stderr=subprocess.PIPE, text=True
    )
    run = folder / "runs/toy-sweep/seed-1"
    deadline = time.monotonic() + 120
    while not RunFolder(run).checkpoints.steps():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return process, run


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_whoever_stops_the_sweep_stops_its_runs_and_their_state_is_saved(tmp_path: Path, number: int) -> None:
    process, run = waiting_sweep(tmp_path)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    folder = RunFolder(run)
    deadline = time.monotonic() + 60
    while True:  # where the sweep was killed, its run ends on its own a little later
        try:
            with folder.locked():
                break
        except BusyError:
            assert number == signal.SIGKILL
            assert time.monotonic() < deadline
            time.sleep(0.1)
    assert process.returncode == (143 if number == signal.SIGTERM else -9)
    if number == signal.SIGTERM:
        assert "Run the same command again to go on" in err
    assert "stopped by SIGTERM after step" in (run / series.CONSOLE).read_text(encoding="utf-8")
    step = folder.checkpoints.steps()[-1]
    assert step >= 3
    recipe = folder.read_recipe()
    shorter = recipe.training.model_copy(update={"steps": step + 2})
    trained = train(recipe.model_copy(update={"training": shorter, "run": str(run)}))
    assert trained.outcome.progress.step == step + 2
    assert read_log(run / "log.jsonl").starts[-1]["step"] == step


def test_ends_without_a_word_are_told(tmp_path: Path) -> None:
    class Ended:
        def __init__(self, code: int) -> None:
            self.returncode = code
            self.stdin = (tmp_path / "stdin").open("wb")

    console = tmp_path / "console.txt"
    job = Job("x", toy(tmp_path, "x"))
    cases = {
        (-9, ""): Failed("stopped by SIGKILL", 137),
        (1, "Traceback\nValueError: oh\n"): Failed(f"ValueError: oh (all of it is in {console})", 1),
        (7, "a warning\nregard: no room\n"): Failed("no room", 7),
        (0, ""): Failed(f"it said nothing (all of it is in {console})", 1),
    }
    for (code, written), expected in cases.items():
        console.write_text(written)
        assert series._collect(series._Running(job, Ended(code), console)) == expected  # type: ignore[arg-type]


def test_cores_are_shared_and_never_promised_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series, "cores", lambda: 5)
    assert [runs_at_once(workers, 3) for workers in (1, 2, 5)] == [1, 2, 3]
    assert runs_at_once(2, 0) == 1
    for workers in (0, 6):
        with pytest.raises(
            UsageError, match=f"{workers} runs at a time: there are 5 cores, so at least 1 and at most 5"
        ):
            runs_at_once(workers, 3)
    greedy = toy(tmp_path, "greedy", "training.threads=3")
    with pytest.raises(
        UsageError, match=r"greedy: 2 runs at a time with 3 threads each \(training.threads\) need more"
    ):
        train_all([Job("greedy", greedy), Job("modest", toy(tmp_path, "modest"))], workers=2, tell=print)
    assert not (tmp_path / "greedy").exists()


def test_threads_that_a_run_has_measured_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series, "cores", lambda: 5)
    recipe = toy(tmp_path, "begun", "training.threads=auto")
    folder = RunFolder(Path(recipe.run))
    folder.create()
    folder.write_recipe(recipe.model_copy(update={"training": recipe.training.model_copy(update={"threads": 3})}))
    jobs = [Job("begun", recipe), Job("new", toy(tmp_path, "new"))]
    series._check_threads(jobs, 2, overwrite=False)  # it has not learned anything
    folder.weights.touch()
    with pytest.raises(UsageError, match=r"3 threads each \(training.threads, measured when it began\) need more"):
        train_all(jobs, workers=2, tell=print)
    series._check_threads(jobs, 2, overwrite=True)
    series._check_threads(jobs, 1, overwrite=False)
    folder.recipe.write_text("model: [")  # the run itself tells that
    series._check_threads(jobs, 2, overwrite=False)


@pytest.mark.parametrize(("select", "lower"), [("loss", True), ("TER", True), ("BLEU", False), ("exact", False)])
def test_what_is_better(select: str, lower: bool) -> None:
    assert lower_is_better(select) is lower
