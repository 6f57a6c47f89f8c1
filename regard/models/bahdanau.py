"""The decoder that attends before the recurrence (Bahdanau et al. 2015).

Shapes: B rows, M target items, S sentences, K beams, L layers, P parts of a state, D width, C context width, G blocks.
"""

from typing import Self

import torch
from torch import Tensor, nn

from regard.models.attending import Attended, Attending, RecurrentState
from regard.models.bridge import Bridge
from regard.models.contracts import Decoder, State
from regard.models.memory import Memory
from regard.nn import Embedding, Maxout, Recurrent, Site, dropout, visit
from regard.nn.sought import Sought
from regard.nn.unrolled import NetworkLoop, can_unroll


class BahdanauDecoder(Decoder):
    """Attend with the state before the step, let the context into the recurrence, predict from a deep output.

    Bahdanau et al. 2015, A.2.2:
    s_0 = tanh(W_s ←h_1), c_i = attention(s_{i-1}), s_i = GRU(s_{i-1}; y_{i-1}, c_i),
    t̃_i = U_o s_{i-1} + V_o y_{i-1} + C_o c_i, t_i = the larger of each pair of t̃_i, p(y_i) ∝ exp(W_o t_i).
    Of several layers the first reads the context, and the last is s.
    """

    def __init__(
        self,
        *,
        embedding: Embedding,
        output: nn.Linear,
        network: Recurrent,
        bridge: Bridge,
        attention: Attending,
        context_width: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.output = output
        self.network = network
        self.bridge = bridge
        self.attention = attention
        self.dropout = dropout
        self._sought = Sought()
        self.from_context = nn.Linear(context_width, network.blocks * network.width, bias=False)
        self.deep = Maxout(inputs=(network.width, embedding.width, context_width), width=output.in_features)

    def train(self, mode: bool = True) -> Self:
        """Forgets what was laid out for search."""
        self._sought.forget()
        return super().train(mode)

    def _embed(self, tokens: Tensor) -> Tensor:
        embedded = visit(Site("decoder", "embedding"), self.embedding(tokens))
        return dropout(embedded, self.dropout, self.training)

    def _looked(self, states: Tensor, attended: Attended) -> tuple[Tensor, Tensor]:
        """The state before a step, and what it looks at: (S, K, D), (S, K, C)."""
        before = states[..., -1, 0, :]
        return before, self.attention.attend(before, attended.keys, attended.permitted)

    def _advance(self, products: Tensor, attended: Attended, states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """One step with the products of the tokens (S, K, G·D): the state before it, the context, and new states."""
        before, context = self._looked(states, attended)
        _, states = self.network.step(products + self.from_context(context), states)
        return before, context, states

    def _deep(self, before: Tensor, embedded: Tensor, context: Tensor) -> Tensor:
        return dropout(self.deep(before, embedded, context), self.dropout, self.training)

    def hidden(self, memory: Memory, inputs: Tensor) -> Tensor:
        """Only attention and recurrence run step by step; all else is one product over all steps."""
        embedded = self._embed(inputs)  # (B, M, D)
        attended = Attended.prepared(self.attention, memory)
        start = self.bridge.start(memory)  # (B, L, P, D)
        before: list[Tensor] = []
        contexts: list[Tensor] = []
        if can_unroll(self.network):
            network = NetworkLoop(self.network, embedded, self.from_context.weight)
            attention, parts = attended.loop(self.attention, inputs.size(1)), network.start(start)
            for step in range(inputs.size(1)):
                before.append(parts[-1][0])
                contexts.append(attention.attend(step, before[-1]))
                _, parts = network.step(step, parts, contexts[-1])
            return self._deep(torch.stack(before, dim=1), embedded, torch.stack(contexts, dim=1))
        states = start.unsqueeze(1)  # (B, 1, L, P, D)
        for products in self.network.products(embedded).split(1, dim=1):  # (B, 1, G·D)
            last, context, states = self._advance(products, attended, states)
            before.append(last)
            contexts.append(context)
        return self._deep(torch.cat(before, dim=1), embedded, torch.cat(contexts, dim=1))

    def start(self, memory: Memory) -> RecurrentState:
        return RecurrentState(
            cell=self.bridge.start(memory).unsqueeze(1), attended=Attended.prepared(self.attention, memory)
        )

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, RecurrentState]:
        assert isinstance(state, RecurrentState)
        state = state.settled()
        assert state.attended is not None
        embedded = self._embed(tokens)  # (S, K, D)
        network = self._sought.get(self, self.network, self.embedding, tokens.numel(), self.from_context.weight)
        if network is None:
            before, context, cell = self._advance(self.network.products(embedded), state.attended, state.cell)
        else:
            before, context = self._looked(state.cell, state.attended)
            _, cell = network.step(tokens, state.cell, None, context)
        return self._deep(before, embedded, context), RecurrentState(cell=cell, attended=state.attended)
