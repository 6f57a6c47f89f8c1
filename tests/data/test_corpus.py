"""A store as training data: every pair once an epoch, in an order that can be entered anywhere."""

from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import pytest
import torch

from regard.data.batch import Batch
from regard.data.batches import Cursor
from regard.data.corpus import StoreCorpus
from regard.special import END, START
from tests.toys import toy_collation, toy_ids, toy_pairs, toy_store

COUNT = 40


@pytest.fixture
def corpus(tmp_path: Path) -> StoreCorpus:
    return StoreCorpus(toy_store(tmp_path, COUNT), toy_collation(), tokens=40, seed=3)


def rows(batch: Batch) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Source and target ids of a batch, END taken off."""
    source = batch.sources["source"]
    found = []
    for row in range(batch.rows):
        ids = source.ids[row, source.mask[row], 0].tolist()
        outputs = batch.outputs[row, batch.mask[row]].tolist()
        inputs = batch.inputs[row, batch.mask[row]].tolist()
        assert ids[-1] == outputs[-1] == END
        assert inputs == [START, *outputs[:-1]]
        found.append((tuple(ids[:-1]), tuple(outputs[:-1])))
    return found


def epoch(corpus: StoreCorpus, number: int, parts: int = 1) -> list[Sequence[Batch]]:
    found = []
    for cursor, batches in corpus.from_(Cursor(number, 0), parts):
        found.append(batches)
        if cursor.epoch != number:
            return found
    raise AssertionError("a corpus has no end")


EXPECTED = Counter((tuple(toy_ids(source)), tuple(toy_ids(target))) for source, target in toy_pairs(COUNT))


@pytest.mark.parametrize("parts", [1, 3])
def test_an_epoch_has_every_pair_once(corpus: StoreCorpus, parts: int) -> None:
    for number in (0, 1):
        batches = epoch(corpus, number, parts)
        assert Counter(row for each in batches for batch in each for row in rows(batch)) == EXPECTED
    assert len(epoch(corpus, 0)) == corpus.batches_in_epoch()


def test_one_pass_has_every_pair_once_and_is_always_the_same(corpus: StoreCorpus) -> None:
    first, second = ([rows(batch) for batch in corpus.once()] for _ in range(2))
    assert first == second
    assert Counter(row for batch in first for row in batch) == EXPECTED


def test_epochs_have_different_orders(corpus: StoreCorpus) -> None:
    one, two = ([rows(batch) for (batch,) in epoch(corpus, number)] for number in (0, 1))
    assert one != two


def test_the_order_can_be_entered_anywhere(corpus: StoreCorpus) -> None:
    straight = list(islice(corpus.from_(Cursor(), 2), 2 * corpus.batches_in_epoch() + 3))
    for start in (0, 4, corpus.batches_in_epoch() - 2):
        cursor = straight[start][0]
        for (after, batches), (expected, others) in zip(corpus.from_(cursor, 2), straight[start + 1 :], strict=False):
            assert after == expected
            assert [rows(batch) for batch in batches] == [rows(batch) for batch in others]


def test_micro_batches_are_the_batch_dealt_out(corpus: StoreCorpus) -> None:
    for (_, (whole,)), (_, parts) in islice(zip(corpus.from_(Cursor(), 1), corpus.from_(Cursor(), 4), strict=False), 9):
        assert sorted(rows(whole)) == sorted(row for part in parts for row in rows(part))
        assert 1 <= len(parts) <= 4
        assert all(part.rows for part in parts)


def test_batches_have_at_most_so_many_tokens(corpus: StoreCorpus) -> None:
    for (batch,) in epoch(corpus, 0):
        assert batch.inputs.numel() <= 40
        assert batch.sources["source"].mask.numel() <= 40


def test_a_batch_is_named_by_its_lines(corpus: StoreCorpus) -> None:
    lines = {tuple(toy_ids(source)): number for number, (source, _) in enumerate(toy_pairs(COUNT), start=1)}
    many = False
    for position, (batch,) in enumerate(epoch(corpus, 1)):
        numbers = sorted(lines[source] for source, _ in rows(batch))
        many |= len(numbers) > 5
        more = f" and {len(numbers) - 5} more" if len(numbers) > 5 else ""
        named = ", ".join(f"toy:{number}" for number in numbers[:5])
        assert corpus.where(Cursor(1, position)) == f"epoch 2, batch {position + 1}: {named}{more}"
    assert many


def test_texts_are_drawn_anew_in_each_epoch_and_not_for_judging(tmp_path: Path) -> None:
    keys: list[tuple[int, ...]] = []

    def redraw(stream: str, ids: Sequence[int], key: tuple[int, ...]) -> Sequence[int]:
        keys.append(key)
        return [*ids, 4 + key[1]] if stream == "source" else ids

    store = toy_store(tmp_path, COUNT)
    corpus = StoreCorpus(store, toy_collation(), tokens=40, seed=3, redraw=redraw)
    for number in (0, 1, 2):
        sources = Counter(row[0] for (batch,) in epoch(corpus, number) for row in rows(batch))
        assert sources == Counter((*source, 4 + number) for (source, _) in EXPECTED.elements())
    assert Counter(keys) == Counter(
        (3, number, row, stream) for number in range(3) for row in range(COUNT) for stream in (0, 1)
    )
    across = list(islice(corpus.from_(Cursor(0, corpus.batches_in_epoch() - 1), 1), 2))
    assert {row[0][-1] for row in rows(across[0][1][0])} == {4}
    assert {row[0][-1] for row in rows(across[1][1][0])} == {5}
    assert Counter(row for batch in corpus.once() for row in rows(batch)) == EXPECTED
    plain = StoreCorpus(store, toy_collation(), tokens=40, seed=3)
    assert torch.equal(next(corpus.once()).inputs, next(plain.once()).inputs)
