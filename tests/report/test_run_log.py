"""Logs as training writes them, torn, resumed and strange."""

import json
from pathlib import Path

import pytest

from regard.errors import ModelError
from regard.report import LogSample, TrainingPoint, ValidationPoint, read_log


def step(number: int, loss: float = 1.0) -> dict[str, object]:
    return {
        "event": "step",
        "step": number,
        "loss": loss,
        "learning_rate": 0.001,
        "tokens_per_second": 900.5,
        "seconds": 2.0,
    }


def validation(number: int, bleu: float) -> dict[str, object]:
    return {
        "event": "validation",
        "step": number,
        "loss": 1.5,
        "perplexity": 4.48,
        "metrics": {"BLEU": bleu},
        "seconds": 3.0,
    }


def write(path: Path, *entries: object, end: bytes = b"") -> Path:
    path.write_bytes(b"".join(json.dumps(entry).encode() + b"\n" for entry in entries) + end)
    return path


def test_every_event_is_read(tmp_path: Path) -> None:
    sample = {"event": "sample", "step": 2, "source": "a\u2028b", "reference": "b", "output": ""}
    saved, end = {"event": "saved", "step": 2}, {"event": "end", "reason": "steps"}
    start = {"event": "start", "version": "0.1"}
    history = read_log(write(tmp_path / "log.jsonl", start, step(1), step(2), validation(2, 30), sample, saved, end))
    assert history.training[0] == TrainingPoint(
        step=1, loss=1.0, learning_rate=0.001, tokens_per_second=900.5, seconds=2.0
    )
    assert [point.step for point in history.training] == [1, 2]
    assert history.validation == (ValidationPoint(step=2, loss=1.5, metrics={"BLEU": 30.0}, seconds=3.0),)
    assert history.samples == (LogSample(step=2, source="a\u2028b", reference="b", output=""),)
    assert history.saved == (2,)
    assert history.starts == (start,)
    assert history.end == end
    assert history.unreadable == ()
    assert history.unknown == {}


@pytest.mark.parametrize("length", range(1, len(json.dumps(step(3)))))
def test_a_torn_last_line_is_skipped_wherever_it_was_torn(tmp_path: Path, length: int) -> None:
    torn = json.dumps(step(3)).encode()[:length]
    history = read_log(write(tmp_path / "log.jsonl", step(1), step(2), end=torn))
    assert [point.step for point in history.training] == [1, 2]
    assert history.unreadable == (3,)


@pytest.mark.parametrize(
    "line",
    [
        *(b"\xff\xfe", b"[1]", b"3", b'"event"', b"{}", b'{"event": "step"}', b'{"event": "saved", "step": null}'),
        *(b'{"event": "validation", "step": 1, "loss": 1, "seconds": 0, "metrics": [1]}', b"[" * 100_000),
        b'{"event": "step", "step": Infinity}',
    ],
)
def test_a_damaged_line_in_the_middle_is_skipped_and_counted(tmp_path: Path, line: bytes) -> None:
    path = write(tmp_path / "log.jsonl", step(1))
    path.write_bytes(path.read_bytes() + line + b"\n\n" + json.dumps(step(2)).encode())
    history = read_log(path)
    assert [point.step for point in history.training] == [1, 2]
    assert history.unreadable == (2,)


def test_unknown_events_are_counted(tmp_path: Path) -> None:
    history = read_log(write(tmp_path / "log.jsonl", {"event": "memory"}, {"event": "memory"}, step(1)))
    assert history.unknown == {"memory": 2}
    assert len(history.training) == 1


def test_a_resumed_run_replaces_the_future_it_lost(tmp_path: Path) -> None:
    entries = [step(1), step(2), validation(2, 10), step(3, 9.0), validation(3, 99), step(2, 0.5), step(3, 0.4)]
    history = read_log(write(tmp_path / "log.jsonl", *entries, validation(3, 20)))
    assert [(point.step, point.loss) for point in history.training] == [(1, 1.0), (2, 0.5), (3, 0.4)]
    assert [(point.step, point.metrics["BLEU"]) for point in history.validation] == [(2, 10.0), (3, 20.0)]


def test_a_start_that_names_its_step_forgets_what_came_after(tmp_path: Path) -> None:
    saved = [{"event": "saved", "step": number} for number in (2, 4)]
    samples = [{"event": "sample", "step": number, "source": "", "reference": "", "output": ""} for number in (2, 2, 4)]
    entries = [step(1), step(2), step(3), step(4), validation(4, 1), *saved, *samples, {"event": "end"}]
    history = read_log(write(tmp_path / "log.jsonl", *entries, {"event": "start", "step": 2}))
    assert [point.step for point in history.training] == [1, 2]
    assert history.validation == ()
    assert history.saved == (2,)
    assert len(history.samples) == 2
    assert history.end is None


def test_an_empty_log_is_an_empty_history(tmp_path: Path) -> None:
    assert read_log(write(tmp_path / "log.jsonl")).training == ()


def test_a_missing_log_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"none\.jsonl: cannot read the log of the run \(No such file or directory\)"):
        read_log(tmp_path / "none.jsonl")
