"""A recurrent encoder, and the attentive decoder of Bahdanau et al. 2015.

Shapes: B rows, N source items, M target items, S sentences, K beams, D width, C memory width, V vocabulary.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from regard.data.batch import Ids, Source
from regard.models.contracts import Decoder, Encoder, State
from regard.models.memory import Memory, lengthen, unit_spans
from regard.nn import AdditiveAttention, Embedding, GRUCell, Keys, Recurrent, Site, dropout, visit
from regard.nn.recurrent import CellName


class RecurrentEncoder(Encoder):
    """A recurrent network over embedded tokens.

    The summary is the final state of each direction, →h_N and ←h_1; with `summary="backward"` only ←h_1, which has
    read the whole source and stopped at its first word (Bahdanau et al. 2015, A.2.2, start their decoder from it).
    """

    def __init__(
        self,
        *,
        embedding: Embedding,
        width: int,
        layers: int,
        two_way: bool,
        cell: CellName,
        dropout: float,
        summary: Literal["all", "backward"] = "all",
    ) -> None:
        super().__init__()
        if summary == "backward" and not two_way:
            raise ValueError("a one-way encoder has no backward state to sum up with")
        self.embedding = embedding
        self.dropout = dropout
        self.summary = summary
        self.network = Recurrent(
            input_width=embedding.width, width=width, layers=layers, two_way=two_way, cell=cell, dropout=dropout
        )
        self.memory_width = self.network.output_width
        self.summary_width = width if summary == "backward" else self.memory_width

    def encode(self, source: Source) -> Memory:
        assert isinstance(source, Ids)
        embedded = visit(Site("encoder", "embedding"), self.embedding(source.ids[..., 0]))
        embedded = dropout(embedded, self.dropout, self.training)
        states = visit(Site("encoder", "cell"), self.network(embedded, source.mask))  # (B, N, C)
        last = (source.mask.sum(1) - 1).clamp(min=0)  # (B,)
        forward = states[torch.arange(states.size(0)), last, : self.network.width]
        backward = states[:, 0, self.network.width :]
        return Memory(
            states=dropout(states, self.dropout, self.training),
            mask=source.mask,
            summary=backward if self.summary == "backward" else torch.cat((forward, backward), dim=-1),
            spans=unit_spans(source.mask),
        )


@dataclass(frozen=True, slots=True)
class BahdanauState:
    """The recurrent state of each row, and the prepared memory of each sentence."""

    keys: Keys  # (S, 1, N, ·)
    mask: Tensor  # (S, N)
    cell: Tensor  # (S, K, D)

    def select(self, sentences: Tensor | None, beams: Tensor) -> "BahdanauState":
        if sentences is None:
            rows = torch.arange(beams.size(0), device=beams.device).unsqueeze(1)
            return BahdanauState(keys=self.keys, mask=self.mask, cell=self.cell[rows, beams])
        return BahdanauState(
            keys=Keys(keys=self.keys.keys[sentences], values=self.keys.values[sentences]),
            mask=self.mask[sentences],
            cell=self.cell[sentences.unsqueeze(1), beams],
        )

    def join(self, other: "BahdanauState") -> "BahdanauState":
        items = max(self.mask.size(1), other.mask.size(1))

        def both(one: Tensor, another: Tensor, dim: int) -> Tensor:
            return torch.cat((lengthen(one, items, dim=dim), lengthen(another, items, dim=dim)))

        return BahdanauState(
            keys=Keys(
                keys=both(self.keys.keys, other.keys.keys, 2), values=both(self.keys.values, other.keys.values, 2)
            ),
            mask=both(self.mask, other.mask, 1),
            cell=torch.cat((self.cell, other.cell)),
        )


class BahdanauDecoder(Decoder):
    """Attend with the state before the step, let the context into the recurrence, predict from a deep output.

    Bahdanau et al. 2015, A.2.2:
    s_0 = tanh(W_s ←h_1), c_i = attention(s_{i-1}), s_i = GRU(s_{i-1}; y_{i-1}, c_i),
    t̃_i = U_o s_{i-1} + V_o y_{i-1} + C_o c_i, t_i = the larger of each pair of t̃_i, p(y_i) ∝ exp(W_o t_i).
    """

    def __init__(
        self,
        *,
        embedding: Embedding,
        output: nn.Linear,
        width: int,
        memory_width: int,
        summary_width: int,
        cell: CellName,
        dropout: float,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.output = output
        self.dropout = dropout
        self.site = Site("decoder", "cell")
        self.bridge = nn.Linear(summary_width, width)
        self.attention = AdditiveAttention(
            query_width=width, memory_width=memory_width, width=width, site=Site("decoder", "cross")
        )
        self.from_token = nn.Linear(embedding.width, 3 * width)
        self.from_context = nn.Linear(memory_width, 3 * width, bias=False)
        self.cell = GRUCell(width=width, name=cell)
        pairs = 2 * output.in_features
        self.deep_state = nn.Linear(width, pairs)
        self.deep_token = nn.Linear(embedding.width, pairs, bias=False)
        self.deep_context = nn.Linear(memory_width, pairs, bias=False)

    def _embed(self, tokens: Tensor) -> Tensor:
        embedded = visit(Site("decoder", "embedding"), self.embedding(tokens))
        return dropout(embedded, self.dropout, self.training)

    def _deep(self, state: Tensor, token: Tensor, context: Tensor) -> Tensor:
        """The maxout layer: (..., D), (..., D), (..., C) → (..., D)."""
        pairs = self.deep_state(state) + self.deep_token(token) + self.deep_context(context)
        return dropout(pairs.unflatten(-1, (-1, 2)).amax(-1), self.dropout, self.training)

    def hidden(self, memory: Memory, inputs: Tensor) -> Tensor:
        """Only attention and recurrence run step by step; all else is one product over all steps."""
        embedded = self._embed(inputs)  # (B, M, D)
        from_tokens = self.from_token(embedded)  # (B, M, 3D)
        keys, mask = self.attention.prepare(memory.states), memory.mask[:, None, None, :]
        state = torch.tanh(self.bridge(memory.summary))  # (B, D)
        before: list[Tensor] = []
        contexts: list[Tensor] = []
        for item in range(inputs.size(1)):
            context = self.attention.attend(state.unsqueeze(1), keys, mask).squeeze(1)  # (B, C)
            before.append(state)
            contexts.append(context)
            state = self.cell(from_tokens[:, item] + self.from_context(context), state)
            state = visit(self.site, state.unsqueeze(1)).squeeze(1)
        return self._deep(torch.stack(before, dim=1), embedded, torch.stack(contexts, dim=1))

    def logits(self, hidden: Tensor) -> Tensor:
        return self.output(hidden)

    def start(self, memory: Memory) -> BahdanauState:
        return BahdanauState(
            keys=self.attention.prepare(memory.states),
            mask=memory.mask,
            cell=torch.tanh(self.bridge(memory.summary)).unsqueeze(1),
        )

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, BahdanauState]:
        assert isinstance(state, BahdanauState)
        embedded = self._embed(tokens)  # (S, K, D)
        context = self.attention.attend(state.cell, state.keys, state.mask[:, None, None, :])  # (S, K, C)
        inputs = self.from_token(embedded) + self.from_context(context)
        cell = self.cell(inputs.flatten(0, 1), state.cell.flatten(0, 1)).view_as(state.cell)
        cell = visit(self.site, cell)
        return self._deep(state.cell, embedded, context), BahdanauState(keys=state.keys, mask=state.mask, cell=cell)
