"""`log.jsonl` is appended to as training goes, and forgets a future that was lost."""

import json
import math
from pathlib import Path

import pytest

from regard.errors import ResourceError
from regard.report import read_log
from regard.run.log import LogWriter
from regard.training import (
    Ended,
    Event,
    LeftOut,
    Progress,
    Sampled,
    Saved,
    Shown,
    Skipped,
    Started,
    Stepped,
    Validated,
    Warned,
)


def at(step: int) -> Progress:
    return Progress(step=step, epoch=step // 10, seconds=step / 8)


def stepped(step: int) -> Stepped:
    return Stepped(at(step), 2.5, 2.25, 0.001, 0.5, 1000.0)


EVENTS: list[tuple[Event, dict[str, object]]] = [
    (LeftOut(at(0), ("one line",)), {"event": "left_out", "lines": ["one line"]}),
    (Started(at(0), 20, 1.5), {"event": "start", "step": 0, "total_steps": 20, "estimated_seconds": 1.5}),
    (
        stepped(10),
        {
            "event": "step",
            "step": 10,
            "epoch": 1,
            "seconds": 1.25,
            "loss": 2.5,
            "likelihood": 2.25,
            "learning_rate": 0.001,
            "gradient_norm": 0.5,
            "tokens_per_second": 1000.0,
        },
    ),
    (
        Validated(at(10), 2.0, {"exact": 50.0}, True),
        {"event": "validation", "loss": 2.0, "perplexity": math.exp(2), "metrics": {"exact": 50.0}, "gained": True},
    ),
    (Validated(at(10), 1e9, {}, False), {"event": "validation", "perplexity": math.exp(700), "gained": False}),
    (
        Sampled(at(10), (Shown("a", None, "b"),), 0.1),
        {"event": "sample", "step": 10, "source": "a", "reference": None, "output": "b"},
    ),
    (Warned(at(10), "flat", "hardly"), {"event": "warning", "step": 10, "kind": "flat", "text": "hardly"}),
    (Saved(at(10)), {"event": "saved", "step": 10}),
    (Skipped(at(11), "step 12: loss nan"), {"event": "skipped", "reason": "step 12: loss nan"}),
    (Ended(at(20), "20 steps done"), {"event": "end", "step": 20, "reason": "20 steps done"}),
]


def test_every_event_is_a_line(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "log.jsonl")
    for event, _ in EVENTS:
        writer(event)
    lines = (tmp_path / "log.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(EVENTS)
    for line, (_, expected) in zip(lines, EVENTS, strict=True):
        record = json.loads(line)
        assert {name: record[name] for name in expected} == expected


def test_lines_of_a_lost_future_and_torn_lines_are_taken_back(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    writer = LogWriter(path)
    writer(Started(at(0), None, None))
    for step in (10, 20, 30):
        writer(stepped(step))
    with path.open("a") as file:
        file.write('[1]\n{"event": "step", "st')
    writer(Started(at(20), None, None))
    writer(stepped(30))
    steps = [json.loads(line)["step"] for line in path.read_text().splitlines()]
    assert steps == [0, 10, 20, 20, 30]
    history = read_log(path)
    assert [point.step for point in history.training] == [10, 20, 30]
    assert history.unreadable == ()
    writer(Started(at(0), None, None))
    assert [json.loads(line)["event"] for line in path.read_text().splitlines()] == ["start", "start"]


def test_a_log_that_cannot_be_written(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "missing" / "log.jsonl")
    with pytest.raises(ResourceError, match=r"log\.jsonl: cannot be written to \(No such file.*Checkpoints are intact"):
        writer(stepped(1))
