"""Workers that end, hang, are killed or told to stop; here they are small programs that do not load torch."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from regard.errors import LostError
from regard.run import workers
from regard.run.workers import Crew, exit_code, supervise

BEGIN = """
import os, pathlib, signal, sys, time
rank, meeting = int(os.environ["RANK"]), pathlib.Path(os.environ["REGARD_MEETING"])
attempt, here = int(meeting.name.partition("-")[2]), pathlib.Path(sys.argv[1])
"""


def crew(folder: Path, program: str, told: list[str], *, workers: int = 2, max_restarts: int = 3) -> Crew:
    return Crew(
        command=(sys.executable, "-c", BEGIN + program, str(folder)),
        first=("--first",),
        workers=workers,
        max_restarts=max_restarts,
        tell=told.append,
    )


@pytest.mark.parametrize(
    ("codes", "signalled", "expected"),
    [
        ([0, 0], None, 0),
        ([0, 0], signal.SIGTERM, 0),
        ([4, -9], None, 4),
        ([9, 4], None, 4),
        ([143, 2], signal.SIGTERM, 2),
        ([143, 143], None, 143),
        ([9, 138], None, 138),
        ([-15, 143], signal.SIGTERM, 143),
        ([-2, -2], signal.SIGINT, 130),
        ([1, 9], None, 1),
        ([9, -9], None, None),
        ([0, -11], None, None),
        ([9, 9], None, None),
    ],
)
def test_codes_of_workers_become_one(codes: list[int], signalled: int | None, expected: int | None) -> None:
    assert exit_code(codes, signalled) == expected


def test_workers_know_who_they_are_and_share_the_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    monkeypatch.setattr(workers, "cores", lambda: 7)
    names = "RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE OMP_NUM_THREADS GLOO_SOCKET_IFNAME REGARD_SUPERVISOR"
    program = f'(here / str(rank)).write_text(" ".join(os.environ[name] for name in "{names}".split()))'
    told: list[str] = []
    assert supervise(crew(tmp_path, program, told, workers=3)) == 0
    assert [(tmp_path / str(rank)).read_text() for rank in range(3)] == [
        f"{rank} {rank} 3 3 2 lo {os.getpid()}" for rank in range(3)
    ]
    assert told == []


def test_a_lost_worker_starts_all_again_and_what_was_asked_first_is_not_asked_again(tmp_path: Path) -> None:
    program = """
(here / f"{attempt}-{rank}").write_text(str(sys.argv[2:]))
if attempt == 1 and rank == 0:
    meeting.with_name("begun").touch()
if attempt < 3 and rank == 1:
    time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGKILL)
if attempt < 3:
    time.sleep(0.5)
    sys.exit(9)
"""
    told: list[str] = []
    assert supervise(crew(tmp_path, program, told)) == 0
    assert [(tmp_path / f"{attempt}-0").read_text() for attempt in range(4)] == ["['--first']"] * 2 + ["[]"] * 2
    assert told[0] == (
        "worker 1 was ended by SIGKILL. All workers start again from the last checkpoint (restart 1 of at most 3)"
    )
    assert len(told) == 3


@pytest.mark.parametrize(("restarts", "said"), [(0, "--max-restarts allows no restart"), (1, "--max-restarts 1 are")])
def test_after_too_many_losses_it_says_how_to_go_on(tmp_path: Path, restarts: int, said: str) -> None:
    told: list[str] = []
    program = "os.kill(os.getpid(), signal.SIGKILL) if rank else sys.exit(9)"
    assert supervise(crew(tmp_path, program, told, max_restarts=restarts)) == LostError.exit_code == 9
    assert len(told) == restarts + 1
    assert told[-1].startswith(f"regard: worker 1 was ended by SIGKILL, and {said}")
    assert told[-1].endswith("What was saved is intact: run the same command again to go on")


def test_an_error_that_has_a_name_is_not_tried_again(tmp_path: Path) -> None:
    told: list[str] = []
    program = """
(here / f"{attempt}-{rank}").touch()
time.sleep(0.2 * rank)
sys.exit(9 if rank else 4)
"""
    assert supervise(crew(tmp_path, program, told)) == 4
    assert told == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0-0", "0-1"]


def test_a_worker_that_hangs_when_another_is_lost_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "GRACE", 0.3)
    told: list[str] = []
    program = "os.kill(os.getpid(), signal.SIGSEGV) if rank else time.sleep(60)"
    began = time.monotonic()
    assert supervise(crew(tmp_path, program, told, max_restarts=1)) == 9
    assert time.monotonic() - began < 20
    assert "worker 1 was ended by SIGSEGV" in told[0]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_goes_to_every_worker_once(tmp_path: Path, number: signal.Signals) -> None:
    program = f"""
got = []
def stop(number, frame):
    got.append(number)
signal.signal({int(number)}, stop)
(here / f"ready-{{rank}}").touch()
while not got:
    time.sleep(0.01)
time.sleep(0.3)
(here / f"got-{{rank}}").write_text(str(len(got)))
sys.exit(128 + got[0])
"""

    def send() -> None:
        while len(list(tmp_path.glob("ready-*"))) < 2:
            time.sleep(0.02)
        os.kill(os.getpid(), number)

    before = signal.getsignal(number)
    thread = threading.Thread(target=send)
    thread.start()
    told: list[str] = []
    assert supervise(crew(tmp_path, program, told)) == 128 + number
    thread.join()
    assert signal.getsignal(number) == before
    assert [(tmp_path / f"got-{rank}").read_text() for rank in range(2)] == ["1", "1"]
    assert told == []


def test_a_signal_while_workers_are_started_reaches_them_and_starts_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = subprocess.Popen

    def started(*arguments: Any, **named: Any) -> "subprocess.Popen[bytes]":
        process = start(*arguments, **named)
        os.kill(os.getpid(), signal.SIGTERM)
        return process

    monkeypatch.setattr(subprocess, "Popen", started)
    began = time.monotonic()
    program = '(here / f"{rank}").touch(); time.sleep(60)'
    assert supervise(crew(tmp_path, program, [], workers=3)) == 128 + signal.SIGTERM
    assert time.monotonic() - began < 30
    assert not (tmp_path / "1").exists()


def test_more_workers_than_cores_are_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "cores", lambda: 1)
    told: list[str] = []
    assert supervise(crew(tmp_path, "", told)) == 0
    assert told == ["2 workers share 1 cores: as many as cores would be faster"]
