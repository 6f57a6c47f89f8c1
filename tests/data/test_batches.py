"""The order of examples: each once per epoch, the same from any cursor, with little padding."""

from itertools import islice

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data import BatchOrder, Cursor, deal, epoch_order, plan_epoch
from regard.data.batches import _cut
from regard.errors import DataError, UsageError

Numbers = npt.NDArray[np.int64]
LENGTHS = st.one_of(
    st.lists(st.integers(0, 60), min_size=1, max_size=120).map(np.array),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), min_size=1, max_size=120).map(np.array),
)


def padded(lengths: Numbers, batch: Numbers) -> int:
    """Slots of the largest stream of a batch, counted the slow way."""
    rows = [np.atleast_1d(lengths[index]) for index in batch]
    return len(rows) * max(int(length) + 1 for row in rows for length in row)


@settings(max_examples=300, deadline=None)
@given(LENGTHS, st.integers(1, 400), st.integers(0, 2**63 - 1), st.integers(0, 1000))
def test_each_example_once_and_no_batch_too_large(lengths: Numbers, tokens: int, seed: int, epoch: int) -> None:
    plan = plan_epoch(lengths, tokens=tokens, seed=seed, epoch=epoch)
    assert sorted(np.concatenate(plan).tolist()) == list(range(len(lengths)))
    assert all(len(batch) == 1 or padded(lengths, batch) <= tokens for batch in plan)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.integers(1, 60), max_size=300), st.integers(1, 2000))
def test_cutting_in_leaps_equals_cutting_row_by_row(sizes: list[int], tokens: int) -> None:
    ends: list[int] = []
    start, longest = 0, 0
    for index, size in enumerate(sizes):
        longest = max(longest, size)
        if index > start and (index - start + 1) * longest > tokens:
            ends.append(index)
            start, longest = index, size
    assert _cut(np.array(sizes, dtype=np.int64), tokens) == ([*ends, len(sizes)] if sizes else [])


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 300), st.integers(0, 2**63 - 1), st.integers(0, 100))
def test_an_order_is_a_permutation_and_repeats(n: int, seed: int, epoch: int) -> None:
    order = epoch_order(n, seed=seed, epoch=epoch)
    assert sorted(order.tolist()) == list(range(n))
    assert np.array_equal(order, epoch_order(n, seed=seed, epoch=epoch))


def test_the_order_is_the_one_of_the_first_release() -> None:
    """Old runs must resume: these numbers may never change."""
    assert epoch_order(10, seed=1, epoch=0).tolist() == [0, 5, 7, 4, 8, 2, 6, 9, 3, 1]
    lengths = np.arange(10)
    plan = plan_epoch(lengths, tokens=20, seed=1, epoch=0)
    assert [batch.tolist() for batch in plan] == [[6, 7], [4, 5], [0, 1, 2, 3], [8, 9]]


def test_orders_differ_between_seeds_and_epochs() -> None:
    orders = {tuple(epoch_order(50, seed=seed, epoch=epoch)) for seed in range(20) for epoch in range(20)}
    assert len(orders) == 400


def test_places_in_the_order_are_evenly_used() -> None:
    """Chi-squared of where example 0 lands, 10 places, 4,000 epochs; 0.1 % critical value with 9 degrees is 27.9."""
    landed = [int(np.flatnonzero(epoch_order(10, seed=3, epoch=epoch) == 0)[0]) for epoch in range(4000)]
    observed = np.bincount(landed, minlength=10)
    assert ((observed - 400) ** 2 / 400).sum() < 27.9


def natural(n: int, mean: float, spread: float, seed: int) -> Numbers:
    """Lengths of two sides that go together, as in translation."""
    generator = np.random.default_rng(seed)
    source = np.maximum(1, generator.lognormal(np.log(mean), 0.45, n))
    target = np.maximum(1, source * generator.normal(1.0, spread, n).clip(0.4, 2))
    return np.stack([source, target], axis=1).astype(int)


@pytest.mark.parametrize(
    ("mean", "spread", "tokens"), [(12, 0.15, 4096), (60, 0.15, 4096), (25, 0.2, 2048), (8, 0.1, 1024)]
)
def test_little_is_padding(mean: float, spread: float, tokens: int) -> None:
    lengths = natural(30_000, mean, spread, seed=7)
    plan = plan_epoch(lengths, tokens=tokens, seed=1, epoch=0)
    slots = sum(len(batch) * int((lengths[batch].max(axis=0) + 1).sum()) for batch in plan)
    assert (lengths + 1).sum() / slots >= 0.92


def test_batches_are_shuffled_and_change_between_epochs() -> None:
    lengths = natural(5000, 12, 0.15, seed=7)
    first, second = (plan_epoch(lengths, tokens=512, seed=1, epoch=epoch) for epoch in (0, 1))
    longest = np.array([lengths[batch].max() for batch in first])
    assert abs(np.corrcoef(longest, np.arange(len(longest)))[0, 1]) < 0.3
    common = {tuple(sorted(batch)) for batch in first} & {tuple(sorted(batch)) for batch in second}
    assert len(common) < 0.2 * len(first)


@settings(max_examples=60, deadline=None)
@given(LENGTHS, st.integers(10, 200), st.integers(0, 99), st.integers(0, 10**6))
def test_going_on_from_any_cursor_is_going_on(lengths: Numbers, tokens: int, seed: int, stop: int) -> None:
    order = BatchOrder(lengths, tokens=tokens, seed=seed)
    steps = 2 * len(order.plan(0)) + 3
    unbroken = list(islice(order.batches_from(Cursor()), steps))
    stop %= steps
    cursor = unbroken[stop - 1][0] if stop else Cursor()
    resumed = list(islice(order.batches_from(cursor), steps - stop))
    for (cursor_a, batch_a), (cursor_b, batch_b) in zip(unbroken[stop:], resumed, strict=True):
        assert cursor_a == cursor_b
        assert np.array_equal(batch_a, batch_b)


def test_the_ledger_of_three_epochs_with_thirty_interruptions() -> None:
    n = 20_000
    lengths = natural(n, 20, 0.2, seed=1)
    unbroken = BatchOrder(lengths, tokens=2048, seed=5)
    total = sum(len(unbroken.plan(epoch)) for epoch in range(3))
    stops = sorted(np.random.default_rng(9).choice(np.arange(1, total), 30, replace=False).tolist())
    seen: list[Numbers] = []
    cursor = Cursor()
    for start, end in zip([0, *stops], [*stops, total], strict=True):
        part = list(islice(BatchOrder(lengths, tokens=2048, seed=5).batches_from(cursor), end - start))
        cursor = part[-1][0]
        seen += [batch for _, batch in part]
    assert cursor == Cursor(3, 0)
    ids = np.concatenate(seen)
    assert len(ids) == 3 * n
    for epoch in range(3):
        assert np.array_equal(np.bincount(ids[epoch * n : (epoch + 1) * n], minlength=n), np.ones(n))
    assert np.array_equal(ids, np.concatenate([batch for _, batch in islice(unbroken.batches_from(Cursor()), total)]))


def test_a_cursor_at_the_end_of_an_epoch_is_the_beginning_of_the_next() -> None:
    order = BatchOrder(np.array([3, 4, 5]), tokens=6, seed=1)
    cursor, batch = next(order.batches_from(Cursor(0, 3)))
    assert cursor == Cursor(1, 1)
    assert np.array_equal(batch, order.plan(1)[0])


@pytest.mark.parametrize("position", [4, -1])
def test_a_cursor_that_does_not_fit_the_data_is_refused(position: int) -> None:
    order = BatchOrder(np.array([3, 4, 5]), tokens=6, seed=1)
    with pytest.raises(DataError, match=rf"epoch 2 has 3 batches, and {position} are said to be done: the data or"):
        next(order.batches_from(Cursor(2, position)))


def test_no_examples_and_no_room() -> None:
    assert plan_epoch(np.zeros((0, 2), dtype=int), tokens=5, seed=1, epoch=0) == []
    with pytest.raises(DataError, match="there are no examples to make batches of"):
        BatchOrder(np.zeros((0, 2), dtype=int), tokens=5, seed=1)
    with pytest.raises(UsageError, match="a batch needs room for at least 1 token, and 0 were asked for"):
        plan_epoch(np.array([1]), tokens=0, seed=1, epoch=0)


@settings(max_examples=200, deadline=None)
@given(LENGTHS, st.integers(1, 9), st.booleans())
def test_dealing_gives_each_row_once_and_evenly(lengths: Numbers, parts: int, told: bool) -> None:
    batch = np.arange(len(lengths)) * 3
    dealt = deal(batch, parts, lengths=lengths if told else None)
    assert len(dealt) == parts
    assert sorted(np.concatenate(dealt).tolist()) == batch.tolist()
    assert all((np.diff(part) > 0).all() for part in dealt)
    sizes = (lengths + 1).reshape(len(lengths), -1).sum(axis=1) if told else np.ones(len(lengths))
    loads = [sizes[part // 3].sum() for part in dealt]
    assert max(loads) - min(loads) <= sizes.max()


def test_dealing_refuses_what_makes_no_sense() -> None:
    with pytest.raises(UsageError, match="a batch cannot be dealt to 0 parts"):
        deal(np.arange(3), 0)
    with pytest.raises(UsageError, match="2 lengths were given for a batch of 3 rows"):
        deal(np.arange(3), 2, lengths=np.array([1, 2]))
