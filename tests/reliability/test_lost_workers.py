"""R7: workers that are killed or told to stop, through the real command."""

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
import torch

from regard.recipe import dump_recipe
from regard.run.folder import RunFolder
from regard.training import Checkpoints
from tests.reliability.conftest import Tally
from tests.toys import toy_pairs, toy_recipe, write_tsv

STARTING = 120.0


def write_recipe(folder: Path, *overrides: str) -> Path:
    """A recipe with dropout, so that random numbers matter too."""
    pairs = write_tsv(folder / "pairs.tsv", toy_pairs(200))
    recipe = toy_recipe(
        folder / "run",
        pairs,
        "training.save_every=10",
        "training.validate_every=60",
        "training.patience=null",
        "model.dropout=0.2",
        "evaluation.resamples=5",
        *overrides,
    )
    path = folder / "recipe.yaml"
    path.write_text(dump_recipe(recipe), encoding="utf-8")
    return path


@contextmanager
def started(recipe: Path, run: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """`regard train --workers 2`, whose processes are all gone afterwards."""
    with said_in(run).open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "regard", "train", str(recipe), f"run={run}", "--workers", "2", *arguments],
            stdout=subprocess.DEVNULL,
            stderr=said,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
    try:
        yield process
    finally:
        for worker in workers_of(process.pid).values():
            os.kill(worker, signal.SIGKILL)
        process.kill()
        process.wait()


Start = Callable[..., AbstractContextManager["subprocess.Popen[bytes]"]]


def said_in(run: Path) -> Path:
    return run.with_suffix(".said")


def workers_of(supervisor: int) -> dict[int, int]:
    """Process ids of the workers by rank."""
    try:
        children = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
    except OSError:
        return {}
    found = {}
    for child in children:
        try:
            match = re.search(rb"(?:^|\0)RANK=(\d+)", Path(f"/proc/{child}/environ").read_bytes())
        except OSError:
            continue
        if match:
            found[int(match[1])] = int(child)
    return found


def wait_until(true: Callable[[], bool], seconds: float, what: str) -> float:
    """Seconds until something is so."""
    began = time.monotonic()
    while not true():
        assert time.monotonic() - began < seconds, f"{what} took more than {seconds} s"
        time.sleep(0.02)
    return time.monotonic() - began


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def latest(run: Path) -> int:
    return max(Checkpoints(run / "checkpoints").steps(), default=0)


def kill_and_compare(folder: Path, kills: int, steps: int, start: Start = started) -> list[float]:
    """Seconds that each survivor lived on; the run that was broken ends as the one that was not."""
    recipe = write_recipe(folder, f"training.steps={steps}")
    with started(recipe, folder / "straight") as process:
        assert process.wait(timeout=240) == 0, said_in(folder / "straight").read_text()
    draw, lived, run = random.Random(kills), [], folder / "broken"
    with start(recipe, run, "--max-restarts", str(kills)) as process:
        for number in range(kills):
            target = int((number + draw.random()) * (steps - 30) / kills)
            wait_until(lambda target=target: latest(run) >= target, STARTING, f"step {target}")
            wait_until(lambda: len(workers_of(process.pid)) == 2, STARTING, "two workers")
            time.sleep(draw.random() * 0.3)
            ranks = workers_of(process.pid)
            victim = draw.randrange(2)
            os.kill(ranks[victim], signal.SIGKILL)
            lived.append(wait_until(lambda other=ranks[1 - victim]: not alive(other), 30, "the end of the survivor"))
        code, said = process.wait(timeout=240), said_in(run).read_text()
    assert code == 0, said
    if start is started:
        assert said.count("was ended by SIGKILL. All workers start again") == kills
    assert "Traceback" not in said
    one, other = RunFolder(folder / "straight"), RunFolder(run)
    assert one.weights.read_bytes() == other.weights.read_bytes()
    (a, _), (b, _) = one.checkpoints.latest(), other.checkpoints.latest()
    assert a is not None
    assert b is not None
    assert a.step == b.step == steps
    assert all(torch.equal(tensor, b.optimizer[name]) for name, tensor in a.optimizer.items())
    return lived


@pytest.mark.cli
@pytest.mark.long
@pytest.mark.timeout(900)
def test_workers_killed_again_and_again(tmp_path: Path, tally: Tally) -> None:
    lived = kill_and_compare(tmp_path, 5, 500)
    assert max(lived) < 30
    tally("R7", kills=5, longest_wait_seconds=round(max(lived), 1))


def listening(process: int) -> list[str]:
    """Addresses, as the kernel writes them, on which a process waits for connections."""
    sockets = set()
    for descriptor in Path(f"/proc/{process}/fd").iterdir():
        try:
            if match := re.fullmatch(r"socket:\[(\d+)\]", str(descriptor.readlink())):
                sockets.add(match[1])
        except OSError:
            continue
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{process}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in sockets:
                found.append(fields[1].partition(":")[0])
    return found


LOOPBACK = {"0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}


@pytest.mark.cli
def test_one_worker_is_told_to_stop_and_nothing_listens_but_on_the_loopback(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, "training.steps=1000000")
    run = tmp_path / "run"
    with started(recipe, run) as process:
        wait_until(lambda: latest(run) > 0, STARTING, "the first checkpoint")
        workers = workers_of(process.pid)
        heard = [address for worker in workers.values() for address in listening(worker)]
        assert heard
        assert set(heard) <= LOOPBACK
        assert listening(process.pid) == []
        os.kill(workers[1], signal.SIGTERM)
        code, said = process.wait(timeout=60), said_in(run).read_text()
    assert code == 143, said
    stopped = re.findall(r"regard: stopped by SIGTERM after step ([\d,]+); the state is saved", said)
    assert [int(step.replace(",", "")) for step in stopped] == [latest(run)]
    assert "Traceback" not in said


@pytest.mark.cli
@pytest.mark.long
def test_workers_save_and_leave_when_told_and_when_their_supervisor_is_killed(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, "training.steps=1000000", "training.save_every=100000")
    run = tmp_path / "run"
    before = 0
    for number, code in ((signal.SIGINT, 130), (signal.SIGUSR1, 138), (signal.SIGKILL, -9)):
        with started(recipe, run) as process:
            log = run / "log.jsonl"
            wait_until(lambda: len(workers_of(process.pid)) == 2, STARTING, "two workers")
            begun = log.stat().st_size if log.exists() else 0
            wait_until(lambda: log.exists() and log.stat().st_size > begun + 500, STARTING, "learning")  # noqa: B023
            workers = workers_of(process.pid)
            process.send_signal(number)
            process.wait(timeout=60)
            wait_until(lambda: not any(alive(worker) for worker in workers.values()), 20, "leaving")  # noqa: B023
        assert process.returncode == code
        assert latest(run) > before
        before = latest(run)
