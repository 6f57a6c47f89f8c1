"""Noise on training data, drawn anew in each epoch.

What is drawn for an example is a function of (seed, epoch, number of the example, purpose) alone, so it is the same
whatever batch, rank or process the example falls to. Random numbers are the raw words of Philox, whose stream numpy
guarantees to stay the same. An item is a token: a word, or a piece of one.

Shapes: n items of an example, B rows, M target items.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from regard.data.batch import Batch, pad
from regard.data.store import Row
from regard.errors import UsageError
from regard.special import FIRST_FREE, MASK, UNKNOWN

Key = tuple[int, ...]
"""Seed, epoch, number of the example."""

SOURCE: Final = 2
INPUTS: Final = 3
"""Purposes; 0 and 1 are those of the order of an epoch."""

Uniform = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Corruption:
    """What happens to a source, in this order, and to the inputs of a decoder. All but `swap` are probabilities.

    `drop` leaves an item out, but never the last one that is left; `swap` is the furthest that an item moves (Lample
    et al. 2018, section 2.3); `replace` puts any item of the vocabulary in its place; `mask` hides it. `word_dropout`
    hides an item of the target where it is read, not where it is predicted (Bowman et al. 2016, section 3.1).
    """

    drop: float = 0.0
    swap: int = 0
    replace: float = 0.0
    mask: float = 0.0
    word_dropout: float = 0.0

    def check(self, streams: Sequence[str]) -> None:
        """Refuse noise that would ask a model for something else than the data does."""
        if "starts" in streams and (self.drop or self.swap):
            raise UsageError("drop and swap would part the words of a source from their tags; replace and mask work")
        if "target" not in streams and (self.drop or self.swap or self.replace or self.mask):
            raise UsageError("noise on a source that is asked for itself would be learned; what is hidden is a Masking")

    def sources(
        self, rows: Mapping[str, Sequence[Row]], factors: Sequence[str], vocabulary: int, keys: Sequence[Key]
    ) -> dict[str, Sequence[Row]]:
        """Rows of each stream with noise in `source`; what stands beside its items, such as `factors`, goes along.

        A factor is hidden where its item is, for it would give it away; of a replaced item it stays.
        """
        if not (self.drop or self.swap or self.replace or self.mask) or "source" not in rows:
            return dict(rows)
        noisy: dict[str, list[Row]] = {name: [] for name in ("source", *factors)}
        for number, key in enumerate(keys):
            places, read = self.noise(np.asarray(rows["source"][number]), vocabulary, key)
            noisy["source"].append(read)
            for name in factors:
                beside = np.asarray(rows[name][number])[places]
                noisy[name].append(np.where(read == MASK, MASK, beside).astype(np.int32))
        return {**rows, **noisy}

    def noise(self, row: npt.NDArray[np.int32], vocabulary: int, key: Key) -> tuple[Places, npt.NDArray[np.int32]]:
        """Of which places of a row items are left, in their new order, and what is read there."""
        dropping, moving, fate, choice = uniform(key, SOURCE, 4 * len(row)).reshape(4, len(row))
        places = kept(dropping, self.drop)
        places = places[order(moving[: len(places)], self.swap)]
        read = row[places].astype(np.int32)
        fate, choice = fate[places], choice[places]
        others = (FIRST_FREE + choice * (vocabulary - FIRST_FREE)).astype(np.int32)
        replaced = fate < self.replace
        masked = ~replaced & (fate < self.replace + self.mask)
        return places, np.where(masked, MASK, np.where(replaced, others, read)).astype(np.int32)

    def inputs(self, batch: Batch, keys: Sequence[Key]) -> Batch:
        """A batch whose decoder reads UNKNOWN in place of some items; START stays, and so does what it is to write."""
        if not self.word_dropout:
            return batch
        counts = batch.mask.sum(1).tolist()
        rows = [
            [False, *(uniform(key, INPUTS, count - 1) < self.word_dropout)]
            for key, count in zip(keys, counts, strict=True)
        ]
        hidden, _ = pad(rows)  # (B, M)
        return replace(batch, inputs=torch.where(hidden.bool(), UNKNOWN, batch.inputs))


def uniform(key: Key, purpose: int, count: int) -> Uniform:
    """Numbers in [0, 1) that belong to a key and a purpose."""
    words = np.random.Philox(np.random.SeedSequence(entropy=key, spawn_key=(purpose,))).random_raw(count)
    numbers: Uniform = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return numbers


def kept(numbers: Uniform, rate: float) -> Places:
    """The places that stay; where none would, the one that is the last to go as the rate rises."""
    places: Places = np.flatnonzero(numbers >= rate)
    return places if len(places) or not len(numbers) else np.array([numbers.argmax()])


def order(numbers: Uniform, furthest: int) -> Places:
    """A permutation σ with |σ(i) - i| <= `furthest`: the order of i + u_i, u_i evenly in [0, furthest + 1)."""
    keys = np.arange(len(numbers)) + numbers * (furthest + 1)
    places: Places = np.argsort(keys, kind="stable")
    return places
