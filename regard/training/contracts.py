"""What the training loop is given, and what it gives back."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from regard.data.batch import Batch
from regard.data.batches import Cursor
from regard.training.progress import Progress


class Corpus(Protocol):
    """Training data in an order that is a pure function of (seed, epoch, position)."""

    def batches_in_epoch(self) -> int:
        """About how many batches an epoch has."""
        ...

    def from_(
        self, cursor: Cursor, parts: int, *, rank: int = 0, world: int = 1
    ) -> Iterator[tuple[Cursor, Sequence[Batch]]]:
        """Global batches from a cursor on, for ever, each as micro-batches of a rank, with the cursor after it."""
        ...

    def where(self, cursor: Cursor) -> str:
        """Which examples the batch at a cursor is made of, in words."""
        ...


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a validation found. `value` is what checkpoints are compared by, larger is better."""

    loss: float
    value: float
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How training ended."""

    progress: Progress
    reason: str
