"""Splitting off validation and test data leaves no source on two sides."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from regard.data import Split, split_off
from regard.errors import DataError


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.integers(0, 60), min_size=20, max_size=200).filter(lambda keys: len(set(keys)) >= 15),
    st.floats(0.01, 0.49),
    st.integers(0, 2**63 - 1),
    st.integers(1, 50),
    st.integers(50, 500),
)
def test_nothing_leaks_and_nothing_is_lost(
    keys: list[int], share: float, seed: int, minimum: int, maximum: int
) -> None:
    wanted = min(max(round(share * len(keys)), minimum), maximum, len(keys) // 5)
    assume(sum(keys.count(key) <= wanted for key in set(keys)) >= 2)
    split = split_off(map(str, keys), share=share, seed=seed, minimum=minimum, maximum=maximum)
    parts = (split.train, split.valid, split.test)
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(keys)))
    sources = [{keys[index] for index in part} for part in parts]
    assert not sources[0] & sources[1]
    assert not sources[0] & sources[2]
    assert not sources[1] & sources[2]
    assert 0 < len(split.valid) <= wanted
    assert 0 < len(split.test) <= wanted
    assert all((np.diff(part) > 0).all() for part in parts)


@pytest.mark.parametrize(
    ("n", "minimum", "maximum", "size"),
    [(10_000, 100, 2000, 500), (10_000, 100, 300, 300), (1000, 100, 2000, 100), (100, 100, 2000, 20), (5, 1, 9, 1)],
)
def test_sizes(n: int, minimum: int, maximum: int, size: int) -> None:
    split = split_off(map(str, range(n)), share=0.05, seed=1, minimum=minimum, maximum=maximum)
    assert (len(split.train), len(split.valid), len(split.test)) == (n - 2 * size, size, size)


def lists(split: Split) -> tuple[list[int], list[int], list[int]]:
    return split.train.tolist(), split.valid.tolist(), split.test.tolist()


def test_the_split_follows_the_seed_and_nothing_else() -> None:
    keys = [f"source {number}" for number in range(200)]
    splits = [lists(split_off(keys, share=0.1, seed=seed, minimum=1, maximum=50)) for seed in (1, 1, 2)]
    assert splits[0] == splits[1]
    assert splits[0] != splits[2]


def test_too_few_sources_are_refused() -> None:
    with pytest.raises(DataError, match="100 examples with 4 different sources are too few to split off validation"):
        split_off([str(number % 4) for number in range(100)], share=0.1, seed=1, minimum=1, maximum=50)
    with pytest.raises(
        DataError, match="the 100 examples have only 5 different sources, so often repeated that 10 cannot"
    ):
        split_off([str(number % 5) for number in range(100)], share=0.1, seed=1, minimum=1, maximum=50)
