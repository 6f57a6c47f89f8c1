"""Training, validation and test examples out of one file, without a leak between them."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from regard.data.batches import Indices, random_order
from regard.errors import DataError

SPLIT = 2
"""The purpose of this random order, besides those of examples and batches."""

LEAST_SOURCES = 5
"""Different sources that a split needs."""


@dataclass(frozen=True, slots=True)
class Split:
    """Indices of examples, rising; together each example once."""

    train: Indices
    valid: Indices
    test: Indices


def split_off(texts: Iterable[str], *, share: float, seed: int, minimum: int, maximum: int) -> Split:
    """Split off `share` of the examples for each of validation and test.

    `texts` has one for each example, usually its source: examples with the same stay together, so that nothing that is
    tested was seen in training. Each part gets at least `minimum` and at most `maximum` examples, but never more than a
    fifth of all. Groups are visited in random order and go where they fit. Of each text only 64 bits are kept: two
    that have them in common stay together, too.
    """
    digests = np.fromiter(map(_digest, texts), dtype=np.uint64)
    n = len(digests)
    _, firsts, group = np.unique(digests, return_index=True, return_inverse=True)
    del digests
    group = firsts.argsort().argsort()[group]  # numbered as they are met
    groups = len(firsts)
    if groups < LEAST_SOURCES:
        raise DataError(
            f"{n} examples with {groups} different sources are too few to split off validation and test data; "
            f"at least {LEAST_SOURCES} different sources are needed. Give `data.valid` and `data.test`, or more data"
        )
    wanted = min(max(round(share * n), minimum), maximum, n // 5)
    sizes = np.bincount(group)
    part = np.zeros(groups, dtype=np.int8)
    filled = [0, 0, 0]
    for number in random_order(groups, seed=seed, epoch=0, purpose=SPLIT):
        for place in (2, 1) if filled[2] <= filled[1] else (1, 2):
            if filled[place] + sizes[number] <= wanted:
                part[number] = place
                filled[place] += int(sizes[number])
                break
        if filled[1] == filled[2] == wanted:
            break
    if not filled[1] or not filled[2]:
        raise DataError(
            f"the {n} examples have only {groups} different sources, so often repeated that {wanted} cannot be "
            "split off without a leak. Give `data.valid` and `data.test`"
        )
    train, valid, test = (np.flatnonzero(part[group] == place) for place in range(3))
    return Split(train=train, valid=valid, test=test)


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest())
