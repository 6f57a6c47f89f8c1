"""R7 by torchrun, as docs/distributed.md has it: two machines that meet, a process that is killed, signals."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from regard.process import loopback
from tests.reliability.conftest import Tally
from tests.reliability.test_lost_workers import (
    STARTING,
    alive,
    kill_and_compare,
    latest,
    said_in,
    started,
    wait_until,
    workers_of,
    write_recipe,
)

SIGNALS = "SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1"


@contextmanager
def torchrun(
    recipe: Path, run: Path, *options: str, nodes: int = 1, each: int = 2, port: int = 0, said: Path | None = None
) -> Iterator["subprocess.Popen[bytes]"]:
    """The documented command on one of some machines, which are all this one; its processes are gone afterwards."""
    meeting = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"localhost:{port}", "--local-addr", "localhost"]
    command = [sys.executable, "-m", "torch.distributed.run", "--nnodes", str(nodes), "--nproc-per-node", str(each)]
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": loopback(),
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    }
    with (said or said_in(run)).open("wb") as file:
        process = subprocess.Popen(
            [*command, *meeting, *options, "-m", "regard", "train", str(recipe), f"run={run}"],
            stdout=subprocess.DEVNULL,
            stderr=file,
            env=environment,
        )
    try:
        yield process
    finally:
        for worker in workers_of(process.pid).values():
            os.kill(worker, signal.SIGKILL)
        process.kill()
        process.wait()


def free_port() -> int:
    with socket.create_server(("localhost", 0)) as server:
        return int(server.getsockname()[1])


@pytest.mark.cli
def test_two_machines_learn_what_two_workers_do(tmp_path: Path) -> None:
    recipe, port = write_recipe(tmp_path, "training.steps=20"), free_port()
    first, second = tmp_path / "first.said", tmp_path / "second.said"
    with (
        torchrun(recipe, tmp_path / "run", nodes=2, each=1, port=port, said=first) as one,
        torchrun(recipe, tmp_path / "run", nodes=2, each=1, port=port, said=second) as other,
    ):
        codes = one.wait(timeout=STARTING), other.wait(timeout=STARTING)
    told = first.read_text() + second.read_text()
    assert codes == (0, 0), told
    assert told.count("the model is in") == 1
    with started(recipe, tmp_path / "workers") as process:
        assert process.wait(timeout=STARTING) == 0, said_in(tmp_path / "workers").read_text()
    assert (tmp_path / "run/weights.safetensors").read_bytes() == (
        tmp_path / "workers/weights.safetensors"
    ).read_bytes()


@pytest.mark.cli
@pytest.mark.long
@pytest.mark.timeout(900)
def test_processes_of_torchrun_killed_again_and_again(tmp_path: Path, tally: Tally) -> None:
    lived = kill_and_compare(tmp_path, 5, 500, torchrun)
    assert max(lived) < 30
    tally("R7", kills=5, kills_under_torchrun=5)


@pytest.mark.cli
@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_to_torchrun_lets_its_processes_save(number: signal.Signals, tmp_path: Path) -> None:
    """As Slurm sends it before the time is over; without the option torchrun does not hand on SIGUSR1."""
    recipe = write_recipe(tmp_path, "training.steps=1000000", "training.save_every=100000")
    run = tmp_path / "run"
    with torchrun(recipe, run, "--max-restarts", "3", "--signals-to-handle", SIGNALS) as process:
        log = run / "log.jsonl"
        wait_until(lambda: log.exists() and log.stat().st_size > 3000, STARTING, "learning")
        before, workers = latest(run), workers_of(process.pid)
        process.send_signal(number)
        process.wait(timeout=60)
        wait_until(lambda: not any(alive(worker) for worker in workers.values()), 20, "leaving")
    assert latest(run) > before
    assert f"stopped by {number.name} after step {latest(run):,}; the state is saved" in said_in(run).read_text()
