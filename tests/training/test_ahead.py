"""What is made ahead is what would be made in turn: order, errors, and no thread that stays."""

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import count, islice

import pytest

from regard.training.ahead import DEPTH, ahead


def threads() -> int:
    return sum(thread.name == "batches" for thread in threading.enumerate())


@pytest.mark.parametrize("size", [0, 1, 2, 50])
def test_the_same_things_in_the_same_order(size: int) -> None:
    assert list(ahead(iter(range(size)))) == list(range(size))
    assert threads() == 0


def test_things_are_made_before_they_are_asked_for_but_not_many() -> None:
    made: list[int] = []

    def numbers() -> Iterator[int]:
        for number in count():
            made.append(number)
            yield number

    with closing(ahead(numbers())) as found:
        assert next(found) == 0
        until = time.monotonic() + 5
        while len(made) < DEPTH + 2 and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(0.05)
        assert made == list(range(DEPTH + 2))
        assert list(islice(found, 5)) == [1, 2, 3, 4, 5]
    assert threads() == 0


def test_an_error_comes_when_its_turn_has_come() -> None:
    def numbers() -> Iterator[int]:
        yield from range(3)
        raise MemoryError("no room for 3")

    found = ahead(numbers())
    assert [next(found) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(MemoryError, match="no room for 3"):
        next(found)
    assert threads() == 0


def test_whoever_stops_reading_ends_the_thread() -> None:
    found = ahead(count())
    assert next(found) == 0
    assert threads() == 1
    found.close()
    assert threads() == 0
