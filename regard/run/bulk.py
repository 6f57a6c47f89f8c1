"""Bulk prediction: files are cut into shards, a crew predicts them, and the parts are joined in order.

This process alone reads inputs and writes outputs; it holds the shards that are being predicted and nothing else. A
shard that is finished stays finished: after a crash the same call goes on with the others. What the parts belong to is
in the manifest, and anything else is refused.
"""

import fcntl
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from regard.data import Ledger
from regard.data.lines import STDIN, refuse_unreadable
from regard.errors import BusyError, RegardError, ResourceError, UsageError
from regard.files import cannot_write
from regard.run.crews import Crew
from regard.run.manifest import Input, Manifest, differences, plan
from regard.run.parts import Counts, Parts
from regard.run.shards import SHARD_BYTES, SHARD_LINES, Asked, Task

WORK: Final = ".bulk"
RETRIES: Final = 2
HOPELESS: Final = 3
"""After so many shards in a row that failed every time, and none that did not, nothing more is tried."""
TOLD: Final = 10


@dataclass(frozen=True, slots=True)
class Begun:
    """Lines in all, and those that were finished before."""

    lines: int
    finished: int
    place: str


@dataclass(frozen=True, slots=True)
class Predicted:
    """A shard of so many lines is on the disk."""

    lines: int


@dataclass(frozen=True, slots=True)
class Failed:
    """A shard failed, and why; it is tried again unless `last`."""

    shard: str
    fault: str
    last: bool


@dataclass(frozen=True, slots=True)
class Joined:
    """An output is complete."""

    output: Path
    lines: int


Event = Begun | Predicted | Failed | Joined


@dataclass(frozen=True, slots=True)
class Destination:
    """Where outputs go. `folder` holds them, `work` what is needed until then, `names` follow the inputs."""

    folder: Path
    work: Path
    files: tuple[tuple[Path, str], ...]


def destination(files: Sequence[str], output: str) -> Destination:
    """One file goes to the file `output`, or into it if that is a folder or ends in `/`; several go into a folder.

    Outputs in a folder are called as their inputs are, without `.gz`.
    """
    for name in files:
        if name == STDIN:
            raise UsageError(
                "standard input can be read only once, and shards must be read again after a crash: save it in a file "
                "first, or leave out --output and let the shell write (> FILE)"
            )
        refuse_unreadable(name)
    target = Path(output)
    if len(files) == 1 and not (output.endswith("/") or target.is_dir()):
        folder, work = target.parent, target.with_name(f".{target.name}{WORK}")
        pairs = [(Path(files[0]), target.name)]
    else:
        folder, work = target, target / WORK
        pairs = [(Path(name), Path(name).name.removesuffix(".gz")) for name in files]
    seen: dict[str, Path] = {}
    for path, name in pairs:
        if name in seen:
            raise UsageError(
                f"{seen[name]} and {path} would both be written to {folder / name}; rename one, or call this twice "
                "with two folders"
            )
        seen[name] = path
        for given, _ in pairs:
            if (folder / name).exists() and (folder / name).samefile(given):
                raise UsageError(f"{folder / name}: is an input, and the output would write over it; choose another")
    return Destination(folder, work, tuple(pairs))


def predict_files(
    files: Sequence[str],
    output: str,
    *,
    crew: Crew,
    asked: Asked,
    model: Mapping[str, str],
    shard_lines: int | None = None,
    overwrite: bool = False,
    observe: Callable[[Event], None] = lambda _: None,
) -> Counts:
    """Predict whole files; output i has the lines for input i, in order. `model` is the run's `fingerprint`.

    The same call after a crash goes on. `overwrite` begins anew where something else is in the way.
    """
    target = destination(files, output)
    with _held(target.work):
        manifest = _begin(target, asked=asked, model=model, shard_lines=shard_lines, overwrite=overwrite)
        return _Bulk(target, manifest, observe).run(crew)


@contextmanager
def _held(work: Path) -> Iterator[None]:
    """Hold the work folder; a second process is refused. The lock ends with the process."""
    try:
        work.mkdir(parents=True, exist_ok=True)
        file = (work / "lock").open("a+")
    except OSError as error:
        raise cannot_write(work, 0, error) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            raise BusyError(
                f"{work.parent}: another process is predicting into it (process {holder}); wait for it, or choose "
                "another --output"
            ) from error
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def _begin(
    target: Destination, *, asked: Asked, model: Mapping[str, str], shard_lines: int | None, overwrite: bool
) -> Manifest:
    """The manifest to go on with, or a new one."""
    path = target.work / "manifest.json"
    try:
        manifest = Manifest.read(path)
    except UsageError:
        if not overwrite:
            raise
        manifest = None
    if manifest is not None:
        changed = list(differences(manifest, target.files, model=model, asked=asked, shard_lines=shard_lines))
        if not changed:
            inputs = zip(manifest.inputs, target.files, strict=True)
            return replace(manifest, inputs=tuple(replace(one, path=str(given)) for one, (given, _) in inputs))
        if not overwrite:
            raise UsageError(
                f"{target.folder}: predictions were begun here with something else: {'; '.join(changed)}. Give the "
                "same again to go on, choose another --output, or begin anew with --overwrite"
            )
    outputs = [target.folder / name for _, name in target.files]
    taken = [str(output) for output in outputs if output.exists()]
    if taken and not overwrite:
        raise UsageError(
            f"{', '.join(taken)}: there is a file already; choose another --output, or write over it with --overwrite"
        )
    lines = SHARD_LINES if shard_lines is None else shard_lines
    manifest = plan(target.files, model=model, asked=asked, shard_lines=lines, shard_bytes=SHARD_BYTES)
    try:
        path.unlink(missing_ok=True)  # first: parts without a manifest are nobody's
        Parts(target.work).clear()
        for output in outputs:
            output.unlink(missing_ok=True)
    except OSError as error:
        raise cannot_write(target.folder, 0, error) from error
    manifest.write(path)
    return manifest


class _Bulk:
    """One call of `predict_files`, under its lock."""

    def __init__(self, target: Destination, manifest: Manifest, observe: Callable[[Event], None]) -> None:
        self.target = target
        self.manifest = manifest
        self.observe = observe
        self.parts = Parts(target.work)
        self.waiting: dict[int, set[int]] = {}
        self.failed: list[tuple[str, str, bool]] = []
        self.hopeless = 0

    def run(self, crew: Crew) -> Counts:
        done: dict[int, Counts] = {}
        for number, one in enumerate(self.manifest.inputs):
            counts = self.parts.joined(number, self._output(one))
            if counts is None:
                self.waiting[number] = {shard.number for shard in one.shards if not self.parts.holds(shard)}
            else:
                done[number] = counts
        inputs = self.manifest.inputs
        left = sum(
            shard.lines
            for number, wanted in self.waiting.items()
            for shard in inputs[number].shards
            if shard.number in wanted
        )
        self.observe(Begun(self.manifest.lines, self.manifest.lines - left, crew.place))
        done |= {number: self._join(number) for number, wanted in self.waiting.items() if not wanted}
        if left:
            with crew:
                done |= dict(self._predict(crew))
        self._refuse_failures()
        total = Counts()
        for number in range(len(inputs)):
            total.include(done[number])
        return total

    def _predict(self, crew: Crew) -> Iterator[tuple[int, Counts]]:
        """Predict every shard that waits; gives the files that become complete."""
        tasks = self._tasks()
        again: deque[tuple[int, Task, Ledger]] = deque()
        running: dict[int, tuple[int, Ledger]] = {}
        attempts: dict[int, int] = {}
        while True:
            while len(running) < crew.size and self.hopeless < HOPELESS:
                given = again.popleft() if again else next(tasks, None)
                if given is None:
                    break
                number, task, ledger = given
                running[task.number] = number, ledger
                crew.submit(task)
            if not running:
                return
            task, outcome = crew.next()
            number, ledger = running.pop(task.number)
            if outcome.answer is None:
                attempts[task.number] = attempts.get(task.number, 0) + 1
                last = attempts[task.number] > RETRIES
                self.observe(Failed(task.lines, outcome.fault, last))
                if last:
                    self.failed.append((f"shard {task.number} ({task.lines})", outcome.fault, outcome.lost))
                    self.hopeless += 1
                else:
                    again.append((number, task, ledger))
                continue
            self.hopeless = 0
            attempts.pop(task.number, None)
            self.parts.write(task.number, outcome.answer, ledger)
            self.observe(Predicted(len(task.texts)))
            self.waiting[number].discard(task.number)
            if not self.waiting[number]:
                yield number, self._join(number)

    def _tasks(self) -> Iterator[tuple[int, Task, Ledger]]:
        for number, wanted in self.waiting.items():
            if wanted:
                for task, ledger in self.manifest.inputs[number].tasks(set(wanted)):
                    yield number, task, ledger

    def _join(self, number: int) -> Counts:
        one = self.manifest.inputs[number]
        counts = self.parts.join(number, one, self._output(one))
        self.observe(Joined(self._output(one), one.lines))
        return counts

    def _output(self, one: Input) -> Path:
        return self.target.folder / one.output

    def _refuse_failures(self) -> None:
        if not self.failed:
            return
        told = "; ".join(f"{shard}: {fault}" for shard, fault, _ in self.failed[:TOLD])
        more = f"; and {len(self.failed) - TOLD:,} more" if len(self.failed) > TOLD else ""
        left = sum(map(len, self.waiting.values())) - len(self.failed)
        untried = f" {left:,} further shards were not tried." if left else ""
        text = (
            f"{self.target.folder}: not complete. Failed {RETRIES + 1} times: {told}{more}.{untried} Finished shards "
            "are kept; the same command tries the others again"
        )
        raise ResourceError(text) if all(lost for _, _, lost in self.failed) else RegardError(text)
