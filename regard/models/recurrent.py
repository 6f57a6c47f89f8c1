"""Recurrent encoders: one- or two-way, deep, reversed, pyramid, with or without self-attention on top.

Shapes: B rows, N source items or positions of the memory, C memory width, D state width, P parts of a state.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from regard.data.batch import Ids, Source
from regard.models.attending import Attending
from regard.models.contracts import Encoder
from regard.models.memory import Memory, masked_mean, unit_spans
from regard.nn import Embedding, Recurrent, Site, StateSize, dropout, reverse, visit
from regard.nn.recurrent import pairs


class RecurrentEncoder(Encoder):
    """A recurrent network over embedded tokens.

    The summary is the final state of the last layer in each direction, →h_N and ←h_1; with `summary="backward"` only
    ←h_1, which has read the whole source and stopped at its first word (Bahdanau et al. 2015, A.2.2, start their
    decoder from it). With `backwards` the source is read from its last item to its first (Sutskever et al. 2014,
    section 3.3); the memory stands in the order of reading, and its spans say which item a position stands for.
    """

    def __init__(
        self,
        *,
        embedding: Embedding,
        network: Recurrent,
        dropout: float,
        summary: Literal["all", "backward"] = "all",
        backwards: bool = False,
    ) -> None:
        super().__init__()
        two_way = len(network.directions) == 2
        if summary == "backward" and not two_way:
            raise ValueError("a one-way encoder has no backward state to sum up with")
        if backwards and two_way:
            raise ValueError("a two-way encoder reads from both ends already")
        self.embedding = embedding
        self.network = network
        self.dropout = dropout
        self.summary = summary
        self.backwards = backwards
        self.memory_width = network.output_width
        self.summary_width = network.width if summary == "backward" else self.memory_width
        self.finals = network.size

    def encode(self, source: Source) -> Memory:
        assert isinstance(source, Ids)
        ids, spans = source.ids, unit_spans(source.mask)
        if self.backwards:
            ids, spans = reverse(ids, source.mask), reverse(spans, source.mask)
        embedded = visit(Site("encoder", "embedding"), self.embedding.items(ids))
        run = self.network(dropout(embedded, self.dropout, self.training), source.mask)
        mask = source.mask
        while mask.size(1) > run.outputs.size(1):
            spans, mask = halved(spans, mask)
        final = run.finals[-1][:, 0]  # (B, C)
        return Memory(
            states=dropout(run.outputs, self.dropout, self.training),
            mask=mask,
            summary=final[:, self.network.width :] if self.summary == "backward" else final,
            spans=spans,
            layers=run.finals,
        )


def halved(spans: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Spans and mask of a memory whose neighbours became one: (B, N, 2), (B, N) → (B, ⌈N/2⌉, 2), (B, ⌈N/2⌉)."""
    both, real = pairs(spans), pairs(mask.unsqueeze(-1)).squeeze(-1)  # (B, N', 2, 2), (B, N', 2)
    first, second = both.unbind(2)
    start, end = torch.minimum(first[..., 0], second[..., 0]), torch.maximum(first[..., 1], second[..., 1])
    joined = torch.stack((start, end), dim=-1)
    return torch.where(real[..., 1:], joined, first), real[..., 0]


class SelfAttentiveEncoder(Encoder):
    """Another encoder, and a layer of self-attention over its states: h + attention(h), normalised.

    The summary is the mean of the new states; there are no final states of layers any more.
    """

    def __init__(self, *, encoder: Encoder, attention: Attending, dropout: float) -> None:
        super().__init__()
        self.encoder = encoder
        self.attention = attention
        self.dropout = dropout
        self.memory_width = self.summary_width = encoder.memory_width
        self.norm = nn.LayerNorm(encoder.memory_width)

    def encode(self, source: Source) -> Memory:
        memory = self.encoder.encode(source)
        context = self.attention.attend(
            memory.states, self.attention.prepare(memory.states), memory.mask[:, None, None, :]
        )
        states = self.norm(memory.states + dropout(context, self.dropout, self.training))
        return Memory(states=states, mask=memory.mask, summary=masked_mean(states, memory.mask), spans=memory.spans)


class BagEncoder(Encoder):
    """A bag of words: the summary is the mean of the embeddings (CBOW: Mikolov et al. 2013, section 3.1).

    The memory are the embeddings themselves, without any order.
    """

    def __init__(self, *, embedding: Embedding, dropout: float) -> None:
        super().__init__()
        self.embedding = embedding
        self.dropout = dropout
        self.memory_width = self.summary_width = embedding.width
        self.finals = StateSize(layers=1, parts=1, width=embedding.width)

    def encode(self, source: Source) -> Memory:
        assert isinstance(source, Ids)
        embedded = visit(Site("encoder", "embedding"), self.embedding.items(source.ids))
        states = dropout(embedded, self.dropout, self.training)
        summary = masked_mean(states, source.mask)
        return Memory(
            states=states,
            mask=source.mask,
            summary=summary,
            spans=unit_spans(source.mask),
            layers=(summary.unsqueeze(1),),
        )
