"""Every example exactly once an epoch, in one order, however often a training is interrupted and dealt out anew."""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.data import BatchOrder, Cursor, Example, Ledger, Place, Store, deal, prepare
from regard.data.batch import Batch, source_ids
from regard.data.collation import Collation, Key, Rows, SourceTexts
from regard.data.corpus import StoreCorpus
from regard.data.store import Row
from regard.text import ByteTokenizer
from tests.reliability.conftest import Tally

SAMPLES = 100_000
EPOCHS = 3
TOKENS = 6000
SEED = 7
INTERRUPTIONS = 30


class Numbers(Collation):
    """The first id of an example is its number; a batch tells which examples are in it."""

    streams = ("source", "target")

    def encode(self, source: str, target: str) -> dict[str, Row]:
        return {"source": [int(source)], "target": [0] * int(target)}

    def batch(self, rows: Rows, keys: Sequence[Key]) -> Batch:
        numbers = [int(row[0]) for row in rows["source"]]
        assert [key[-1] for key in keys] == numbers
        assert all(len(row) == length(number) for number, row in zip(numbers, rows["target"], strict=True))
        empty = torch.zeros(0, 0, dtype=torch.long)
        mask = empty.bool()
        return Batch(
            sources={"source": source_ids([[number] for number in numbers])}, inputs=empty, outputs=empty, mask=mask
        )


def length(number: int) -> int:
    return 1 + number * 7919 % 23


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of so many examples."""
    place = tmp_path_factory.mktemp("store")
    examples = (
        Example({"source": str(number), "target": str(length(number))}, Place("x", number + 1))
        for number in range(SAMPLES)
    )
    prepare(
        examples,
        streams=Numbers.streams,
        encode=numbers().encode,
        folder=place,
        key="numbers",
        bad_lines="refuse",
        empty_lines="refuse",
        long_lines="refuse",
        max_length=30,
        ledger=Ledger(),
    )
    return place / "numbers"


def numbers() -> Numbers:
    return Numbers(source=SourceTexts(text=ByteTokenizer()))


def corpus(folder: Path) -> StoreCorpus:
    """As a process that has just been started sees it."""
    return StoreCorpus(Store.open(folder), numbers(), tokens=TOKENS, seed=SEED)


def seen(batches: Sequence[Batch]) -> list[list[int]]:
    return [batch.sources["source"].ids[:, 0, 0].tolist() for batch in batches]  # type: ignore[union-attr]


def interrupted(folder: Path, parts: int, cuts: Sequence[int]) -> Iterator[list[list[int]]]:
    """Global batches of all epochs; after so many of them in all, the process ends and another one goes on."""
    cursor, done = Cursor(), 0
    for cut in (*cuts, None):
        for after, batches in corpus(folder).from_(cursor, parts):
            if cursor.epoch == EPOCHS or (cut is not None and done >= cut):
                break  # what was read ahead is lost, the cursor is not
            yield seen(batches)
            cursor, done = after, done + 1


@pytest.fixture(scope="module")
def unbroken(folder: Path) -> list[list[int]]:
    """The order of one process that is never interrupted."""
    order = BatchOrder(np.array([[1, length(number)] for number in range(SAMPLES)]), tokens=TOKENS, seed=SEED)
    return [batch.tolist() for epoch in range(EPOCHS) for batch in order.plan(epoch)]


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_each_example_once_an_epoch_in_the_order_of_an_unbroken_run(
    folder: Path, unbroken: list[list[int]], parts: int, tally: Tally
) -> None:
    draw = random.Random(parts)
    cuts = sorted(draw.sample(range(len(unbroken)), INTERRUPTIONS // 3))
    visits = np.zeros(EPOCHS * SAMPLES, dtype=np.int64)
    ids = 0
    for whole, dealt in zip(unbroken, interrupted(folder, parts, cuts), strict=True):
        assert len(dealt) <= parts
        merged = [number for part in dealt for number in part]
        assert merged == whole if parts == 1 else sorted(merged) == sorted(whole)
        places = {number: place for place, number in enumerate(whole)}
        assert all([places[number] for number in part] == sorted(places[number] for number in part) for part in dealt)
        epoch = ids // SAMPLES
        np.add.at(visits, np.array(merged) + epoch * SAMPLES, 1)
        ids += len(merged)
    assert ids == EPOCHS * SAMPLES
    assert (visits == 1).all()
    tally("R9", ids_seen=ids, interruptions=len(cuts))


def test_other_numbers_of_parts_take_over_from_each_other(unbroken: list[list[int]], tally: Tally) -> None:
    """Ranks deal first, then micro-batches; whoever goes on, with however many, nothing is lost or seen twice."""
    lengths = np.array([[1, length(number)] for number in range(SAMPLES)])
    order, draw = BatchOrder(lengths, tokens=TOKENS, seed=SEED), random.Random(5)
    cursor, position, changes = Cursor(), 0, 0
    while cursor.epoch < EPOCHS:
        ranks, micro, count = draw.choice((1, 2, 4)), draw.choice((1, 2, 4)), draw.randint(5, 40)
        changes += 1
        for after, batch in order.batches_from(cursor):
            if not count or cursor.epoch == EPOCHS:
                break
            dealt = [
                part
                for rank in deal(batch, ranks, lengths=lengths[batch])
                for part in deal(rank, micro, lengths=lengths[rank])
            ]
            assert sorted(np.concatenate(dealt).tolist()) == sorted(unbroken[position])
            loads = [int((lengths[part] + 1).sum()) for part in dealt]
            assert max(loads) - min(loads) <= 3 * 25
            cursor, position, count = after, position + 1, count - 1
    assert position == len(unbroken)
    assert changes >= 20
    tally("R9", changes_of_parts=changes)
