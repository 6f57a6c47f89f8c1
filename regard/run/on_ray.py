"""A crew on a Ray cluster: actors of one CPU each, on whatever machines the cluster has.

The run travels to the workers as bytes and shards as JSON, so that machines need share no folder, only the same regard
and Ray. Where no cluster is named, one is started for this process alone: without dashboard and usage statistics, its
ports bound to the loopback interface, its files in a folder that goes with it.
"""

import importlib.util
import logging
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from regard.errors import ResourceError, UsageError
from regard.run.shards import Asked, Beginning, Outcome, Task, run_files

LOOPBACK: Final = "127.0.0.1"
REACHED_WITHIN: Final = 10.0
OBJECTS: Final = 256 * 2**20
"""Bytes of shared memory for objects in flight, beside the weights."""


class Worker:
    """What an actor runs: unpacks the run, loads it, and predicts shards."""

    def __init__(self, beginning: bytes, files: Mapping[str, bytes]) -> None:
        import torch

        torch.set_num_threads(1)
        begun = Beginning.decode(beginning)
        with tempfile.TemporaryDirectory(prefix="regard-") as folder:
            for name, content in files.items():
                Path(folder, name).write_bytes(content)
            self._predictor = Beginning(run=folder, files=begun.files, asked=begun.asked).predictor()

    def attempt(self, task: bytes) -> bytes:
        return self._predictor.attempt(Task.decode(task)).encode()


class OnRay:
    """A crew on the cluster at `address`, or on a cluster of its own on this machine."""

    def __init__(
        self,
        run: Path,
        asked: Asked,
        *,
        files: Mapping[str, str],
        address: str | None = None,
        workers: int | None = None,
    ) -> None:
        require_ray()
        self.address = address or os.environ.get("RAY_ADDRESS") or "local"
        self.size = workers or 1
        self._asked_workers = workers
        self._run, self._beginning = run, Beginning(run=str(run), files=dict(files), asked=asked).encode()
        self._idle: list[Any] = []
        self._running: dict[Any, tuple[Any, Task]] = {}
        self._folder: str | None = None
        self._shipped: Any = None

    @property
    def place(self) -> str:
        if self.address != "local":
            return f"on the Ray cluster at {self.address}"
        return "on a Ray cluster of its own on this machine (loopback only, no dashboard, no usage statistics)"

    def __enter__(self) -> Self:
        contents = {path.name: path.read_bytes() for path in run_files(self._run)}
        ray = self._connect(sum(map(len, contents.values())))
        self._shipped = ray.put(contents)
        if self._asked_workers is None:
            self.size = max(1, int(ray.cluster_resources().get("CPU", 1)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        import ray

        self._idle.clear()
        self._running.clear()
        self._shipped = None
        ray.shutdown()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def submit(self, task: Task) -> None:
        actor = self._idle.pop() if self._idle else self._new()
        self._running[actor.attempt.remote(task.encode())] = actor, task

    def next(self) -> tuple[Task, Outcome]:
        import ray

        ready, _ = ray.wait(list(self._running), num_returns=1)
        actor, task = self._running.pop(ready[0])
        try:
            outcome = Outcome.decode(ray.get(ready[0]))
        except ray.exceptions.RayTaskError as error:
            return task, Outcome(fault=_last_line(error))
        except ray.exceptions.RayError as error:
            return task, Outcome(fault=f"the worker was lost ({_last_line(error)})", lost=True)
        self._idle.append(actor)
        return task, outcome

    def _new(self) -> Any:
        import ray

        return ray.remote(num_cpus=1, max_restarts=0)(Worker).remote(self._beginning, self._shipped)

    def _connect(self, weight: int) -> Any:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        local = self.address == "local"
        if local and "ray" not in sys.modules:
            os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # the switch by which Ray binds to loopback
        import ray

        settings: dict[str, Any] = {}
        refuse_silent(self.address)
        if local:
            self._folder = tempfile.mkdtemp(prefix="regard-ray-")
            settings = {
                "num_cpus": self._asked_workers,
                "include_dashboard": False,
                "object_store_memory": OBJECTS + 2 * weight,
                "_node_ip_address": LOOPBACK,
                "_temp_dir": self._folder,
            }
        try:
            ray.init(address=self.address, logging_level=logging.ERROR, **settings)
        except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
            self._leave()
            raise unusable(self.address, error) from error
        nodes: list[dict[str, Any]] = ray.nodes() if local else []  # type: ignore[no-untyped-call]
        if any(node["NodeManagerAddress"] != LOOPBACK for node in nodes):
            self._leave()
            raise UsageError(
                "Ray was imported before regard could bind it to the loopback interface. Leave out `import ray`, or "
                "start a cluster and give its address"
            )
        return ray

    def _leave(self) -> None:
        self.__exit__(None, None, None)


def require_ray() -> None:
    """Refuse where Ray is not installed, and say how to get it."""
    if importlib.util.find_spec("ray") is None:
        raise UsageError("--on ray needs Ray, which is not installed: pip install 'ray>=2.60'")


def refuse_silent(address: str) -> None:
    """Refuse an address where nothing listens: Ray itself would try it for many minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=REACHED_WITHIN).close()
    except (OSError, OverflowError) as error:
        raise unusable(address, error) from error


def unusable(address: str, error: Exception) -> ResourceError:
    """What to tell where a cluster cannot be reached, or does not fit."""
    return ResourceError(
        f"the Ray cluster at {address} cannot be used ({_last_line(error)}). Is it running, with the same versions of "
        "Ray and Python? `ray status --address ADDRESS` tells"
    )


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
