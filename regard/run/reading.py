"""Lines that are to be predicted: one that cannot be decoded stands as "", and why is told beside it.

The number of a line is what its fault is found by, since a blank line and one that is not text are not the same: a
language model begins a text at a blank one.
"""

from collections.abc import Iterator, MutableMapping
from pathlib import Path

from regard.data import Ledger
from regard.data.lines import BadLine, decode, file_name, read_raw_lines
from regard.run.prediction import Prediction
from regard.run.written import Form, Tally

Faults = MutableMapping[int, str]
"""What is wrong with lines, by their numbers from 1."""


def read_texts(path: str | Path, *, ledger: Ledger, faults: Faults) -> Iterator[str]:
    """A text for each line. Whoever takes a text takes its fault, too, so that no more are held than texts."""
    name = file_name(path)
    for line in read_raw_lines(path, ledger=ledger):
        try:
            text = decode(line, name)
        except BadLine as bad:
            ledger.add(bad.kind, bad.place, bad.detail)
            faults[line.number] = bad.detail
            text = ""
        yield text


def taken(faults: Faults, first: int, count: int) -> dict[int, str]:
    """The faults of so many lines from `first` on, which are no longer held."""
    return {number: faults.pop(number) for number in range(first, first + count) if number in faults}


def answer_lines(
    prediction: Prediction, number: int, *, form: Form, fault: str | None, tally: Tally, place: str
) -> Iterator[str]:
    """What is written for a line, and counted. One with a fault has no output, whatever was made of the blank in its
    place; whoever read it has counted it."""
    if fault is None:
        tally.add(place, prediction)
        return form.lines(prediction, number)
    return form.lines(Prediction(source="", outputs=(), fault=fault), number)
