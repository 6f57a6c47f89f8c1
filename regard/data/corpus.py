"""A store as training data: batches of tensors in an order that is a pure function of (seed, epoch, position)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch

from regard.data.batch import Batch
from regard.data.batches import BatchOrder, Cursor, Indices, deal
from regard.data.collation import Collation
from regard.data.corruption import Corruption
from regard.data.store import Store

Redraw = Callable[[str, Sequence[int], tuple[int, ...]], Sequence[int]]
"""Another segmentation of the same text: (stream, ids, key) → ids, a pure function of its arguments."""


NO_EPOCH = 2**32 - 1
"""Stands for the epoch in what is drawn for data that is always the same."""

PLACES = 5
"""So many examples of a batch are named."""


class StoreCorpus:
    """Examples of a store, batched by tokens."""

    def __init__(
        self,
        store: Store,
        collation: Collation,
        *,
        tokens: int,
        seed: int,
        redraw: Redraw | None = None,
        corruption: Corruption | None = None,
    ) -> None:
        self.store = store
        self.collation = collation
        self.seed = seed
        self.redraw = redraw
        self.corruption = corruption
        if corruption is not None:
            corruption.check(collation.streams)
        self._lengths = collation.lengths(store)
        self._order = BatchOrder(self._lengths, tokens=tokens, seed=seed)

    def batches_in_epoch(self) -> int:
        """About how many batches an epoch has; epochs differ by a few."""
        return len(self._order.plan(0))

    def from_(
        self, cursor: Cursor, parts: int, *, rank: int = 0, world: int = 1
    ) -> Iterator[tuple[Cursor, Sequence[Batch]]]:
        """Global batches from a cursor on, for ever, each as micro-batches, with the cursor after it.

        Of several processes each gets what is dealt to its rank, as many micro-batches as the others. Where there are
        fewer rows than those, some are a row of which nothing is asked.
        """
        epoch = cursor.epoch
        for after, rows in self._order.batches_from(cursor):
            count = min(parts * world, -(-len(rows) // world) * world)
            dealt = deal(rows, count, lengths=self._lengths[rows]) if count > 1 else [rows]
            mine = dealt[rank::world]
            yield after, [self.batch(part, epoch) if len(part) else self._stand_in(rows, epoch) for part in mine]
            epoch = after.epoch

    def _stand_in(self, rows: Indices, epoch: int) -> Batch:
        batch = self.batch(rows[:1], epoch)
        return replace(batch, mask=torch.zeros_like(batch.mask))

    def where(self, cursor: Cursor) -> str:
        """Which examples the batch at a cursor is made of, in words."""
        _, rows = next(self._order.batches_from(cursor))
        places = [self.store.place(int(row)) for row in sorted(rows)]
        more = f" and {len(places) - PLACES} more" if len(places) > PLACES else ""
        return f"epoch {cursor.epoch + 1}, batch {cursor.position + 1}: {', '.join(map(str, places[:PLACES]))}{more}"

    def largest(self, parts: int) -> list[Batch]:
        """Micro-batches that need most memory: those with most items, and those with most pairs of items in a row."""
        found = []
        for rows in self._largest:
            count = min(parts, len(rows))
            dealt = deal(rows, count, lengths=self._lengths[rows]) if count > 1 else [rows]
            found.append(self.batch(max(dealt, key=len), 0))
        return found

    @cached_property
    def _largest(self) -> list[Indices]:
        """Their rows, which are the same however batches are split."""
        plan = self._order.plan(0)
        sizes = self._lengths.reshape(len(self._lengths), -1).astype(np.int64) + 1  # (n, S)
        longest = np.stack([sizes[rows].max(axis=0) for rows in plan])  # (B, S)
        counts = np.array([len(rows) for rows in plan])
        places = {int((counts * (longest**power).sum(axis=1)).argmax()) for power in (1, 2)}
        return [plan[place].copy() for place in sorted(places)]

    def once(self) -> Iterator[Batch]:
        """Every pair once, in a fixed order, as it is."""
        for rows in self._order.plan(0):
            yield self.batch(rows, None)

    def batch(self, rows: Indices, epoch: int | None) -> Batch:
        """Some examples as tensors; with an epoch, in its segmentation, with its random choices and its noise."""
        numbers = rows.tolist()
        streams = {name: self._ids(name, rows, epoch) for name in self.collation.streams}
        keys = [(self.seed, NO_EPOCH if epoch is None else epoch, row) for row in numbers]
        if epoch is None or self.corruption is None:
            return self.collation.batch(streams, keys)
        source = self.collation.source
        noisy = self.corruption.sources(streams, source.factor_streams, source.text.size if source.text else 0, keys)
        return self.corruption.inputs(self.collation.batch(noisy, keys), keys)

    def _ids(self, stream: str, rows: Indices, epoch: int | None) -> Sequence[Sequence[int] | npt.NDArray[np.int32]]:
        found = self.store.rows(stream, rows)
        if epoch is None or self.redraw is None:
            return found
        drawn, which = self.redraw, int(stream == "target")
        pairs = zip(rows.tolist(), found, strict=True)
        return [drawn(stream, ids.tolist(), (self.seed, epoch, row, which)) for row, ids in pairs]
