"""`log.jsonl`: a line for each event of training (and for each output that is shown), appended as it happens."""

import json
import math
import os
from pathlib import Path
from typing import Any

from regard.errors import ResourceError
from regard.files import replace_file, sync_folder
from regard.process import memory_peak
from regard.training import (
    Ended,
    Event,
    LeftOut,
    Sampled,
    Saved,
    Settled,
    Skipped,
    Started,
    StartedFrom,
    Stepped,
    Validated,
    Warned,
)


class LogWriter:
    """An observer that writes. On going on from a checkpoint, lines of steps after it are taken back first.

    Once a step is told as saved, its lines are on the disk like its checkpoint.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, event: Event) -> None:
        records = (json.dumps(_finite(record), ensure_ascii=False) for record in _records(event))
        lines = "".join(f"{record}\n" for record in records).encode(errors="backslashreplace")
        try:
            if isinstance(event, Started | StartedFrom | LeftOut | Settled):
                self._take_back(event.progress.step)
            with self.path.open("ab") as file:
                file.write(lines)
                if isinstance(event, Saved | Ended):
                    file.flush()
                    os.fsync(file.fileno())
                    sync_folder(self.path.parent)
        except OSError as error:
            raise ResourceError(
                f"{self.path}: cannot be written to ({error.strerror or error}), {len(lines):,} bytes are needed. "
                "Checkpoints are intact; make room, then run the same command again"
            ) from error

    def _take_back(self, step: int) -> None:
        if not self.path.exists():
            return
        kept = [line for line in self.path.read_bytes().splitlines(keepends=True) if _step_of(line) <= step]
        replace_file(self.path, b"".join(kept))


def _finite(record: dict[str, Any]) -> dict[str, Any]:
    """JSON has no NaN and no infinity; such numbers become null."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in record.items()
    }


def _step_of(line: bytes) -> float:
    """The step a line belongs to; a torn line belongs to none that is kept."""
    try:
        return float(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return math.inf


def _records(event: Event) -> list[dict[str, Any]]:
    progress = event.progress
    common = {"step": progress.step, "epoch": progress.epoch, "seconds": round(progress.seconds, 3)}
    if not isinstance(event, Sampled):
        return [{"event": _name(event), **common, **_own(event)}]
    return [
        {"event": "sample", **common, "source": one.source, "reference": one.reference, "output": one.output}
        for one in event.samples
    ]


def _name(event: Event) -> str:
    names: dict[type, str] = {
        LeftOut: "left_out",
        Settled: "settled",
        StartedFrom: "started_from",
        Started: "start",
        Stepped: "step",
        Validated: "validation",
        Warned: "warning",
        Saved: "saved",
        Skipped: "skipped",
        Ended: "end",
    }
    return names[type(event)]


def _own(event: Event) -> dict[str, Any]:
    """What an event has besides its place."""
    match event:
        case Started(total_steps=total, estimated_seconds=estimate):
            return {"total_steps": total, "estimated_seconds": estimate}
        case StartedFrom(run=run, lines=lines):
            return {"run": run, "lines": list(lines)}
        case LeftOut(lines=lines):
            return {"lines": list(lines)}
        case Settled(lines=lines, memory=memory):
            return {"lines": list(lines), "memory_estimated": memory}
        case Stepped():
            return {
                "loss": event.loss,
                "likelihood": event.likelihood,
                "learning_rate": event.learning_rate,
                "gradient_norm": event.gradient_norm,
                "clipped": round(event.clipped, 4),
                "tokens_per_second": event.tokens_per_second,
                "memory": event.memory,
            }
        case Validated():
            return {
                "loss": event.loss,
                **({} if "squared_error" in event.metrics else {"perplexity": math.exp(min(event.loss, 700))}),
                "metrics": _finite(dict(event.metrics)),
                "gained": event.gained,
                "validation_seconds": round(event.seconds, 3),
            }
        case Warned(kind=kind, text=text):
            return {"kind": kind, "text": text}
        case Skipped(reason=reason):
            return {"reason": reason}
        case Ended(reason=reason):
            return {"reason": reason, "memory_peak": memory_peak()}
        case Saved() | Sampled():
            return {}
