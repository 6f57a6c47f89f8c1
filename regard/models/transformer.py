"""Transformer encoder and decoder (Vaswani et al. 2017).

Shapes: B rows, N source items, M target items, S sentences, K beams, T items seen so far, G key heads, D width,
E width of a head.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.data.batch import Ids, Source
from regard.models.contracts import Decoder, Encoder, State
from regard.models.memory import Memory, lengthen, masked_mean, unit_spans
from regard.nn import (
    Embedding,
    Keys,
    Site,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
    Variant,
    dropout,
    visit,
)
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

    def encode(self, source: Source) -> Memory:
        """The summary is the mean of the states."""
        assert isinstance(source, Ids)
        states = self.embedding_norm(self.positions(self.embedding.items(source.ids)))
        states = visit(Site("encoder", "embedding"), states)
        states = dropout(states, self.dropout, self.training)  # (B, N, D)
        mask, relations = source.mask[:, None, None, :], self.positions.among(states)
        for layer in self.layers:
            states = layer(states, mask, relations)
        states = self.norm(states)
        return Memory(
            states=states,
            mask=source.mask,
            summary=masked_mean(states, source.mask),
            spans=unit_spans(source.mask),
        )


@dataclass(frozen=True, slots=True)
class TransformerState:
    """Keys and values of what each row has read, aligned at the end: the newest item is the last.

    A sentence that joined later has fewer items; its first columns are padding.
    """

    memory: tuple[Keys, ...]  # per layer (S, G, N, E); empty where there is no source
    memory_mask: Tensor  # (S, N)
    past: tuple[Keys, ...]  # per layer (S, K, G, T, E); empty before the first step
    lengths: Tensor  # (S,) items read

    def select(self, sentences: Tensor | None, beams: Tensor) -> "TransformerState":
        """Rows move by copying their keys and values; the memory moves only with its sentence."""
        if sentences is None:
            from_ = torch.arange(beams.size(0), device=beams.device)
            memory, mask, lengths = self.memory, self.memory_mask, self.lengths
        else:
            from_, mask, lengths = sentences, self.memory_mask[sentences], self.lengths[sentences]
            memory = tuple(Keys(keys=keys.keys[sentences], values=keys.values[sentences]) for keys in self.memory)
        seen = int(lengths.max()) if len(lengths) else 0
        rows = from_.unsqueeze(1)
        past = tuple(
            Keys(
                keys=_newest(keys.keys, seen)[rows, beams],
                values=_newest(keys.values, seen)[rows, beams],
            )
            for keys in self.past
        )
        return TransformerState(memory=memory, memory_mask=mask, past=past, lengths=lengths)

    def join(self, other: "TransformerState") -> "TransformerState":
        items = max(self.memory_mask.size(1), other.memory_mask.size(1))
        return TransformerState(
            memory=tuple(
                _join(*pair, items, front=False, dim=2) for pair in zip(self.memory, other.memory, strict=True)
            ),
            memory_mask=torch.cat((lengthen(self.memory_mask, items), lengthen(other.memory_mask, items))),
            past=self._join_past(other),
            lengths=torch.cat((self.lengths, other.lengths)),
        )

    def _join_past(self, other: "TransformerState") -> tuple[Keys, ...]:
        if not self.past and not other.past:
            return ()
        mine, theirs = self._filled(other), other._filled(self)
        seen = max(mine[0].keys.size(3), theirs[0].keys.size(3))
        return tuple(_join(*pair, seen, front=True, dim=3) for pair in zip(mine, theirs, strict=True))

    def _filled(self, other: "TransformerState") -> tuple[Keys, ...]:
        """The past, or no items in the shape of the other's past."""
        if self.past:
            return self.past
        _, beams, heads, _, size = other.past[0].keys.shape
        nothing = other.past[0].keys.new_zeros(len(self.lengths), beams, heads, 0, size)
        return tuple(Keys(keys=nothing, values=nothing) for _ in other.past)


def _newest(rows: Tensor, seen: int) -> Tensor:
    """The last `seen` items of (S, K, G, T, E)."""
    return rows[:, :, :, rows.size(3) - seen :]


def _join(first: Keys, second: Keys, items: int, *, front: bool, dim: int) -> Keys:
    def both(one: Tensor, other: Tensor) -> Tensor:
        return torch.cat((lengthen(one, items, dim=dim, front=front), lengthen(other, items, dim=dim, front=front)))

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

    @property
    def longest(self) -> int | None:
        return self.positions.longest

    def _layers(self) -> list[TransformerDecoderLayer]:
        return [layer for layer in self.layers if isinstance(layer, TransformerDecoderLayer)]

    def hidden(self, memory: Memory, inputs: Tensor) -> Tensor:
        states = visit(Site("decoder", "embedding"), self.embedding_norm(self.positions(self.embedding(inputs))))
        states = dropout(states, self.dropout, self.training)  # (B, M, D)
        mask, relations = memory.mask[:, None, None, :], self.positions.among(states)
        for layer in self._layers():
            states = layer(states, layer.prepare(memory.states), mask, relations)
        return self.norm(states)

    def start(self, memory: Memory) -> TransformerState:
        return TransformerState(
            memory=tuple(keys for layer in self._layers() if (keys := layer.prepare(memory.states)) is not None),
            memory_mask=memory.mask,
            past=(),
            lengths=torch.zeros(memory.mask.size(0), dtype=torch.long, device=memory.mask.device),
        )

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, TransformerState]:
        assert isinstance(state, TransformerState)
        sentences, beams = tokens.shape
        states = self.embedding_norm(self.positions.step(self.embedding(tokens), state.lengths))  # (S, K, D)
        states = visit(Site("decoder", "embedding"), states)
        mask = state.memory_mask[:, None, None, :]
        lengths = state.lengths + 1
        seen = torch.arange(int(lengths.max()) if sentences else 0, device=lengths.device)
        past_mask = seen >= seen.numel() - lengths.unsqueeze(1)  # (S, T)
        past_mask = past_mask.repeat_interleave(beams, dim=0)[:, None, None, :]
        relations = self.positions.newest(states, state.lengths, seen.numel())
        new: list[Keys] = []
        for index, layer in enumerate(self._layers()):
            past = _rows(state.past[index]) if state.past else None
            memory = state.memory[index] if state.memory else None
            states, keys = layer.step(states, past, past_mask, memory, mask, relations)
            new.append(_grid(keys, sentences, beams))
        return self.norm(states), TransformerState(
            memory=state.memory, memory_mask=state.memory_mask, past=tuple(new), lengths=lengths
        )


def _rows(keys: Keys) -> Keys:
    """(S, K, G, T, E) → (S·K, G, T, E)."""
    return Keys(keys=keys.keys.flatten(0, 1), values=keys.values.flatten(0, 1))


def _grid(keys: Keys, sentences: int, beams: int) -> Keys:
    """(S·K, G, T, E) → (S, K, G, T, E)."""
    shape = (sentences, beams)
    return Keys(keys=keys.keys.unflatten(0, shape), values=keys.values.unflatten(0, shape))
