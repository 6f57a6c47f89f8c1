"""A training that is told to stop saves, leaves with the code of the signal, and goes on when it is called again."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from regard.cli.stopping import SIGNALS, stopping_at_once
from regard.run.folder import RunFolder
from tests.cli.conftest import Command
from tests.toys import toy_pairs, write_tsv

SMALL = ("model.layers=1", "model.width=16", "training.save_every=1000", "training.validate_every=1000")


def wait_for_steps(log: Path, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 100
    while time.monotonic() < until and process.poll() is None:
        if log.exists() and b'"step"' in log.read_bytes().replace(b'"step":', b""):
            return
        time.sleep(0.02)
    raise AssertionError("training did not begin")


@pytest.mark.cli
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGUSR1, 138)],
    ids=lambda value: str(value),
)
def test_signals(tmp_path: Path, regard: Command, number: signal.Signals, code: int) -> None:
    pairs = write_tsv(tmp_path / "pairs.tsv", toy_pairs(120))
    command = [str(pairs), f"run={tmp_path / 'run'}", *SMALL]
    process = subprocess.Popen(
        [sys.executable, "-m", "regard.cli.main", "train", *command, "training.steps=1000000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    try:
        wait_for_steps(tmp_path / "run" / "log.jsonl", process)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, out) == (code, b""), err
    stopped = re.search(rf"regard: stopped by {number.name} after step ([\d,]+); the state is saved", err.decode())
    assert stopped
    step = int(stopped[1].replace(",", ""))
    assert "Traceback" not in err.decode()
    latest, damages = RunFolder(tmp_path / "run").checkpoints.latest()
    assert latest is not None
    assert (latest.step, damages) == (step, [])
    again = regard("train", *command, f"training.steps={step + 2}", "evaluation.resamples=20")
    assert again.code == 0, again.err
    assert f"going on from step {step:,}" in again.err
    assert json.loads((tmp_path / "run" / "log.jsonl").read_text().splitlines()[-1])["step"] == step + 2


@pytest.mark.parametrize("number", SIGNALS)
def test_where_nothing_is_to_be_saved_a_signal_ends_the_process_with_a_sentence(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    before = [signal.getsignal(each) for each in SIGNALS]
    with stopping_at_once():
        os.kill(os.getpid(), number)
    assert codes == [128 + number]
    told = capfd.readouterr().err
    assert told == f"regard: stopped by {number.name}; nothing was left to save. Run the same command again to go on\n"
    assert [signal.getsignal(each) for each in SIGNALS] == before


def test_outside_the_main_thread_signals_stay_as_they_are() -> None:
    seen: list[object] = []

    def inside() -> None:
        with stopping_at_once():
            seen.extend(signal.getsignal(each) for each in SIGNALS)

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(each) for each in SIGNALS]


def test_other_commands_say_that_they_were_stopped(regard: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*arguments: object, **named: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("regard.run.model.Model.load", stopped)
    result = regard("predict", "runs/any")
    assert (result.code, result.out, result.err) == (130, "", "regard: stopped by SIGINT\n")
