"""What decoders ask of an attention, and where their rows stand between two steps.

Shapes: S sentences, K beams, N positions of the memory, H heads, L layers, P parts of a state, D width,
C context width.
"""

from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from regard.models.memory import Memory, lengthen
from regard.nn import Keys
from regard.nn.unrolled import AnyAttention, AttentionLoop, attention_loop


class Attending(Protocol):
    """Any score, any projections, any number of heads."""

    def prepare(self, states: Tensor) -> Keys:
        """Keys and values of a memory (B, N, ·), once for all queries."""
        ...

    def attend(self, queries: Tensor, keys: Keys, mask: Tensor | None) -> Tensor:
        """Context of queries (B, Q, D) → (B, Q, C); `mask` is broadcast to (B, H, Q, N)."""
        ...


@dataclass(frozen=True, slots=True)
class Attended:
    """A prepared memory, once per sentence."""

    keys: Keys  # (S, H, N, ·)
    mask: Tensor  # (S, N)
    folded: Keys | None = None  # with values in which what a decoder does to a context is done already

    @classmethod
    def prepared(cls, attention: Attending, memory: Memory) -> "Attended":
        return cls(keys=attention.prepare(memory.states), mask=memory.mask)

    def with_values(self, values: Tensor) -> "Attended":
        """With these for `folded` values, (S, 1, N, ·)."""
        return replace(self, folded=Keys(keys=self.keys.keys, values=values))

    @property
    def permitted(self) -> Tensor:
        """The mask as attention takes it: (S, 1, 1, N)."""
        return self.mask[:, None, None, :]

    def loop(self, attention: Attending, steps: int) -> AttentionLoop:
        """For one query of each sentence, step after step."""
        own = attention_loop(attention, self.keys, self.mask, steps)
        if own is not None:
            return own
        return AnyAttention(lambda queries: attention.attend(queries, self.keys, self.permitted))

    def select(self, sentences: Tensor) -> "Attended":
        keys = Keys(keys=self.keys.keys[sentences], values=self.keys.values[sentences])
        chosen = Attended(keys=keys, mask=self.mask[sentences])
        return chosen if self.folded is None else chosen.with_values(self.folded.values[sentences])

    def join(self, other: "Attended") -> "Attended":
        items = max(self.mask.size(1), other.mask.size(1))

        def both(one: Tensor, another: Tensor, dim: int) -> Tensor:
            return torch.cat((lengthen(one, items, dim=dim), lengthen(another, items, dim=dim)))

        keys = Keys(
            keys=both(self.keys.keys, other.keys.keys, 2),
            values=both(self.keys.values, other.keys.values, 2),
        )
        joined = Attended(keys=keys, mask=both(self.mask, other.mask, 1))
        if self.folded is None or other.folded is None:
            return joined
        return joined.with_values(both(self.folded.values, other.folded.values, 2))


@dataclass(frozen=True, slots=True)
class RecurrentState:
    """The recurrent states of each row, and what else a decoder carries along.

    Rows are not moved before it is known what of them is needed: where there are `beams`, row k goes on from beams[k].
    """

    cell: Tensor  # (S, K', L, P, D)
    fed: Tensor | None = None  # (S, K', D) what was said last, where it is fed back
    context: Tensor | None = None  # (S, C) one vector per sentence, where it is an input at every step
    attended: Attended | None = None  # the memory, where there is attention
    beams: Tensor | None = None  # (S, K); None: each row goes on from its own

    def select(self, sentences: Tensor | None, beams: Tensor) -> "RecurrentState":
        before = self.beams if self.beams is None or sentences is None else self.beams[sentences]
        beams = beams if before is None else before.gather(1, beams)
        if sentences is None:
            return replace(self, beams=beams)
        return RecurrentState(
            cell=self.cell[sentences.unsqueeze(1), beams],
            fed=None if self.fed is None else self.fed[sentences.unsqueeze(1), beams],
            context=None if self.context is None else self.context[sentences],
            attended=None if self.attended is None else self.attended.select(sentences),
        )

    def settled(self) -> "RecurrentState":
        """The same with all rows in their places."""
        if self.beams is None:
            return self
        rows = torch.arange(self.beams.size(0), device=self.beams.device).unsqueeze(1)
        fed = None if self.fed is None else self.fed[rows, self.beams]
        return replace(self, cell=self.cell[rows, self.beams], fed=fed, beams=None)

    def join(self, other: "RecurrentState") -> "RecurrentState":
        self, other = self.settled(), other.settled()
        attended = None
        if self.attended is not None and other.attended is not None:
            attended = self.attended.join(other.attended)
        return RecurrentState(
            cell=torch.cat((self.cell, other.cell)),
            fed=_both(self.fed, other.fed),
            context=_both(self.context, other.context),
            attended=attended,
        )


def _both(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    return None if one is None or other is None else torch.cat((one, other))
