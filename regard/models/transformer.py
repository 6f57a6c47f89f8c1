"""Transformer encoder and decoder (Vaswani et al. 2017).

Shapes: B rows, N source items, M target items, S sentences, K beams, G key heads, D width, E width of a head.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Self, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.data.batch import Ids, Source
from regard.kernels.steps import StepLayers, steps
from regard.models.contracts import Decoder, Encoder, State
from regard.models.memory import Memory, lengthen, masked_mean, unit_spans
from regard.nn import (
    Embedding,
    Keys,
    SinusoidalPositions,
    Site,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
    Variant,
    dropout,
    visit,
)
from regard.nn.kept import Kept, is_fixed
from regard.nn.lean import LeanLayer, lean_layers
from regard.nn.past import Past, Reading, Room
from regard.nn.plain import is_plain, is_whole
from regard.nn.single import KINDS, Folded, Folding, SinglePast, native_layers, single_step
from regard.nn.sites import anyone_watches
from regard.nn.transformer import PAPER


class TransformerEncoder(Encoder):
    """Self-attention layers over embedded tokens."""

    def __init__(
        self,
        *,
        embedding: Embedding,
        layers: int,
        heads: int,
        inner: int,
        norm_first: bool,
        dropout: float,
        variant: Variant = PAPER,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.memory_width = self.summary_width = width = embedding.width
        self.dropout = dropout
        scaled = embedding.scale != 1.0
        self.positions = variant.build_positions(width=width, heads=heads, causal=False, scaled=scaled)
        self.layers = nn.ModuleList(
            TransformerEncoderLayer(
                width=width,
                heads=heads,
                inner=inner,
                norm_first=norm_first,
                dropout=dropout,
                layer=layer,
                variant=variant,
            )
            for layer in range(layers)
        )
        self.embedding_norm = variant.build_norm(width) if variant.embedding_norm else nn.Identity()
        self.norm = variant.build_norm(width) if norm_first else nn.Identity()
        self._kept: Kept[tuple[LeanLayer, ...]] = Kept()

    def train(self, mode: bool = True) -> Self:
        """Forgets what was laid out for search."""
        self._kept.forget()
        return super().train(mode)

    def _layers(self) -> list[TransformerEncoderLayer]:
        return cast("list[TransformerEncoderLayer]", list(self.layers))  # or what stands in their place

    def _read(self, states: Tensor, source: Ids) -> Tensor:
        """All layers: (B, N, D) → (B, N, D)."""
        mask, relations = source.mask[:, None, None, :], self.positions.among(states)
        if relations is None and is_fixed(self) and not anyone_watches() and is_whole(self.layers):
            lean = self._kept.get(self.layers, lambda: lean_layers(self._layers()))
            if lean:
                grid, rows = (states.size(0), states.size(1)), states.flatten(0, 1)
                hides = None if bool(source.mask.all()) else mask
                for one in lean:
                    rows = one.read(rows, grid, hides)
                return rows.view(states.shape)
        for layer in self.layers:
            states = layer(states, mask, relations)
        return states

    def encode(self, source: Source) -> Memory:
        """The summary is the mean of the states."""
        assert isinstance(source, Ids)
        states = self.embedding_norm(self.positions(self.embedding.items(source.ids)))
        states = visit(Site("encoder", "embedding"), states)
        states = dropout(states, self.dropout, self.training)  # (B, N, D)
        states = self.norm(self._read(states, source))
        return Memory(
            states=states,
            mask=source.mask,
            summary=masked_mean(states, source.mask),
            spans=unit_spans(source.mask),
        )


class TransformerState(ABC):
    """Where rows stand: those of a grid, or those of one sentence that is searched alone."""

    __slots__ = ()

    @abstractmethod
    def select(self, sentences: Tensor | None, beams: Tensor) -> "TransformerState": ...

    @abstractmethod
    def join(self, other: "TransformerState") -> "TransformerState": ...

    @abstractmethod
    def wide(self) -> "GridState":
        """The same as the state of a grid."""


@dataclass(frozen=True, slots=True)
class GridState(TransformerState):
    """The memory of each sentence, and what its rows have read."""

    memory: tuple[Keys, ...]  # per layer (S, G, N, E); empty where there is no source
    memory_mask: Tensor  # (S, N)
    padded: bool  # whether the mask hides anything
    past: Past
    lengths: Tensor  # (S,) items read
    lean: tuple[LeanLayer, ...] = ()  # the layers as plain calls, where they have the usual parts

    def select(self, sentences: Tensor | None, beams: Tensor) -> "GridState":
        """Beams move in a table; what was read, and the memory, move with their sentence only."""
        past = self.past.select(sentences, beams)
        if sentences is None:
            return replace(self, past=past)
        return GridState(
            memory=tuple(Keys(keys=keys.keys[sentences], values=keys.values[sentences]) for keys in self.memory),
            memory_mask=self.memory_mask[sentences],
            padded=self.padded,
            past=past,
            lengths=self.lengths[sentences],
            lean=self.lean,
        )

    def wide(self) -> "GridState":
        """The state of a grid, which this one is."""
        return self

    def join(self, other: TransformerState) -> "GridState":
        other = other.wide()
        mine, theirs = self.memory_mask.size(1), other.memory_mask.size(1)
        items = max(mine, theirs)
        return GridState(
            memory=tuple(_join(*pair, items) for pair in zip(self.memory, other.memory, strict=True)),
            memory_mask=torch.cat((lengthen(self.memory_mask, items), lengthen(other.memory_mask, items))),
            padded=self.padded or other.padded or mine != theirs,
            past=self.past.join(other.past),
            lengths=torch.cat((self.lengths, other.lengths)),
            lean=self.lean,
        )


@dataclass(frozen=True, slots=True)
class SingleState(TransformerState):
    """Where the rows of one sentence stand that is searched alone; a grid again as soon as it is asked for more."""

    memory: Folded
    past: SinglePast
    length: int  # items read
    lean: "Lean"
    beginning: Callable[[], GridState]  # the state of the same sentence before the first item

    def select(self, sentences: Tensor | None, beams: Tensor) -> TransformerState:
        if sentences is not None:
            return self.wide().select(sentences, beams)
        return SingleState(self.memory, self.past.select(beams[0].numpy()), self.length, self.lean, self.beginning)

    def wide(self) -> GridState:
        """The state of a grid with this one sentence."""
        state = self.beginning()
        keys, values, seen = self.past.own()
        room = Room(keys=keys, values=values, filled=self.past.entries) if self.past.entries else Room()
        return replace(state, past=Past(room=room, seen=seen), lengths=state.lengths + self.length)

    def join(self, other: TransformerState) -> GridState:
        return self.wide().join(other)


@dataclass(frozen=True, slots=True)
class Lean:
    """The layers of a decoder as plain calls, where they have the usual parts; and what folds the memory of one."""

    layers: tuple[LeanLayer, ...] = ()
    folding: Folding | None = None
    native: StepLayers | None = None

    @classmethod
    def of(cls, layers: Sequence[TransformerDecoderLayer]) -> "Lean":
        lean = lean_layers(layers)
        folding = Folding.of(layers, lean)
        return cls(lean, folding, None if folding is None else native_layers(lean))


def _join(first: Keys, second: Keys, items: int) -> Keys:
    def both(one: Tensor, other: Tensor) -> Tensor:
        return torch.cat((lengthen(one, items, dim=2), lengthen(other, items, dim=2)))

    return Keys(keys=both(first.keys, second.keys), values=both(first.values, second.values))


class TransformerDecoder(Decoder):
    """Masked self-attention and cross-attention layers over the target read so far.

    With a `memory_width` of None there is no cross-attention: a language model.
    """

    parallel = True

    def __init__(
        self,
        *,
        embedding: Embedding,
        output: nn.Linear,
        memory_width: int | None,
        layers: int,
        heads: int,
        inner: int,
        norm_first: bool,
        dropout: float,
        variant: Variant = PAPER,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.output = output
        self.dropout = dropout
        width = embedding.width
        scaled = embedding.scale != 1.0
        self.positions = variant.build_positions(width=width, heads=heads, causal=True, scaled=scaled)
        self.layers = nn.ModuleList(
            TransformerDecoderLayer(
                width=width,
                memory_width=memory_width,
                heads=heads,
                inner=inner,
                norm_first=norm_first,
                dropout=dropout,
                layer=layer,
                variant=variant,
            )
            for layer in range(layers)
        )
        self.embedding_norm = variant.build_norm(width) if variant.embedding_norm else nn.Identity()
        self.norm = variant.build_norm(width) if norm_first else nn.Identity()
        self._kept: Kept[Lean] = Kept()

    @property
    def longest(self) -> int | None:
        return self.positions.longest

    def _layers(self) -> list[TransformerDecoderLayer]:
        return cast("list[TransformerDecoderLayer]", list(self.layers))  # or what stands in their place

    def hidden(self, memory: Memory, inputs: Tensor) -> Tensor:
        states = visit(Site("decoder", "embedding"), self.embedding_norm(self.positions(self.embedding(inputs))))
        states = dropout(states, self.dropout, self.training)  # (B, M, D)
        mask, relations = memory.mask[:, None, None, :], self.positions.among(states)
        for layer in self._layers():
            states = layer(states, layer.prepare(memory.states), mask, relations)
        return self.norm(states)

    def start(self, memory: Memory) -> TransformerState:
        lean = self._lean()
        folding, states = lean.folding, memory.states
        alone = folding is not None and len(states) == 1 and states.dtype in KINDS and states.device.type == "cpu"
        alone = alone and is_plain(self.embedding, Embedding)  # whose table is read without calling it
        if not alone or folding is None or not folding.fits(*states.shape[1:]) or not bool(memory.mask.all()):
            return self._start(memory, lean)
        return SingleState(
            memory=folding.fold(states[0]),
            past=SinglePast.start(lean.layers, states),
            length=0,
            lean=lean,
            beginning=partial(self._start, memory, lean),
        )

    def _start(self, memory: Memory, lean: Lean) -> GridState:
        sentences = memory.mask.size(0)
        return GridState(
            memory=tuple(keys for layer in self._layers() if (keys := layer.prepare(memory.states)) is not None),
            memory_mask=memory.mask,
            padded=not bool(memory.mask.all()),
            past=Past.start(sentences, memory.states),
            lengths=torch.zeros(sentences, dtype=torch.long, device=memory.mask.device),
            lean=lean.layers,
        )

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, TransformerState]:
        assert isinstance(state, TransformerState)
        lean = is_fixed(self) and not anyone_watches()
        if lean and isinstance(state, SingleState):
            return self._single(tokens, state)
        return self._wide(tokens, state.wide(), lean=lean)

    def _wide(self, tokens: Tensor, state: GridState, *, lean: bool) -> tuple[Tensor, GridState]:
        """One more token in each row of a grid; `lean`: with plain calls, where there are any."""
        states = self.embedding_norm(self.positions.step(self.embedding(tokens), state.lengths))  # (S, K, D)
        states = visit(Site("decoder", "embedding"), states)
        mask = state.memory_mask[:, None, None, :] if state.padded else None
        past, lengths = state.past.grow(tokens.size(1)), state.lengths + 1
        memory = state.memory or (None,) * len(self.layers)
        if lean and state.lean and not past.scattered(lengths):
            seen, grid, rows = past.seen.unsqueeze(1), (tokens.size(0), tokens.size(1)), states.flatten(0, 1)
            for one, keys in zip(state.lean, memory, strict=True):
                rows = one.step(rows, grid, past, seen, keys, mask)
            states = rows.view(states.shape)
        else:
            reading = self._reading(states, past, lengths)
            for layer, keys in zip(self._layers(), memory, strict=True):
                states = layer.step(states, reading, keys, mask)
        return self.norm(states), replace(state, past=past, lengths=lengths)

    def _single(self, tokens: Tensor, state: SingleState) -> tuple[Tensor, SingleState]:
        """One more token in each row of one sentence."""
        added, scale, past = self.positions.added, self.embedding.scale, state.past.grow()
        rows = functional.embedding(tokens[0], self.embedding.weight)  # (K, D)
        if isinstance(added, SinusoidalPositions) and state.length < len(added.table):
            rows = torch.add(added.table[state.length], rows, alpha=scale)
        else:
            rows = self.positions.step((rows * scale).unsqueeze(0), torch.tensor([state.length])).squeeze(0)
        rows, lean, memory = self.embedding_norm(rows), state.lean, state.memory
        if lean.native is not None and steps(rows):
            looked = memory.keys, memory.bias, memory.values
            rows = lean.native.step(rows, looked, past.pages.entries, past.seen, past.entries)
        else:
            rows = single_step(lean.layers, memory, past, rows)
        after = SingleState(state.memory, past, state.length + 1, state.lean, state.beginning)
        return self.norm(rows).unsqueeze(0), after

    def train(self, mode: bool = True) -> Self:
        """Forgets what was laid out for search."""
        self._kept.forget()
        return super().train(mode)

    def _lean(self) -> Lean:
        """The layers as plain calls; none where one of them, or their positions, cannot be had so."""
        if self.positions.related is not None or not is_fixed(self) or not is_whole(self.layers):
            return Lean()
        return self._kept.get(self.layers, lambda: Lean.of(self._layers()))

    def _reading(self, states: Tensor, past: Past, lengths: Tensor) -> Reading:
        if self.positions.related is None:
            return Reading(past, None, None, lengths)
        longest = int(lengths.max()) if len(lengths) else 0
        here, each = (self.positions.newest(part, lengths - 1, longest) for part in (states[:, :1], states))
        return Reading(past, here, each, lengths)
