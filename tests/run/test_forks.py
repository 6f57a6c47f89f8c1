"""Streams that several processes predict: order, faults, losses, and nothing that is left behind."""

import errno
import os
import select
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from regard.errors import DataError, ModelError
from regard.run.forks import Child, answers, cut_evenly, usual_processes
from regard.run.shards import Answer, Outcome, Task
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


def test_a_lost_process_is_written_to_without_a_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    """By default the signal would end this process, and nothing would be told."""
    signals: list[int] = []
    submit = Child.submit

    def kill_and_submit(child: Child, task: Task) -> None:
        if task.number == 2:
            os.kill(child.process, signal.SIGKILL)
            os.waitid(os.P_PID, child.process, os.WEXITED | os.WNOWAIT)
        submit(child, task)

    monkeypatch.setattr(Child, "submit", kill_and_submit)
    before = signal.signal(signal.SIGPIPE, lambda number, _: signals.append(number))
    try:
        said = b"".join(one.content for one in answers(texts(5000), shout, 2)).decode().splitlines()
    finally:
        signal.signal(signal.SIGPIPE, before)
    assert [line.rsplit(" ", 1)[0] for line in said] == [f"LINE {number}" for number in range(5000)]
    assert not signals
    assert not children()


@pytest.mark.parametrize("count", [0, 5, 30, 3000, 5000])
def test_lines_before_one_that_cannot_be_read_are_answered(count: int) -> None:
    def damaged() -> Iterator[str]:
        yield from texts(count)
        raise DataError(f"line {count + 1} is cut off")

    said = b""
    with pytest.raises(DataError, match=f"line {count + 1} is cut off"):  # noqa: PT012
        for one in answers(damaged(), shout, 2):
            said += one.content
    assert [line.rsplit(b" ", 1)[0] for line in said.splitlines()] == [b"LINE %d" % at for at in range(count)]
    assert not children()


def test_what_fails_comes_behind_slow_answers_before_it() -> None:
    def fails(task: Task) -> Answer:
        if task.number == 1:
            raise ModelError("the second part is bad")
        time.sleep(0.3)
        return shout(task)

    found = answers(texts(100), fails, 2)
    assert next(found).content.startswith(b"LINE 0 there")
    with pytest.raises(ModelError, match="the second part is bad"):
        next(found)
    assert not children()


@pytest.mark.parametrize("permitted", [0, 1])
@pytest.mark.parametrize("what", ["os.fork", "socket.socketpair"])
def test_fewer_processes_than_wanted_do(monkeypatch: pytest.MonkeyPatch, permitted: int, what: str) -> None:
    holder, _, name = what.partition(".")
    real = getattr({"os": os, "socket": socket}[holder], name)
    calls = 0

    def refuses() -> object:
        nonlocal calls
        calls += 1
        if calls > permitted:
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return real()

    files = sorted(path.name for path in Path("/proc/self/fd").iterdir())
    monkeypatch.setattr(f"regard.run.forks.{what}", refuses)
    said = b"".join(one.content for one in answers(texts(9000), shout, 3)).decode().splitlines()
    assert said == [f"LINE {number} {'there' if permitted else 'here'}" for number in range(9000)]
    assert calls == permitted + 1
    assert sorted(path.name for path in Path("/proc/self/fd").iterdir()) == files
    assert not children()


def test_a_process_is_forked_where_none_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two parts need no more than two of eight, and parts that come slowly need one."""
    found = answers(texts(16), shout, 8)
    next(found)
    assert len(children()) <= 2
    found.close()
    monkeypatch.setattr("regard.run.forks.MOST", 4)

    def slowly() -> Iterator[str]:
        for number, text in enumerate(texts(96)):
            if number % 16 == 0:
                time.sleep(0.2)
            yield text

    most = 0
    for _ in answers(slowly(), shout, 4):
        most = max(most, len(children()))
    assert 1 <= most <= 3
    assert not children()


def test_children_that_the_system_waits_for() -> None:
    """`trap '' CHLD` is inherited: children are gone when they end."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert sum(one.tally.sources for one in answers(texts(3000), shout, 2)) == 3000
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_long_replies_are_put_together() -> None:
    child = Child(lambda task: Outcome(shout(task)))
    try:
        lines = tuple("x" * 100_000 for _ in range(100))
        for number in range(2):
            child.submit(Task(number=number, file="", first=1, texts=lines))
        for _ in range(2):
            outcome = child.hear()
            assert outcome is not None
            assert outcome.answer == Answer(
                content=("X" * 100_000 + " there\n").encode() * 100, tally=Tally(sources=100)
            )
        assert (list(child.replies), child.begun) == ([], [b""])
    finally:
        child.end()


@pytest.mark.timeout(60)
def test_a_child_ends_with_a_process_that_has_not_read_its_reply() -> None:
    """Its connection is not at its end then, but reset."""
    child = Child(lambda task: Outcome(shout(task)))
    child.submit(Task(number=0, file="", first=1, texts=("a",)))
    select.select([child.socket], [], [])
    child.socket.close()
    assert os.waitstatus_to_exitcode(os.waitpid(child.process, 0)[1]) == 0


def test_a_child_holds_no_file_of_this_process_open(tmp_path: Path) -> None:
    """A lock on one would outlive this process for as long as its children do."""

    def opened(task: Task) -> Outcome:
        links = [Path(f"/proc/self/fd/{number}") for number in range(3, 256)]
        return Outcome(fault=" ".join(str(link.readlink()) for link in links if link.is_symlink()))

    before = Child(opened)
    with (tmp_path / "lock").open("w"):
        child = Child(opened)
    try:
        child.submit(Task(number=0, file="", first=1, texts=()))
        outcome = child.hear()
        assert outcome is not None
        assert [name.split(":")[0] for name in outcome.fault.split()] == ["socket"]
    finally:
        assert child.end() == before.end() == -signal.SIGKILL


@pytest.mark.parametrize(
    ("variable", "system", "wanted"),
    [("1", "linux", 1), ("", "darwin", 1), ("1,2", "linux", 1), (" 1 ", "linux", 1), ("1 ,2", "linux", 1)],
)
def test_no_more_processes_than_threads_are_permitted(
    monkeypatch: pytest.MonkeyPatch, variable: str, system: str, wanted: int
) -> None:
    monkeypatch.setattr("regard.run.forks.cores", lambda: 6)
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
