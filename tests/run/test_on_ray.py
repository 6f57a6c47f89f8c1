"""Shards on a Ray cluster of two workers: the same bytes, whoever is killed."""

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from regard.errors import ModelError, ResourceError, UsageError
from regard.run.on_ray import OnRay, Worker, refuse_silent
from regard.run.shards import Asked, Beginning, Outcome, ShardPredictor, Task, fingerprint, run_files
from regard.run.training import Trained
from tests.toys import toy_sources

pytest.importorskip("ray")

LINES = 1200
LISTENS = "0A"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "in.txt"
    path.write_text("".join(f"{line}\n" for line in (toy_sources(100) * LINES)[:LINES]))
    return path


@pytest.fixture(autouse=True)
def _own_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a killed driver leaves is deleted. Names of sockets must be short, so this is not `tmp_path`."""
    with tempfile.TemporaryDirectory(prefix="r-", ignore_cleanup_errors=True) as folder:
        monkeypatch.setenv("TMPDIR", folder)
        yield


def expected(trained: Trained, file: Path) -> bytes:
    texts = file.read_text().splitlines()
    predictions = trained.model.predict_many(texts, options=trained.model.options(beam=1))
    return "".join(f"{prediction.text}\n" for prediction in predictions).encode()


def start(trained: Trained, file: Path, output: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "regard.cli.main", "predict", str(trained.model.folder), str(file), "--beam", "1"]
    command += ["-o", f"{output}/", "--on", "ray", "--workers", "2", "--shard-lines", "4"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment.pop("RAY_ADDRESS", None)
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


def wait_for_parts(process: "subprocess.Popen[str]", output: Path, more_than: int) -> None:
    until = time.monotonic() + 120
    while len(list((output / ".bulk").glob("*.part"))) <= more_than:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.02)


def family(process: int) -> list[int]:
    """A process and all that come from it."""
    found = [process]
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        for child in task.read_text().split():
            found += family(int(child))
    return found


def is_worker(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().startswith(b"ray::Worker")
    except OSError:
        return False


def listening(processes: list[int]) -> set[str]:
    """Addresses on which processes listen, as /proc writes them."""
    owned: set[str] = set()
    for process in processes:
        for handle in Path(f"/proc/{process}/fd").glob("*"):
            try:
                owned.add(handle.readlink().name)
            except OSError:
                continue
    addresses = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for row in Path(table).read_text().splitlines()[1:]:
            cells = row.split()
            if cells[3] == LISTENS and f"socket:[{cells[9]}]" in owned:
                addresses.add(cells[1].split(":")[0])
    return addresses


LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


@pytest.mark.long
def test_a_worker_is_killed_and_nothing_listens_beyond_loopback(trained: Trained, file: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    with start(trained, file, output) as driver:
        wait_for_parts(driver, output, 2)
        processes = family(driver.pid)
        addresses = listening(processes)
        workers = [process for process in processes if is_worker(process)]
        os.kill(workers[0], signal.SIGKILL)
        _, told = driver.communicate(timeout=200)
    assert driver.returncode == 0, told
    assert len(workers) == 2
    assert addresses
    assert addresses <= LOOPBACK
    assert "on a Ray cluster of its own on this machine (loopback only, no dashboard, no usage statistics)" in told
    assert "the worker was lost (" in told
    assert "trying again" in told
    assert (output / "in.txt").read_bytes() == expected(trained, file)


@pytest.mark.long
def test_the_driver_is_killed_and_started_again(trained: Trained, file: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    finished = 0
    for _ in range(3):
        with start(trained, file, output) as driver:
            wait_for_parts(driver, output, finished + 2)
            workers = [process for process in family(driver.pid) if is_worker(process)]
            driver.kill()
            driver.communicate()
        parts = len(list((output / ".bulk").glob("*.part")))
        assert finished < parts < LINES // 4
        finished = parts
        until = time.monotonic() + 60
        while any(map(is_worker, workers)):
            assert time.monotonic() < until, "workers outlived their driver"
            time.sleep(0.1)
    with start(trained, file, output) as driver:
        _, told = driver.communicate(timeout=300)
    assert driver.returncode == 0, told
    assert f"{LINES:,} lines, {finished * 4:,} of them finished before" in told
    assert (output / "in.txt").read_bytes() == expected(trained, file)


def test_a_worker_needs_nothing_but_what_it_is_sent(trained: Trained) -> None:
    run = trained.model.folder
    asked = Asked(options=trained.model.options(beam=1))
    files = {path.name: path.read_bytes() for path in run_files(run)}
    beginning = Beginning(run="/not/on/this/machine", files=fingerprint(run), asked=asked)
    task = Task(3, "in.txt", 8, ("a b c", "", "h g"))
    outcome = Outcome.decode(Worker(beginning.encode(), files).attempt(task.encode()))
    assert outcome.answer == ShardPredictor(trained.model, asked).answer(task)
    with pytest.raises(ModelError, match=r"recipe\.yaml: has changed since"):
        Worker(beginning.encode(), {**files, "recipe.yaml": files["recipe.yaml"] + b"\n"})


def test_without_ray_it_says_how_to_get_it(trained: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"--on ray needs Ray, which is not installed: pip install 'ray>=2\.60'"):
        OnRay(trained.model.folder, Asked(options=trained.model.options()), files={})


def test_an_address_where_nothing_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        refuse_silent(f"127.0.0.1:{port}")
        refuse_silent(f"ray://127.0.0.1:{port}")
    for address in (f"127.0.0.1:{port}", "127.0.0.1:99999999"):
        with pytest.raises(ResourceError, match=f"the Ray cluster at {address} cannot be used") as caught:
            refuse_silent(address)
        assert "Is it running, with the same versions of Ray and Python?" in str(caught.value)
    refuse_silent("auto")
    refuse_silent("local")


def test_where_a_cluster_is_looked_for(trained: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    def crew(address: str | None) -> OnRay:
        return OnRay(trained.model.folder, Asked(options=trained.model.options()), files={}, address=address)

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert crew(None).address == "local"
    assert crew("host:6379").place == "on the Ray cluster at host:6379"
    monkeypatch.setenv("RAY_ADDRESS", "head:6379")
    assert (crew(None).address, crew("host:6379").address) == ("head:6379", "host:6379")
