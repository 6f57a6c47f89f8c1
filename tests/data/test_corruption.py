"""Noise on training data: how much of it there is, that it is a pure function, and that nothing else changes."""

import math
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.data import Ledger, Store, prepare
from regard.data.batch import Batch, Ids
from regard.data.batches import Cursor
from regard.data.collation import SourceTexts, TagCollation, TextCollation
from regard.data.corpus import StoreCorpus
from regard.data.corruption import Corruption, kept, order, uniform
from regard.data.example import Example, Place
from regard.errors import UsageError
from regard.special import END, FIRST_FREE, MASK, START, UNKNOWN
from regard.text import WordTokenizer
from tests.toys import VOCABULARY, toy_collation, toy_store

COUNT = 40
EVERYTHING = Corruption(drop=0.2, swap=2, replace=0.15, mask=0.2, word_dropout=0.3)
Pair = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def corpus(folder: Path, corruption: Corruption | None, *, tokens: int = 40, seed: int = 3) -> StoreCorpus:
    return StoreCorpus(toy_store(folder, COUNT), toy_collation(), tokens=tokens, seed=seed, corruption=corruption)


def pairs(batch: Batch) -> list[Pair]:
    """What is read of the source, what of the target, and what is to be written."""
    source = batch.sources["source"]
    assert isinstance(source, Ids)
    return [
        (
            tuple(source.ids[row, source.mask[row], 0].tolist()),
            tuple(batch.inputs[row, batch.mask[row]].tolist()),
            tuple(batch.outputs[row, batch.mask[row]].tolist()),
        )
        for row in range(batch.rows)
    ]


def everything(corpus: StoreCorpus, epoch: int | None) -> list[Pair]:
    """Of every example, in the order of the store."""
    return [pairs(corpus.batch(np.array([row]), epoch))[0] for row in range(COUNT)]


def noisy_rows(corruption: Corruption, rows: int, items: int) -> list[tuple[list[int], list[int]]]:
    row = np.arange(FIRST_FREE, FIRST_FREE + items, dtype=np.int32)
    found = [corruption.noise(row, 5000, (7, 1, number)) for number in range(rows)]
    return [(places.tolist(), read.tolist()) for places, read in found]


def within(count: int, of: int, rate: float) -> bool:
    """Whether a count lies within four standard deviations of a binomial distribution."""
    return abs(count - of * rate) < 4 * math.sqrt(of * rate * (1 - rate))


@pytest.mark.parametrize("rate", [0.05, 0.3, 0.7])
def test_each_kind_has_its_rate(rate: float) -> None:
    rows, items = 400, 25
    every = rows * items
    dropped = every - sum(len(places) for places, _ in noisy_rows(Corruption(drop=rate), rows, items))
    assert within(dropped, every, rate)
    masked = sum(read.count(MASK) for _, read in noisy_rows(Corruption(mask=rate), rows, items))
    assert within(masked, every, rate)
    replaced = noisy_rows(Corruption(replace=rate), rows, items)
    changed = [new for _, read in replaced for place, new in enumerate(read) if new != FIRST_FREE + place]
    assert within(len(changed), every, rate)
    assert min(changed) >= FIRST_FREE
    assert max(changed) < 5000
    assert np.mean(changed) == pytest.approx(2502, abs=4 * 1443 / math.sqrt(len(changed)))


def test_kinds_together_have_their_rates_each() -> None:
    found = noisy_rows(Corruption(drop=0.2, replace=0.1, mask=0.3), 400, 25)
    left = sum(len(places) for places, _ in found)
    assert within(10_000 - left, 10_000, 0.2)
    assert within(sum(read.count(MASK) for _, read in found), left, 0.3)
    other = sum(
        new not in (MASK, FIRST_FREE + place) for places, read in found for place, new in zip(places, read, strict=True)
    )
    assert within(other, left, 0.1)


@pytest.mark.parametrize("furthest", [1, 2, 3, 6])
def test_items_move_no_further_than_they_may(furthest: int) -> None:
    found = [places for places, _ in noisy_rows(Corruption(swap=furthest), 500, 20)]
    moves = [abs(old - new) for places in found for new, old in enumerate(places)]
    assert max(moves) == furthest
    assert all(sorted(places) == list(range(20)) for places in found)
    assert sum(move > 0 for move in moves) > len(moves) / 6


def test_bounds_hold_for_the_worst_numbers() -> None:
    last = 1 - 2.0**-53
    for numbers in ([last, 0.0] * 5, [0.0, last] * 5, [last, last, 0.0, 0.0] * 3, np.linspace(last, 0, 12)):
        for furthest in (0, 1, 4):
            places = order(np.array(numbers), furthest)
            assert sorted(places) == list(range(len(numbers)))
            assert max(abs(places - np.arange(len(numbers)))) <= furthest


def test_a_source_is_never_empty() -> None:
    for number in range(300):
        numbers = uniform((1, 2, number), 2, 3)
        assert len(kept(numbers, 0.99)) >= 1
        assert kept(numbers, 1.0).tolist() == [numbers.argmax()]
    assert kept(np.zeros(0), 0.5).tolist() == []
    assert all(len(places) >= 1 for places, _ in noisy_rows(Corruption(drop=0.95), 300, 2))


def test_the_share_of_inputs_that_are_not_read(tmp_path: Path) -> None:
    noisy = corpus(tmp_path, Corruption(word_dropout=0.4))
    clean = everything(noisy, None)
    hidden = places = 0
    for epoch in range(12):
        for (source, read, written), (true_source, true_read, true_written) in zip(
            everything(noisy, epoch), clean, strict=True
        ):
            assert (source, written, read[0]) == (true_source, true_written, START)
            assert all(new in (UNKNOWN, old) for new, old in zip(read, true_read, strict=True))
            hidden += read.count(UNKNOWN)
            places += len(read) - 1
    assert within(hidden, places, 0.4)


def test_noise_depends_on_seed_epoch_and_example_only(tmp_path: Path) -> None:
    alone = everything(corpus(tmp_path, EVERYTHING), 1)
    assert alone == everything(corpus(tmp_path, EVERYTHING, tokens=400), 1)
    for tokens, parts in ((40, 1), (200, 1), (200, 3), (1000, 2)):
        found: list[Pair] = []
        for after, batches in corpus(tmp_path, EVERYTHING, tokens=tokens).from_(Cursor(1, 0), parts):
            found += [pair for batch in batches for pair in pairs(batch)]
            if after.epoch > 1:
                break
        assert sorted(found) == sorted(alone)
    assert alone != everything(corpus(tmp_path, EVERYTHING), 2)
    assert alone != everything(corpus(tmp_path, EVERYTHING, seed=4), 1)


def test_purposes_and_epochs_have_numbers_of_their_own() -> None:
    keys = [
        ((seed, epoch, row), purpose) for seed in (1, 2) for epoch in (0, 1) for row in (0, 1) for purpose in (2, 3)
    ]
    first = {tuple(uniform(key, purpose, 3)) for key, purpose in keys}
    assert len(first) == len(keys)
    numbers = uniform((2**62, 5, 6), 2, 5000)
    assert numbers.min() >= 0
    assert numbers.max() < 1
    assert numbers.mean() == pytest.approx(0.5, abs=0.02)


def test_numbers_are_the_same_with_every_release() -> None:
    assert uniform((1, 2, 3), 2, 3).tolist() == [0.12990769579250971, 0.07644286981684933, 0.7069042221346902]


def test_validation_is_untouched(tmp_path: Path) -> None:
    plain, noisy = corpus(tmp_path, None), corpus(tmp_path, EVERYTHING)
    assert [pairs(batch) for batch in noisy.once()] == [pairs(batch) for batch in plain.once()]
    assert [pairs(batch) for _, (batch,) in islice(noisy.from_(Cursor(), 1), 3)] != [
        pairs(batch) for _, (batch,) in islice(plain.from_(Cursor(), 1), 3)
    ]


def test_no_noise_is_no_change(tmp_path: Path) -> None:
    plain, noisy = corpus(tmp_path, None), corpus(tmp_path, Corruption())
    for (_, (one,)), (_, (other,)) in islice(zip(plain.from_(Cursor(), 1), noisy.from_(Cursor(), 1), strict=False), 5):
        assert torch.equal(one.inputs, other.inputs)
        assert pairs(one) == pairs(other)


def test_ids_stay_in_the_vocabulary_and_sources_end(tmp_path: Path) -> None:
    for source, _, written in everything(corpus(tmp_path, EVERYTHING), 5):
        assert source[-1] == written[-1] == END
        assert len(source) >= 2
        assert all(id_ == MASK or FIRST_FREE <= id_ < VOCABULARY for id_ in source[:-1])


def store_of(folder: Path, collation: TextCollation | TagCollation, lines: Sequence[tuple[str, str]]) -> Store:
    examples = [
        Example({"source": source, "target": target}, Place("a", number))
        for number, (source, target) in enumerate(lines)
    ]
    return prepare(
        examples,
        streams=collation.streams,
        bounded=collation.bounded,
        encode=collation.encode,
        folder=folder,
        key="noise",
        bad_lines="refuse",
        empty_lines="refuse",
        long_lines="refuse",
        max_length=50,
        ledger=Ledger(),
    )


def test_factors_go_with_their_words_and_are_hidden_with_them(tmp_path: Path) -> None:
    words = WordTokenizer(words=[f"w{number}" for number in range(12)])
    numbers = WordTokenizer(words=[f"f{number}" for number in range(12)])  # id of fN = id of wN
    texts = SourceTexts(text=words, factors=(numbers, numbers))
    collation = TextCollation(source=texts, target=words)
    count = 12
    line = " ".join(f"w{number}" for number in range(count))
    factor = line.replace("w", "f")
    store = store_of(tmp_path, collation, [(f"{line}\t{factor}\t{factor}", line)] * 30)
    noisy = StoreCorpus(store, collation, tokens=400, seed=1, corruption=Corruption(drop=0.3, swap=3, mask=0.2))
    lengths, orders = set(), set()
    for row in range(30):
        source = noisy.batch(np.array([row]), 0).sources["source"]
        assert isinstance(source, Ids)
        word, first, second = source.ids[0, source.mask[0]].T.tolist()
        assert word == first == second
        lengths.add(len(word))
        orders.add(tuple(id_ for id_ in word if id_ >= FIRST_FREE))
    assert len(lengths) > 3
    assert any(list(one) != sorted(one) for one in orders)
    replaced = StoreCorpus(store, collation, tokens=400, seed=1, corruption=Corruption(replace=0.5))
    source = replaced.batch(np.array([0]), 0).sources["source"]
    assert isinstance(source, Ids)
    assert source.ids[0, :, 0].tolist() != source.ids[0, :, 1].tolist()
    assert source.ids[0, :, 1].tolist() == [*range(FIRST_FREE, FIRST_FREE + count), END]


def test_a_source_that_is_asked_for_has_no_noise() -> None:
    for noise in (Corruption(drop=0.1), Corruption(swap=1), Corruption(replace=0.1), Corruption(mask=0.1)):
        with pytest.raises(UsageError, match="noise on a source that is asked for itself would be learned"):
            noise.check(("source", "factor1"))
    Corruption(word_dropout=0.1).check(("source",))


def test_tags_stay_at_their_words(tmp_path: Path) -> None:
    words, tags = WordTokenizer(words=["a", "b", "c", "d"]), WordTokenizer(words=["X", "Y"])
    collation = TagCollation(source=SourceTexts(text=words), target=tags)
    store = store_of(tmp_path, collation, [("a b c d a b", "X Y X Y Y X")] * 20)
    for moving in (Corruption(drop=0.1), Corruption(swap=1)):
        with pytest.raises(UsageError, match="drop and swap would part the words of a source from their tags"):
            StoreCorpus(store, collation, tokens=400, seed=1, corruption=moving)
    noisy = StoreCorpus(store, collation, tokens=400, seed=1, corruption=Corruption(replace=0.3, mask=0.3))
    plain, found = (noisy.batch(np.arange(20), epoch) for epoch in (None, 0))
    assert torch.equal(plain.outputs, found.outputs)
    assert torch.equal(plain.mask, found.mask)
    sources = [batch.sources["source"] for batch in (plain, found)]
    assert all(isinstance(source, Ids) for source in sources)
    assert not torch.equal(sources[0].ids, sources[1].ids)
