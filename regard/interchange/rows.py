"""The order of a vocabulary: which foreign row stands under which of our ids.

Our reserved ids come first and are the same everywhere (`regard.special`); a foreign vocabulary has its own anywhere.
START is what a foreign decoder is started with, which is often its padding or its end; so one foreign row may stand
under two of our ids. What has no counterpart gets a row of zeros.

PAD and START are never predicted: their output bias is `NEVER`. The log-probabilities of a foreign model that has an
output for padding are therefore ours over all tokens but that one: log p(y) - log(1 - p(padding)).
"""

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from regard.special import END, FIRST_FREE, PAD, START, UNKNOWN

NEVER: Final = -1000.0
"""Beyond reach of any output, and small enough that label smoothing can take the mean over it."""


@dataclass(frozen=True, slots=True)
class Specials:
    """Foreign ids of our reserved ones; None: there is no such token."""

    pad: int
    unknown: int | None
    start: int | None
    end: int


@dataclass(frozen=True, slots=True)
class Rows:
    """For each of our ids the foreign one; `own`: they are ours, with all their probabilities."""

    foreign: tuple[int | None, ...]
    own: bool = False

    @classmethod
    def order(cls, specials: Specials, size: int) -> "Rows":
        """The reserved first, then all others as they were."""
        first = [specials.pad, specials.unknown, specials.start, specials.end]
        assert tuple(range(FIRST_FREE)) == (PAD, UNKNOWN, START, END), "the order of the reserved ids is as above"
        return cls((*first, *(id_ for id_ in range(size) if id_ not in first)))

    @property
    def free(self) -> tuple[int, ...]:
        """Foreign ids from our first free one on."""
        return tuple(id_ for id_ in self.foreign[FIRST_FREE:] if id_ is not None)

    def take(self, table: Tensor) -> Tensor:
        """Rows of a foreign table or vector in our order."""
        missing = torch.tensor([id_ is None for id_ in self.foreign])
        taken = table[torch.tensor([0 if id_ is None else id_ for id_ in self.foreign])]
        return taken.masked_fill(missing.view(-1, *[1] * (table.dim() - 1)), 0.0)

    def bias(self, bias: Tensor) -> Tensor:
        """An output bias that keeps apart what is never predicted."""
        taken = self.take(bias)
        if self.own:
            return taken
        taken[[PAD, START, *(id_ for id_, foreign in enumerate(self.foreign) if foreign is None)]] = NEVER
        return taken
