"""Answers on the disk: appended, synced, counted once, mended where they were cut off."""

import errno
import os
import re
from pathlib import Path

import pytest

from regard.errors import BusyError, DataError, ResourceError, UsageError
from regard.human import Answers, read_answers
from regard.human.answers import Conflict
from tests.human.making import campaign, judgement

MADE = campaign()
TASKS = [task.id for task in MADE.annotators[0].tasks]


def written(path: Path, count: int) -> bytes:
    with Answers(path, MADE) as answers:
        for number in range(count):
            assert answers.add(judgement(TASKS[number], {"score": number}, id=f"a{number}"))
    return path.read_bytes()


def test_what_was_added_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    assert read_answers(path, MADE) == {}
    written(path, 3)
    assert {task: one.answer for task, one in read_answers(path, MADE).items()} == {
        TASKS[number]: {"score": number} for number in range(3)
    }
    with Answers(path, MADE) as answers:
        assert answers.mended == 0
        assert answers.latest() == read_answers(path, MADE)


def test_an_answer_that_comes_twice_is_written_once(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    content = written(path, 2)
    with Answers(path, MADE) as answers:
        assert not answers.add(judgement(TASKS[1], {"score": 1}, id="a1", seconds=9))
        with pytest.raises(Conflict, match="id 'a1': is the id of another answer; every answer needs its own"):
            answers.add(judgement(TASKS[1], {"score": 2}, id="a1"))
    assert path.read_bytes() == content


def test_the_last_answer_counts_and_time_adds_up(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with Answers(path, MADE) as answers:
        for score, seconds in ((10, 4.0), (90, 1.5)):
            answers.add(judgement(TASKS[0], {"score": score}, seconds=seconds))
        found = answers.latest()[TASKS[0]]
    assert (found.answer, found.seconds) == ({"score": 90}, 5.5)
    assert path.read_bytes().count(b"\n") == 3


def test_a_cut_at_any_byte_of_the_last_line_is_mended(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    content = written(path, 3)
    start = content[:-1].rindex(b"\n") + 1
    for end in range(start, len(content)):
        path.write_bytes(content[:end])
        whole = end == len(content) - 1
        assert len(read_answers(path, MADE)) == (3 if whole else 2)
        with Answers(path, MADE) as answers:
            assert answers.mended == (0 if whole else end - start)
            assert answers.add(judgement(TASKS[2], {"score": 2}, id="a2")) is not whole
        assert path.read_bytes() == content


def test_a_cut_in_the_first_line_and_pages_that_never_came(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    content = written(path, 1)
    head = content.index(b"\n") + 1
    for end in (0, 1, head - 2, head - 1, head):
        path.write_bytes(content[:end])
        with Answers(path, MADE):
            pass
        assert path.read_bytes() == content[:head]
    for tail in (b"\0" * 4096, b"\0" * 100 + b'56"}\n', b'{"id":"\xc3'):
        path.write_bytes(content + tail)
        assert len(read_answers(path, MADE)) == 1
        with Answers(path, MADE) as answers:
            assert answers.mended == len(tail)
        assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"nonsense", "a.jsonl:3: is damaged: not JSON. Mend or delete this line"),
        (b"[" * 100_000, "a.jsonl:3: is damaged"),
        (b"{}", "a.jsonl:3: a record of an answer has answer, at, id, seconds, task, nothing more"),
        (b'{"id":1,"task":"T","answer":{},"seconds":1,"at":"x"}', "id: must be a text of 1 to 64 characters"),
        (b'{"id":"i","task":"9-1","answer":{},"seconds":1,"at":"x"}', "task: there is no task '9-1' in this campaign"),
        (b'{"id":"i","task":"T","answer":{},"seconds":-1,"at":"x"}', "seconds: must be a number from 0 to 86400"),
        (b'{"id":"i","task":"T","answer":{},"seconds":NaN,"at":"x"}', "seconds: must be a number"),
        (b'{"id":"i","task":"T","answer":{},"seconds":1,"at":"x"}', "a.jsonl:3: answer: is {}; a judgement of kind"),
    ],
)
def test_damage_elsewhere_is_told_with_its_line(tmp_path: Path, line: bytes, message: str) -> None:
    path = tmp_path / "a.jsonl"
    lines = written(path, 3).splitlines()
    lines[2] = line.replace(b'"T"', b'"1-00001"')
    path.write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(DataError, match=re.escape(message)):
        read_answers(path, MADE)
    content = path.read_bytes()
    with pytest.raises(DataError, match=re.escape(message)):
        Answers(path, MADE)
    assert path.read_bytes() == content


def test_answers_to_another_campaign(tmp_path: Path) -> None:
    written(tmp_path / "a.jsonl", 1)
    with pytest.raises(DataError, match=r"a.jsonl:1: these answers belong to another campaign, or the campaign was"):
        read_answers(tmp_path / "a.jsonl", campaign(seed=2))


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    writing = "another `regard human serve` is writing answers"
    with Answers(tmp_path / "a.jsonl", MADE), pytest.raises(BusyError, match=writing):
        Answers(tmp_path / "a.jsonl", MADE)
    answers = Answers(tmp_path / "a.jsonl", MADE)
    answers.close()
    answers.close()
    with pytest.raises(BusyError, match=r"a\.jsonl: is closed; the server is stopping"):
        answers.add(judgement(TASKS[0], {"score": 1}))


def test_places_that_cannot_be_written_or_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"a\.jsonl: cannot be written"):
        Answers(tmp_path / "missing" / "a.jsonl", MADE)
    with pytest.raises(DataError, match=r"cannot be read \(Is a directory\)"):
        read_answers(tmp_path, MADE)


def test_a_full_disk_leaves_whole_answers_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.jsonl"
    content = written(path, 1)
    write = os.write
    room = [30]

    def small(handle: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        done = write(handle, bytes(data)[: room[0]])
        room[0] -= done
        return done

    with Answers(path, MADE) as answers:
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", small)
            with pytest.raises(ResourceError, match="there is no room to write"):
                answers.add(judgement(TASKS[1], {"score": 1}, id="a1"))
        assert path.read_bytes() == content
        assert answers.add(judgement(TASKS[1], {"score": 1}, id="a1"))
    assert len(read_answers(path, MADE)) == 2


def test_nothing_is_acknowledged_after_a_failed_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(handle: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with Answers(tmp_path / "a.jsonl", MADE) as answers:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fail)
            with pytest.raises(ResourceError, match="the disk does not take"):
                answers.add(judgement(TASKS[0], {"score": 1}))
        with pytest.raises(ResourceError, match="the disk does not take"):
            answers.add(judgement(TASKS[1], {"score": 1}))
