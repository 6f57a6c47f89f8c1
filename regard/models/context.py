"""Decoders without attention: all they know of the source is one vector or the final states of its encoder.

Shapes: B rows, M target items, S sentences, K beams, L layers, P parts of a state, D width, C context width.
"""

import torch
from torch import Tensor, nn

from regard.models.attending import RecurrentState
from regard.models.bridge import Bridge, TransformedSummary
from regard.models.contracts import Decoder, State
from regard.models.memory import Memory
from regard.nn import Embedding, Maxout, Recurrent, Site, dropout, visit


class InitialStateDecoder(Decoder):
    """The source is where the recurrence begins: s_0 = bridge(x), s_t = RNN(s_{t-1}; y_{t-1}), p(y_t) ∝ exp(W s_t).

    With the final states of the encoder as they are this is Sutskever et al. 2014.
    """

    def __init__(
        self, *, embedding: Embedding, output: nn.Linear, network: Recurrent, bridge: Bridge, dropout: float
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.output = output
        self.network = network
        self.bridge = bridge
        self.dropout = dropout

    def _embed(self, tokens: Tensor) -> Tensor:
        embedded = visit(Site("decoder", "embedding"), self.embedding(tokens))
        return dropout(embedded, self.dropout, self.training)

    def hidden(self, memory: Memory, inputs: Tensor) -> Tensor:
        outputs = self.network.roll(self._embed(inputs), self.bridge.start(memory))
        return dropout(outputs, self.dropout, self.training)

    def start(self, memory: Memory) -> RecurrentState:
        return RecurrentState(cell=self.bridge.start(memory).unsqueeze(1))

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, RecurrentState]:
        assert isinstance(state, RecurrentState)
        state = state.settled()
        outputs, cell = self.network.step(self.network.products(self._embed(tokens)), state.cell)
        return dropout(outputs, self.dropout, self.training), RecurrentState(cell=cell)


class EveryStepDecoder(Decoder):
    """The source is an input at every step (Cho et al. 2014, A.1.2).

    c = tanh(V · summary), s_0 = tanh(V' c), s_t = RNN(s_{t-1}; [y_{t-1}; c]),
    t̃_t = O_h s_t + O_y y_{t-1} + O_c c, t_t = the larger of each pair of t̃_t, p(y_t) ∝ exp(G t_t).
    The paper lets the reset gate act on C c in the candidate, too; here c is a part of the input, for any cell.
    """

    def __init__(
        self, *, embedding: Embedding, output: nn.Linear, network: Recurrent, summary_width: int, dropout: float
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.output = output
        self.network = network
        self.dropout = dropout
        context_width = network.layers()[0].inputs.in_features - embedding.width
        self.context = nn.Linear(summary_width, context_width)
        self.bridge = TransformedSummary(summary_width=context_width, wanted=network.size)
        self.deep = Maxout(inputs=(network.width, embedding.width, context_width), width=output.in_features)

    def _embed(self, tokens: Tensor) -> Tensor:
        embedded = visit(Site("decoder", "embedding"), self.embedding(tokens))
        return dropout(embedded, self.dropout, self.training)

    def _context(self, memory: Memory) -> Tensor:
        """c of each row: (B, C)."""
        return torch.tanh(self.context(memory.summary))

    def _inputs(self, embedded: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
        """(B, M, D), (B, C) → [y; c] (B, M, D + C), and c for each item (B, M, C)."""
        every = context.unsqueeze(1).expand(-1, embedded.size(1), -1)
        return torch.cat((embedded, every), dim=-1), every

    def _deep(self, outputs: Tensor, embedded: Tensor, context: Tensor) -> Tensor:
        return dropout(self.deep(outputs, embedded, context), self.dropout, self.training)

    def hidden(self, memory: Memory, inputs: Tensor) -> Tensor:
        embedded, context = self._embed(inputs), self._context(memory)
        both, every = self._inputs(embedded, context)
        return self._deep(self.network.roll(both, self.bridge.of(context)), embedded, every)

    def start(self, memory: Memory) -> RecurrentState:
        context = self._context(memory)
        return RecurrentState(cell=self.bridge.of(context).unsqueeze(1), context=context)

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, RecurrentState]:
        assert isinstance(state, RecurrentState)
        state = state.settled()
        assert state.context is not None
        embedded = self._embed(tokens)  # (S, K, D)
        both, every = self._inputs(embedded, state.context)
        outputs, cell = self.network.step(self.network.products(both), state.cell)
        return self._deep(outputs, embedded, every), RecurrentState(cell=cell, context=state.context)
