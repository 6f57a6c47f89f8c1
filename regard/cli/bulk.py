"""The part of `regard predict` that predicts whole files into a folder, and shows how far it is."""

import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console

from regard.cli.console import duration, messages, one_line_bar
from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.run.bulk import Event
    from regard.run.crews import Crew
    from regard.run.model import Model
    from regard.run.parts import Counts
    from regard.run.shards import Asked

EVERY_SECONDS = 10.0


class BulkProgress:
    """An observer of bulk prediction: a bar on a terminal, a line now and then elsewhere."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.bar = one_line_bar(console)
        self.task = self.bar.add_task("predicting", total=None)
        self.total = self.before = self.done = self.first = 0
        self.began = self.spoke = time.monotonic()

    def __enter__(self) -> "BulkProgress":
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def __call__(self, event: "Event") -> None:
        from regard.run.bulk import Begun, Failed, Joined, Predicted

        match event:
            case Begun(lines=lines, finished=finished, place=place):
                self.total, self.before, self.began = lines, finished, time.monotonic()
                if finished and finished == lines:
                    self.console.print(f"{lines:,} lines, all of them finished before")
                else:
                    went = f", {finished:,} of them finished before" if finished else ""
                    self.console.print(f"{lines:,} lines{went}, {place}")
            case Predicted(lines=lines):
                self.done += lines
                self._tell()
                if not self.first:  # loading is over: from here on the pace is steady
                    self.first, self.began = lines, time.monotonic()
            case Failed(shard=shard, fault=fault, last=last):
                end = "given up" if last else "trying again"
                self.console.print(f"{shard}: {fault}; {end}", style="yellow")
            case Joined(output=output, lines=lines):
                self.console.print(f"{output}: {lines:,} lines")

    def _tell(self) -> None:
        pace = (self.done - self.first) / max(time.monotonic() - self.began, 1e-9)
        reached = self.before + self.done
        left = duration((self.total - reached) / pace)
        told = f"{reached:,} of {self.total:,} lines, {pace:,.1f} lines/s, {left} left"
        self.bar.update(self.task, total=self.total, completed=reached, description=told)
        if not self.console.is_terminal and time.monotonic() - self.spoke > EVERY_SECONDS:
            self.spoke = time.monotonic()
            self.console.print(told)


def hire(on: str, workers: int | None, *, model: "Model", asked: "Asked") -> "tuple[Crew, dict[str, str]]":
    """Who predicts (`here`, `ray` or `ray=ADDRESS`), and the checksums of the run. What cannot be asked is refused."""
    from regard.run.crews import Forks, Here, Processes
    from regard.run.forks import can_fork
    from regard.run.joint import JointModel, checksums
    from regard.run.shards import ShardPredictor

    where, _, address = on.partition("=")
    apart = where == "ray" or (workers is not None and not can_fork())
    if apart and (isinstance(model, JointModel) or model.averaged):
        raise UsageError(
            "other processes open one run as it is: leave out --workers and --on, or --with, --language-model and "
            "--average"
        )
    predictor = ShardPredictor(model, asked)
    run = Path(model.folder)
    files = checksums(model)
    if where == "ray":
        from regard.run.on_ray import OnRay

        return OnRay(run, asked, files=files, address=address or None, workers=workers), files
    if workers is None:
        return Here(predictor), files
    forked = Forks(predictor, workers=workers) if can_fork() else None
    return forked or Processes(run, asked, files=files, workers=workers), files


def predict_into(
    files: list[str],
    output: str,
    *,
    crew: "Crew",
    asked: "Asked",
    model: dict[str, str],
    shard_lines: int | None,
    overwrite: bool,
) -> "Counts":
    """`regard.run.bulk.predict_files`, with its progress shown."""
    from regard.run.bulk import predict_files

    with BulkProgress(messages()) as progress:
        return predict_files(
            files,
            output,
            crew=crew,
            asked=asked,
            model=model,
            shard_lines=shard_lines,
            overwrite=overwrite,
            observe=progress,
        )


def check_place(on: str) -> None:
    """Refuse a place that does not exist, before anything is loaded."""
    where, equals, address = on.partition("=")
    if on == "here" or (where == "ray" and bool(address) == bool(equals)):
        return
    raise UsageError(f"--on {on}: shards are predicted `here`, on `ray`, or on `ray=ADDRESS` of a cluster")
