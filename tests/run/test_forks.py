"""Streams that several processes predict: order, faults, losses, and nothing that is left behind."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from regard.errors import ModelError
from regard.run.forks import answers, cut_evenly, usual_processes
from regard.run.shards import Answer, Task
from regard.run.written import Tally

HERE = os.getpid()


def shout(task: Task) -> Answer:
    """Upper case, and who said it."""
    lines = "".join(f"{text.upper()} {'here' if os.getpid() == HERE else 'there'}\n" for text in task.texts)
    return Answer(content=lines.encode(), tally=Tally(sources=len(task.texts)))


def children() -> list[str]:
    return Path(f"/proc/{HERE}/task/{HERE}/children").read_text().split()


def texts(count: int) -> Iterator[str]:
    return (f"line {number}" for number in range(count))


@pytest.mark.parametrize("count", [0, 1, 8, 9, 17, 300, 5000])
@pytest.mark.parametrize("processes", [2, 3])
def test_answers_come_in_the_order_of_the_lines(count: int, processes: int) -> None:
    before = children()
    found = list(answers(texts(count), shout, processes))
    said = b"".join(one.content for one in found).decode().splitlines()
    where = "there" if count > 8 else "here"
    assert said == [f"LINE {number} {where}" for number in range(count)]
    assert sum(one.tally.sources for one in found) == count
    assert children() == before


@pytest.mark.timeout(60)
def test_long_lines_do_not_block_each_other() -> None:
    """Tasks and answers that no pipe can hold."""
    lines = [f"{number} {'x' * 3000}" for number in range(3000)]
    said = b"".join(one.content for one in answers(iter(lines), shout, 2)).decode().splitlines()
    assert said == [f"{line.upper()} there" for line in lines]


@pytest.mark.parametrize("count", [3, 16, 100, 128, 129, 1000, 2048, 4100])
def test_parts_are_alike_and_lose_nothing(count: int) -> None:
    parts = list(cut_evenly(texts(count), 2))
    assert [text for part in parts for text in part.texts] == list(texts(count))
    assert [part.number for part in parts] == list(range(len(parts)))
    assert [part.first for part in parts] == [1 + sum(len(one.texts) for one in parts[:at]) for at in range(len(parts))]
    assert max(len(part.texts) for part in parts) <= 1024
    if 16 <= count <= 2048:
        assert len(parts) == (2 if count <= 128 else 4)


def test_lines_are_not_read_further_ahead_than_needed() -> None:
    read = 0

    def endless() -> Iterator[str]:
        nonlocal read
        while True:
            read += 1
            yield "a"

    found = answers(endless(), shout, 2)
    for _ in range(3):
        next(found)
    assert read <= 6 * 2048
    before = set(children())
    found.close()
    assert before
    assert not before & set(children())


def test_what_a_child_cannot_do_is_tried_here_and_told_as_always() -> None:
    def fails(task: Task) -> Answer:
        if task.number == 1:
            raise ModelError("the second part is bad")
        return shout(task)

    found = answers(texts(100), fails, 2)
    assert next(found).content.startswith(b"LINE 0 there")
    with pytest.raises(ModelError, match="the second part is bad"):
        next(found)
    assert not children()


def test_lost_processes_are_done_without() -> None:
    def dies(task: Task) -> Answer:
        if task.number in (1, 2, 5) and os.getpid() != HERE:
            os.kill(os.getpid(), signal.SIGKILL)
        return shout(task)

    said = b"".join(one.content for one in answers(texts(9000), dies, 2)).decode().splitlines()
    assert [line.rsplit(" ", 1)[0] for line in said] == [f"LINE {number}" for number in range(9000)]
    assert {line.rsplit(" ", 1)[1] for line in said} == {"here", "there"}
    assert not children()


@pytest.mark.parametrize(("variable", "system", "wanted"), [("1", "linux", 1), ("", "darwin", 1), ("1,2", "linux", 1)])
def test_no_more_processes_than_threads_are_permitted(
    monkeypatch: pytest.MonkeyPatch, variable: str, system: str, wanted: int
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", variable)
    monkeypatch.setattr("sys.platform", system)
    assert usual_processes() == wanted


def test_as_many_processes_as_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.run.forks.cores", lambda: 6)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert usual_processes() == 6
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    assert usual_processes() == 4
