"""`report.html` while a training runs: written anew after validations, and once more when it is broken off."""

import time
from contextlib import suppress
from types import TracebackType
from typing import Literal

from regard.errors import RegardError
from regard.files import replace_file
from regard.recipe import dump_recipe
from regard.report import ReportData, Status, read_log, render_report
from regard.run.folder import RunFolder
from regard.run.model import Model
from regard.run.preparation import Prepared
from regard.run.reporting import data_facts, early_outputs, model_facts, start_facts
from regard.training import Ended, Event, Interrupted, Progress, Saved, Started, TimeLeft, Validated, Warned

EVERY_SECONDS = 20.0
SHARE = 0.01
"""Of the time, at most, goes into writing the page."""


class LiveReport:
    """An observer, to be told after the log is written; and a context, so that a broken-off training is said to be so.

    A page is written when a validation is over and its outputs are known, which is when the loop saves; not within 20
    seconds of the last one, nor before 100 times the time that one took.
    """

    def __init__(self, folder: RunFolder, model: Model, prepared: Prepared) -> None:
        self.folder = folder
        self.model = model
        self.prepared = prepared
        self.time = TimeLeft()
        self.progress = Progress()
        self.total: int | None = None
        self.due = False
        self.next = 0.0

    def __call__(self, event: Event) -> None:
        self.time(event)
        self.progress = event.progress
        match event:
            case Started(total_steps=total):
                self.total = total
                self._write("training")
            case Validated() | Warned():
                self.due = True
            case Saved() if self.due and time.monotonic() >= self.next:
                self._write("training")
            case Ended(reason=reason):
                self._write("evaluating", reason)
            case _:
                pass

    def __enter__(self) -> "LiveReport":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and self.folder.log.exists():
            self._write("interrupted", _why(error))

    def _write(self, state: Literal["training", "evaluating", "interrupted"], reason: str = "") -> None:
        began = time.monotonic()
        with suppress(RegardError):  # a page that cannot be written is no reason to stop; log and checkpoints are
            replace_file(self.folder.report, render_report(self._data(state, reason)).encode())
        took = time.monotonic() - began
        self.due, self.next = False, time.monotonic() + max(EVERY_SECONDS, took / SHARE)

    def _data(self, state: Literal["training", "evaluating", "interrupted"], reason: str) -> ReportData:
        history, recipe = read_log(self.folder.log), self.model.recipe
        return ReportData(
            title=f"{recipe.task}: {self.folder.path.name}",
            run=str(self.folder.path),
            recipe=dump_recipe(recipe),
            facts=[*model_facts(self.model), *start_facts(history)],
            data=data_facts(recipe, self.prepared),
            findings=self.prepared.ledger.summary().splitlines(),
            training=history.training,
            validation=history.validation,
            best_step=self.progress.best_step or None,
            cautions=history.warnings,
            early=early_outputs(history.samples),
            status=Status(
                state=state,
                step=self.progress.step,
                total=self.total,
                seconds=self.progress.seconds,
                left=self.time.seconds,
                written=time.time(),
                again=round(EVERY_SECONDS),
                reason=reason,
            ),
        )


def _why(error: BaseException) -> str:
    if isinstance(error, Interrupted | KeyboardInterrupt):
        return "stopped by a signal"
    return " ".join(str(error).split()) or type(error).__name__
