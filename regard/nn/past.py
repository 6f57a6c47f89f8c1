"""What the rows of a search have read, kept once for all beams of a sentence.

Each step leaves an entry, a key and a value, for each row. Entries never move when beams do: a row that continues
another one copies nothing, for a table says which entries it sees, and all beams of a sentence look at the entries of
all in one product. Beams soon have the same past, so entries that no row sees any more are dropped whenever room is
needed; what is left is little more than what one row has read. Samples share almost nothing: where there are many of
them, each row looks at its own entries alone.

Shapes: S sentences, K beams, C entries of a sentence, R room for them, T items seen so far, D width, G key heads,
E width of a head.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import torch
from torch import Tensor
from torch.nn import functional

from regard.nn.attention import Attention, Keys
from regard.nn.relations import Relations
from regard.nn.sites import watched

STEPS: Final = 4
LEAST: Final = 16
"""Room is made for the entries of so many steps, and for so many at least."""

MANY: Final = 128
APART: Final = 4
"""So many rows, with so many times the entries of one, are faster apart; measured, 64 rows are not."""


@dataclass(slots=True)
class Room:
    """Tensors that several states share: each sees the entries it knows of, and one alone may write behind the last."""

    keys: list[Tensor] = field(default_factory=list)  # per layer (S, R, G, ·)
    values: list[Tensor] = field(default_factory=list)  # per layer (S, R, G, E)
    filled: int = 0

    @property
    def size(self) -> int:
        return self.keys[0].size(1) if self.keys else 0

    def write(self, layer: int, entries: slice, keys: Tensor, values: Tensor) -> None:
        """Put the entries of a step (S, K, G, ·) behind all others of a layer."""
        for kept, rows in ((self.keys, keys), (self.values, values)):
            if layer == len(kept):
                shape = len(rows), entries.stop + LEAST, *rows.shape[2:]
                kept.append(rows.new_empty(shape))
            if torch.is_grad_enabled():  # what a gradient goes through must not be written over
                kept[layer] = torch.cat((kept[layer][:, : entries.start], rows), dim=1)
            else:
                kept[layer][:, entries] = rows

    def pick(self, sentences: Tensor | None, order: Tensor, spare: int) -> "Room":
        """Entries (S', C') of given sentences, with room for more behind them."""
        if not self.keys:
            return Room()
        places = torch.arange(len(order), device=order.device) if sentences is None else sentences
        wanted = functional.pad(order, (0, spare)) + places.unsqueeze(1) * self.size  # spare room holds the first entry
        flat, shape = wanted.flatten(), wanted.shape

        def picked(each: list[Tensor]) -> list[Tensor]:
            return [one.flatten(0, 1).flatten(1).index_select(0, flat).view(*shape, *one.shape[2:]) for one in each]

        return Room(keys=picked(self.keys), values=picked(self.values), filled=order.size(1))


@dataclass(frozen=True, slots=True)
class Past:
    """Which entries each row sees, as what is added to scores: 0, or -∞ for those of other rows."""

    room: Room
    seen: Tensor  # (S, K, C)

    @classmethod
    def start(cls, sentences: int, like: Tensor) -> "Past":
        """One row for each sentence, which has read nothing."""
        return cls(room=Room(), seen=like.new_zeros(sentences, 1, 0))

    def select(self, sentences: Tensor | None, beams: Tensor) -> "Past":
        """The grid whose row (s, k) goes on from row (sentences[s], beams[s, k]); see `State.select`."""
        seen = self.seen if sentences is None else self.seen[sentences]
        seen = seen.gather(1, beams.unsqueeze(2).expand(-1, -1, seen.size(2)))
        if sentences is None:
            return replace(self, seen=seen)
        return replace(self, seen=seen)._compact(sentences, beams.size(1))

    def _compact(self, sentences: Tensor | None, beams: int) -> "Past":
        """Entries that some row sees, in their order, with room for further steps; `seen` is that of the sentences."""
        rows, width = self.seen.shape[1:]
        alive = self.seen.amax(1) == 0  # (S, C)
        kept = int(alive.sum(1).max()) if alive.numel() else 0
        order = torch.arange(width, device=alive.device).expand(alive.shape)
        seen = self.seen
        if kept < width:
            order = alive.to(torch.int8).sort(dim=1, descending=True, stable=True).indices[:, :kept]
            seen = seen.gather(2, order.unsqueeze(1).expand(-1, rows, -1))
        return Past(room=self.room.pick(sentences, order, max(LEAST, STEPS * beams)), seen=seen)

    def join(self, other: "Past") -> "Past":
        """The sentences of both, which have the same number of rows each."""
        width = max(self.seen.size(2), other.seen.size(2))
        seen = torch.cat([_unseen(one.seen, width) for one in (self, other)])
        if not self.room.keys and not other.room.keys:
            return Past(room=Room(), seen=seen)
        both = [(one.room, one.seen) for one in (self, other)]
        return Past(
            room=Room(
                keys=_laid_out([(room.keys, known) for room, known in both], width, seen.size(1)),
                values=_laid_out([(room.values, known) for room, known in both], width, seen.size(1)),
                filled=width,
            ),
            seen=seen,
        )

    def add(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Write the newest entries (S, K, G, ·) of a layer; all its keys and values (S, G, C, ·)."""
        room, entries = self.room, self.seen.size(2)
        room.write(layer, slice(entries - keys.size(1), entries), keys, values)
        return room.keys[layer][:, :entries].transpose(1, 2), room.values[layer][:, :entries].transpose(1, 2)

    def scattered(self, lengths: Tensor) -> bool:
        """Whether many rows share little of the items (S,) that they have read; the newest entries may be dead."""
        rows, entries = self.seen.shape[1:]
        return rows >= MANY and len(lengths) > 0 and entries - STEPS * rows > APART * int(lengths.max())

    def grow(self, beams: int) -> "Past":
        """With room for one more entry of each row, which that row sees."""
        entries = self.seen.size(2)
        past = self
        if torch.is_grad_enabled():
            past = replace(self, room=Room(keys=list(self.room.keys), values=list(self.room.values)))
        elif self.room.keys and (self.room.filled != entries or self.room.size < entries + beams):
            past = self._compact(None, beams)
        elif not self.room.keys:
            past = replace(self, room=Room())
        own = torch.full((beams, beams), -math.inf, dtype=self.seen.dtype, device=self.seen.device).fill_diagonal_(0.0)
        seen = torch.cat((past.seen, own.expand(len(self.seen), -1, -1)), dim=2)
        past.room.filled = seen.size(2)
        return replace(past, seen=seen)


def _unseen(seen: Tensor, width: int) -> Tensor:
    return functional.pad(seen, (0, width - seen.size(2)), value=-math.inf)


def _laid_out(parts: Sequence[tuple[list[Tensor], Tensor]], width: int, beams: int) -> list[Tensor]:
    """The layers of several rooms below each other; one that holds nothing yet gets zeros."""
    shapes = next(layers for layers, _ in parts if layers)
    size = sum(len(known) for _, known in parts), width + max(LEAST, STEPS * beams)
    made = [like.new_zeros(*size, *like.shape[2:]) for like in shapes]
    first = 0
    for layers, known in parts:
        for room, layer in zip(made, layers, strict=False):
            room[first : first + len(known), : known.size(2)] = layer[:, : known.size(2)]
        first += len(known)
    return made


class Reading:
    """One step of all layers: each writes what it has read into a past that has grown, and looks at it."""

    def __init__(self, past: Past, turns: Relations | None, each: Relations | None, lengths: Tensor) -> None:
        """`turns` are those of the items at hand, `each` is how the newest item of each row stands to all up to it."""
        self.past = past
        self.lengths = lengths  # (S,) items read, this one included
        self.each = each
        self.turns = None if turns is None else turns.turns
        self.shared = Relations(bias=past.seen.unsqueeze(1), turns=self.turns)
        self.scattered = past.scattered(lengths)
        self._rows: tuple[Tensor, Tensor] | None = None

    def attend(self, attention: Attention, layer: int, inside: Tensor) -> Tensor:
        """What each row (S, K, D) finds in what it has read: (S, K, D)."""
        new = attention.prepare(inside, None if self.turns is None else self.shared)
        keys, values = self.past.add(layer, new.keys.transpose(1, 2), new.values.transpose(1, 2))
        related = self.each is not None and self.each.bias is not None
        if self.scattered or related or attention.apart or watched(attention.site):
            return self._apart(attention, layer, inside)
        return attention.attend(inside, Keys(keys=keys, values=values), None, relations=self.shared)

    def _apart(self, attention: Attention, layer: int, inside: Tensor) -> Tensor:
        """The same with the own entries of each row, in their order."""
        sentences, beams, width = inside.shape
        if self._rows is None:
            self._rows = self._order()
        places, mask = self._rows
        room = self.past.room

        def rows(entries: Tensor) -> Tensor:
            picked = entries.flatten(0, 1)[
                places + torch.arange(sentences, device=places.device).view(-1, 1, 1) * entries.size(1)
            ]
            return picked.flatten(0, 1).transpose(1, 2)  # (S·K, G, T, ·)

        keys = Keys(keys=rows(room.keys[layer]), values=rows(room.values[layer]))
        queries = inside.reshape(sentences * beams, 1, width)
        return attention.attend(queries, keys, mask, relations=self.each).view(sentences, beams, -1)

    def _order(self) -> tuple[Tensor, Tensor]:
        """The entries of each row (S, K, T), the newest last, and which of them are its own (S·K, 1, 1, T)."""
        longest = int(self.lengths.max()) if len(self.lengths) else 0
        own = self.past.seen == 0
        items = torch.arange(longest, device=own.device)
        mask = items >= longest - self.lengths.unsqueeze(1)  # (S, T)
        order = mask.new_zeros(*own.shape[:2], longest, dtype=torch.long)
        order[mask.unsqueeze(1).expand(order.shape)] = own.nonzero()[:, 2]
        return order, mask.repeat_interleave(own.size(1), dim=0)[:, None, None, :]
