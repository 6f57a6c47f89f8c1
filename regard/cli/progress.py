"""Showing a training as it goes: a bar on a terminal, a line now and then elsewhere."""

import math
import time
from types import TracebackType

from rich.console import Console
from rich.progress import TaskID

from regard.cli.console import duration, one_line_bar, size, terminal_width
from regard.process import memory_peak
from regard.report import display_width, shorten, visible
from regard.training import (
    Ended,
    Event,
    LeftOut,
    Sampled,
    Saved,
    Settled,
    Shown,
    Skipped,
    Started,
    StartedFrom,
    Stepped,
    TimeLeft,
    Validated,
    Warned,
)

EVERY_SECONDS = 10.0


class TrainingProgress:
    """An observer of the training loop."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.bar = one_line_bar(console)
        self.task: TaskID | None = None
        self.time = TimeLeft()
        self.sampling = 0.0
        self.left_out = False
        self.spoke = time.monotonic()

    def __enter__(self) -> "TrainingProgress":
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def __call__(self, event: Event) -> None:
        self.time(event)
        match event:
            case StartedFrom(run=run, lines=lines):
                for line in (f"starting from {run}", *(f"· {line}" for line in lines)):
                    self.console.print(line)
            case LeftOut(lines=lines):
                self.left_out = True
                for line in lines:
                    self.console.print(line)
            case Settled(lines=lines):
                for line in lines:
                    self.console.print(line)
            case Started():
                self._started(event)
            case Stepped():
                self._stepped(event)
            case Validated():
                self._validated(event)
            case Sampled():
                self._sampled(event)
            case Warned(progress=progress, text=text):
                self.console.print(f"warning at step {progress.step:,}: {visible(text)}", style="yellow")
            case Skipped(reason=reason):
                self.console.print(f"an update was left out, its numbers were not finite: {reason}", style="yellow")
            case Ended():
                self._ended(event)
            case Saved(progress=progress):
                self.console.print(f"saved step {progress.step:,}", style="dim")

    def _started(self, event: Started) -> None:
        step, total = event.progress.step, event.total_steps
        for damage in event.damages:
            self.console.print(f"{damage}; it is set aside", style="yellow")
        if step and total is not None and step > total:
            self.console.print(
                f"{step:,} steps are done already, more than the {total:,} that are asked for: nothing is left to "
                "train, and the run stays as it is",
                style="yellow",
            )
        elif step:
            self.console.print(f"going on from step {step:,}")
        elif event.damages:
            self.console.print("no checkpoint is left to go on from; starting anew", style="yellow")
        if event.estimated_seconds:
            steps = f"{event.total_steps:,} steps, " if event.total_steps else ""
            known = event.validation_seconds is not None or event.total_steps is None
            without = "" if known else " without validation"
            self.console.print(f"training: {steps}at most about {duration(max(event.estimated_seconds, 1))}{without}")
        self.task = self.bar.add_task("training", total=event.total_steps, completed=step)

    def _stepped(self, event: Stepped) -> None:
        step, left = event.progress.step, self.time.seconds
        told = (
            f"step {step:,}"
            + ("" if left is None else f", {duration(left)} left")
            + f", loss {event.loss:.3f}, {event.tokens_per_second:,.0f} tokens/s"
            + (f", {size(event.memory)}" if event.memory else "")
        )
        if self.task is not None:
            self.bar.update(self.task, completed=step, description=told)
        if not self.console.is_terminal and time.monotonic() - self.spoke > EVERY_SECONDS:
            self.spoke = time.monotonic()
            self.console.print(told)

    def _validated(self, event: Validated) -> None:
        error = event.metrics.get("squared_error")  # of numbers, which have no perplexity
        others = [f", {name} {value:.2f}" for name, value in event.metrics.items() if name != "squared_error"]
        perplexity = f"perplexity {math.exp(min(event.loss, 50)):,.2f}"
        fit = perplexity if error is None else f"squared error {error:,.4g} (root {error**0.5:,.4g})"
        mark = "  ← best" if event.gained else ""
        told = f"validation loss {event.loss:.4f}, {fit}{''.join(others)}{mark}"
        self.console.print(f"step {event.progress.step:,}: {told}")

    def _sampled(self, event: Sampled) -> None:
        self.sampling += event.seconds
        for shown in event.samples:
            for line in sample_lines(shown, terminal_width()):
                self.console.print(line, style="dim")

    def _ended(self, event: Ended) -> None:
        self.bar.stop()
        start = self.time.start
        seconds = event.progress.seconds - (0.0 if start is None else start.progress.seconds)
        shares = [("validation", self.time.validating), ("of it the outputs shown", self.sampling)]
        parts = [f"{what} {took / seconds:.1%}" for what, took in shares if seconds > 0 and took / seconds >= 0.0005]
        if peak := memory_peak():
            parts.append(f"memory at most {size(peak)}")
        also = f" ({', '.join(parts)})" if parts else ""
        self.console.print(f"training ended after {duration(event.progress.seconds)}{also}: {event.reason}; evaluating")


def sample_lines(shown: Shown, width: int) -> list[str]:
    """`source → output`, ✓ where it is the reference and the reference where it is not, in lines of so many columns."""
    source, output = (visible(text) or "(nothing)" for text in (shown.source, shown.output))
    if shown.reference is None:
        parts = [f"→ {output}"] if not shown.source else [source, f"→ {output}"]
    elif shown.reference == shown.output:
        parts = [source, f"→ {output} ✓"]
    else:
        parts = [source, f"→ {output}", f"≠ {visible(shown.reference)}"]
    line = "  " + " ".join(parts)
    if display_width(line) < width:
        return [line]
    first, *rest = parts
    return [shorten(f"  {first}", width - 1), *(shorten(f"    {part}", width - 1) for part in rest)]
