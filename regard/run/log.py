"""`log.jsonl`: one line for each event of training, appended as it happens."""

import json
import math
import os
from pathlib import Path
from typing import Any

from regard.errors import ResourceError
from regard.files import replace_file, sync_folder
from regard.training import Ended, Event, Saved, Skipped, Started, StartedFrom, Stepped, Validated


class LogWriter:
    """An observer that writes. On going on from a checkpoint, lines of steps after it are taken back first.

    Once a step is told as saved, its lines are on the disk like its checkpoint.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, event: Event) -> None:
        line = (json.dumps(_finite(_record(event)), ensure_ascii=False) + "\n").encode()
        try:
            if isinstance(event, Started | StartedFrom):
                self._take_back(event.progress.step)
            with self.path.open("ab") as file:
                file.write(line)
                if isinstance(event, Saved | Ended):
                    file.flush()
                    os.fsync(file.fileno())
                    sync_folder(self.path.parent)
        except OSError as error:
            raise ResourceError(
                f"{self.path}: cannot be written to ({error.strerror or error}), {len(line):,} bytes are needed. "
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


def _record(event: Event) -> dict[str, Any]:
    progress = event.progress
    common = {"step": progress.step, "epoch": progress.epoch, "seconds": round(progress.seconds, 3)}
    match event:
        case Started(total_steps=total, estimated_seconds=estimate):
            return {"event": "start", **common, "total_steps": total, "estimated_seconds": estimate}
        case StartedFrom(run=run, lines=lines):
            return {"event": "started_from", **common, "run": run, "lines": list(lines)}
        case Stepped():
            return {
                "event": "step",
                **common,
                "loss": event.loss,
                "likelihood": event.likelihood,
                "learning_rate": event.learning_rate,
                "gradient_norm": event.gradient_norm,
                "tokens_per_second": event.tokens_per_second,
            }
        case Validated():
            return {
                "event": "validation",
                **common,
                "loss": event.loss,
                "perplexity": math.exp(min(event.loss, 700)),
                "metrics": _finite(dict(event.metrics)),
                "gained": event.gained,
            }
        case Saved():
            return {"event": "saved", **common}
        case Skipped(reason=reason):
            return {"event": "skipped", **common, "reason": reason}
        case Ended(reason=reason):
            return {"event": "end", **common, "reason": reason}
