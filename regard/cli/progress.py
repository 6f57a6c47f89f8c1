"""Showing a training as it goes: a bar on a terminal, a line now and then elsewhere."""

import math
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Column

from regard.cli.console import duration
from regard.training import Ended, Event, Saved, Skipped, Started, StartedFrom, Stepped, Validated

EVERY_SECONDS = 10.0


class TrainingProgress:
    """An observer of the training loop."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.bar = Progress(
            BarColumn(bar_width=None, table_column=Column(ratio=1, min_width=4)),
            TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True)),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self.task: TaskID | None = None
        self.total: int | None = None
        self.began = self.spoke = time.monotonic()
        self.first_step = 0

    def __enter__(self) -> "TrainingProgress":
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def __call__(self, event: Event) -> None:
        match event:
            case StartedFrom(run=run, lines=lines):
                for line in (f"starting from {run}", *(f"· {line}" for line in lines)):
                    self.console.print(line)
            case Started():
                self._started(event)
            case Stepped():
                self._stepped(event)
            case Validated():
                self._validated(event)
            case Skipped(reason=reason):
                self.console.print(f"an update was left out, its numbers were not finite: {reason}", style="yellow")
            case Ended(reason=reason, progress=progress):
                self.bar.stop()
                self.console.print(f"training ended after {duration(progress.seconds)}: {reason}; evaluating")
            case Saved():
                pass

    def _started(self, event: Started) -> None:
        self.total, self.first_step, self.began = event.total_steps, event.progress.step, time.monotonic()
        for damage in event.damages:
            self.console.print(f"{damage}; it is set aside", style="yellow")
        if event.progress.step:
            self.console.print(f"going on from step {event.progress.step:,}")
        elif event.damages:
            self.console.print("no checkpoint is left to go on from; starting anew", style="yellow")
        if event.estimated_seconds:
            steps = f"{event.total_steps:,} steps, " if event.total_steps else ""
            self.console.print(
                f"training: {steps}at most about {duration(max(event.estimated_seconds, 1))} without validation"
            )
        self.task = self.bar.add_task("training", total=event.total_steps, completed=self.first_step)

    def _stepped(self, event: Stepped) -> None:
        step = event.progress.step
        left = ""
        if self.total and step > self.first_step:
            pace = (time.monotonic() - self.began) / (step - self.first_step)
            left = f"{duration(max(0, self.total - step) * pace)} left, "
        told = f"step {step:,}, {left}loss {event.loss:.3f}, {event.tokens_per_second:,.0f} tokens/s"
        if self.task is not None:
            self.bar.update(self.task, completed=step, description=told)
        if not self.console.is_terminal and time.monotonic() - self.spoke > EVERY_SECONDS:
            self.spoke = time.monotonic()
            self.console.print(told)

    def _validated(self, event: Validated) -> None:
        metrics = "".join(f", {name} {value:.2f}" for name, value in event.metrics.items())
        perplexity = math.exp(min(event.loss, 50))
        mark = "  ← best" if event.gained else ""
        told = f"validation loss {event.loss:.4f}, perplexity {perplexity:,.2f}{metrics}{mark}"
        self.console.print(f"step {event.progress.step:,}: {told}")
