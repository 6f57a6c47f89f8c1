"""Reading `log.jsonl`: one JSON object a line, told apart by "event".

A crash may tear the last line, and a resumed run appends after it; such lines are skipped and their numbers kept. A run
that resumes from an earlier step writes that step again: what it writes replaces what the lost future had written.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from regard.errors import ModelError
from regard.report.contents import Caution, TrainingPoint, ValidationPoint

_Point = TypeVar("_Point", TrainingPoint, ValidationPoint)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSample:
    """An output that was shown during training."""

    step: int
    source: str
    reference: str | None
    output: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogHistory:
    """A run's log, steps rising; `unreadable` are numbers of lines, `unknown` counts events of other names."""

    training: tuple[TrainingPoint, ...]
    validation: tuple[ValidationPoint, ...]
    samples: tuple[LogSample, ...]
    saved: tuple[int, ...]
    starts: tuple[Mapping[str, Any], ...]
    end: Mapping[str, Any] | None
    unreadable: tuple[int, ...]
    unknown: Mapping[str, int]
    started_from: Mapping[str, Any] | None = None
    warnings: tuple[Caution, ...] = ()


def read_log(path: Path) -> LogHistory:
    """Read a log; a missing file is an error, a damaged line is not."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ModelError(
            f"{path}: cannot read the log of the run ({error.strerror}); training writes it as log.jsonl"
        ) from error
    reader = _Reader()
    for number, line in enumerate(content.split(b"\n"), start=1):
        if line.strip():
            reader.read(number, line)
    return reader.history()


class _Reader:
    """Collects events in the order of the file."""

    def __init__(self) -> None:
        self.training: list[TrainingPoint] = []
        self.validation: list[ValidationPoint] = []
        self.samples: list[LogSample] = []
        self.saved: list[int] = []
        self.starts: list[Mapping[str, Any]] = []
        self.end: Mapping[str, Any] | None = None
        self.unreadable: list[int] = []
        self.unknown: dict[str, int] = {}
        self.started_from: Mapping[str, Any] | None = None
        self.warnings: list[Caution] = []

    def read(self, number: int, line: bytes) -> None:
        """Take in one line; what is not an event with the fields it needs is unreadable."""
        try:
            entry = json.loads(line)
            self._take(str(entry["event"]), entry)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            self.unreadable.append(number)

    def _take(self, event: str, entry: Mapping[str, Any]) -> None:
        match event:
            case "start":
                self.starts.append(entry)
                self.end = None
                if isinstance(entry.get("step"), int):
                    self._rewind(entry["step"])
            case "started_from":
                self.started_from = {"run": str(entry["run"]), "lines": [str(line) for line in entry["lines"]]}
            case "step":
                _append(self.training, _training_point(entry))
            case "validation":
                _append(self.validation, _validation_point(entry))
            case "sample":
                self.samples.append(_sample(entry))
            case "saved":
                self.saved.append(int(entry["step"]))
            case "warning":
                self.warnings.append(Caution(step=int(entry["step"]), kind=str(entry["kind"]), text=str(entry["text"])))
            case "skipped" | "left_out" | "settled":
                pass
            case "end":
                self.end = entry
            case _:
                self.unknown[event] = self.unknown.get(event, 0) + 1

    def _rewind(self, step: int) -> None:
        self.training = [point for point in self.training if point.step <= step]
        self.validation = [point for point in self.validation if point.step <= step]
        self.samples = [sample for sample in self.samples if sample.step <= step]
        self.warnings = [warning for warning in self.warnings if warning.step <= step]
        self.saved = [saved for saved in self.saved if saved <= step]

    def history(self) -> LogHistory:
        """What was read."""
        return LogHistory(
            training=tuple(self.training),
            validation=tuple(self.validation),
            samples=tuple(self.samples),
            saved=tuple(self.saved),
            starts=tuple(self.starts),
            end=self.end,
            unreadable=tuple(self.unreadable),
            unknown=self.unknown,
            started_from=self.started_from,
            warnings=tuple(self.warnings),
        )


def _append(points: list[_Point], point: _Point) -> None:
    while points and points[-1].step >= point.step:
        points.pop()
    points.append(point)


def _training_point(entry: Mapping[str, Any]) -> TrainingPoint:
    return TrainingPoint(
        step=int(entry["step"]),
        loss=float(entry["loss"]),
        learning_rate=float(entry["learning_rate"]),
        tokens_per_second=float(entry["tokens_per_second"]),
        seconds=float(entry["seconds"]),
        likelihood=_number(entry, "likelihood"),
        gradient_norm=_number(entry, "gradient_norm"),
        clipped=float(entry.get("clipped", 0.0)),
        memory=int(entry.get("memory", 0)),
    )


def _validation_point(entry: Mapping[str, Any]) -> ValidationPoint:
    return ValidationPoint(
        step=int(entry["step"]),
        loss=float(entry["loss"]),
        metrics={str(name): float(value) for name, value in entry.get("metrics", {}).items()},
        seconds=float(entry["seconds"]),
        gained=bool(entry.get("gained", False)),
    )


def _number(entry: Mapping[str, Any], name: str) -> float | None:
    """What older logs do not have, and what was not finite."""
    return None if entry.get(name) is None else float(entry[name])


def _sample(entry: Mapping[str, Any]) -> LogSample:
    return LogSample(
        step=int(entry["step"]),
        source=str(entry["source"]),
        reference=None if entry["reference"] is None else str(entry["reference"]),
        output=str(entry["output"]),
    )
