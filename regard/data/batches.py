"""Which examples make up which step: a pure function of (seed, epoch, position).

The state of the whole loader is a `Cursor` of two integers, so any number of workers or ranks continues exactly where
another one stopped. Random numbers are the raw words of a counter-based generator (Philox), whose stream numpy
guarantees to stay the same, put in order by a stable sort.

    n examples, S streams, B batches of an epoch
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from regard.errors import DataError, UsageError

Indices = npt.NDArray[np.int64]
Lengths = npt.NDArray[np.integer[Any]]

EXAMPLES: Final = 0
BATCHES: Final = 1
WINDOW_BATCHES: Final = 256
"""Examples are sorted by length within windows of about so many batches: enough for little padding, and few enough
that the batches of a large corpus differ from epoch to epoch."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place between two steps: `position` batches of `epoch` are done."""

    epoch: int = 0
    position: int = 0


def random_order(n: int, *, seed: int, epoch: int, purpose: int) -> Indices:
    """A permutation of n that is the same for the same numbers, on any machine and with any release of numpy."""
    words = np.random.Philox(np.random.SeedSequence(entropy=(seed, epoch), spawn_key=(purpose,))).random_raw(n)
    order: Indices = np.argsort(words, kind="stable")
    return order


def epoch_order(n: int, *, seed: int, epoch: int) -> Indices:
    """The order in which an epoch visits n examples, before they are put into batches."""
    return random_order(n, seed=seed, epoch=epoch, purpose=EXAMPLES)


def plan_epoch(lengths: Lengths, *, tokens: int, seed: int, epoch: int) -> list[Indices]:
    """The batches of an epoch: each example once, `rows × (longest + 1) <= tokens` in every stream.

    `lengths` is (n,) or (n, S), without the end token that the 1 is for. Examples are shuffled, sorted by length within
    windows, cut into batches, and the batches are shuffled. An example that is too long for `tokens` is a batch alone.
    """
    if tokens < 1:
        raise UsageError(f"a batch needs room for at least 1 token, and {tokens} were asked for")
    sizes = _sizes(lengths)  # (n, S)
    if not len(sizes):
        return []
    order = _by_length(sizes, epoch_order(len(sizes), seed=seed, epoch=epoch), tokens)  # (n,)
    ends = _cut(sizes[order].max(axis=1), tokens)  # (B,)
    batches = np.split(order, ends[:-1])
    return [batches[index] for index in random_order(len(batches), seed=seed, epoch=epoch, purpose=BATCHES)]


class BatchOrder:
    """All batches of all epochs over one corpus."""

    def __init__(self, lengths: Lengths, *, tokens: int, seed: int) -> None:
        self._lengths = lengths
        self._tokens = tokens
        self._seed = seed
        if not len(lengths):
            raise DataError("there are no examples to make batches of")

    def plan(self, epoch: int) -> list[Indices]:
        """The batches of one epoch."""
        return plan_epoch(self._lengths, tokens=self._tokens, seed=self._seed, epoch=epoch)

    def batches_from(self, cursor: Cursor) -> Iterator[tuple[Cursor, Indices]]:
        """Batches from a cursor on, each with the cursor that stands behind it, epoch after epoch without an end.

        Behind the last batch of an epoch stands the beginning of the next.
        """
        epoch, position = cursor.epoch, cursor.position
        while True:
            plan = self.plan(epoch)
            if not 0 <= position <= len(plan):
                raise DataError(
                    f"epoch {epoch} has {len(plan)} batches, and {position} are said to be done: the data or the "
                    "batch size changed since. Go on with the data it was started with, or start anew"
                )
            for number in range(position, len(plan)):
                last = number + 1 == len(plan)
                yield Cursor(epoch + 1, 0) if last else Cursor(epoch, number + 1), plan[number]
            epoch, position = epoch + 1, 0


def deal(batch: Indices, parts: int, *, lengths: Lengths | None = None) -> list[Indices]:
    """Split a batch for ranks or micro-batches: each row once, tokens spread as evenly as a greedy hand can.

    `lengths` belongs to the rows of the batch, (rows,) or (rows, S): the longest rows are dealt first, each to the part
    with the fewest tokens. Without lengths all rows count the same and go round in turn, which is even for the batches
    of `plan_epoch`, whose rows lie by length. With fewer rows than parts, some parts are empty. Rows keep their order.
    """
    if parts < 1:
        raise UsageError(f"a batch cannot be dealt to {parts} parts")
    if lengths is not None and len(lengths) != len(batch):
        raise UsageError(f"{len(lengths)} lengths were given for a batch of {len(batch)} rows")
    sizes = np.ones(len(batch), dtype=np.int64) if lengths is None else _sizes(lengths).sum(axis=1)  # (rows,)
    loads = [0] * parts
    owner = np.empty(len(batch), dtype=np.int64)
    for row in np.argsort(-sizes, kind="stable"):
        part = loads.index(min(loads))
        owner[row] = part
        loads[part] += int(sizes[row])
    return [batch[owner == part] for part in range(parts)]


def _sizes(lengths: Lengths) -> npt.NDArray[np.int64]:
    """(n, S), with one more token for the end."""
    wide = lengths.astype(np.int64) + 1
    return wide if wide.ndim == 2 else wide[:, None]


def _by_length(sizes: npt.NDArray[np.int64], order: Indices, tokens: int) -> Indices:
    """Bring alike lengths together.

    Within a window by the longest side, then by how much the first side is longer than the last. Every second window,
    and within it every second length, runs backwards, so that neighbours are alike across the seams as well.
    """
    window = max(1, int(WINDOW_BATCHES * tokens / sizes.max(axis=1).mean()))
    pieces = []
    for start in range(0, len(order), window):
        rows = order[start : start + window]
        longest = sizes[rows].max(axis=1)
        lean = sizes[rows, 0] - sizes[rows, -1]
        inner = np.lexsort((np.where(longest % 2, lean, -lean), longest))
        pieces.append(rows[inner if start // window % 2 == 0 else inner[::-1]])
    return np.concatenate(pieces)


def _cut(longest: npt.NDArray[np.int64], tokens: int) -> list[int]:
    """Ends of batches, each as long as `rows × longest row <= tokens` allows, at least one row."""
    ends = []
    start, reach = 0, 64
    while start < len(longest):
        while True:
            ahead = np.maximum.accumulate(longest[start : start + reach])
            rows = int(np.searchsorted(ahead * np.arange(1, len(ahead) + 1), tokens, side="right"))
            if rows < len(ahead) or start + reach >= len(longest):
                break
            reach *= 2
        start += max(rows, 1)
        ends.append(start)
        reach = 2 * rows + 16
    return ends
