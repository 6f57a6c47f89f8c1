"""The decoder that attends after the recurrence: Luong et al. 2015, and attention at the output only.

Shapes: B rows, M target items, Q queries, S sentences, K beams, N positions of the memory, L layers, P parts of a
state, D width, C context width, G blocks.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.models.attending import Attended, Attending, RecurrentState
from regard.models.bridge import Bridge
from regard.models.contracts import Decoder, State
from regard.models.memory import Memory
from regard.nn import Embedding, Keys, Recurrent, Site, dropout, visit
from regard.nn.attention import is_mean
from regard.nn.kept import is_fixed
from regard.nn.loops import LoopLinear
from regard.nn.sites import anyone_watches
from regard.nn.sought import Sought
from regard.nn.unrolled import NetworkLoop, can_unroll


class Combine(nn.Module, ABC):
    """Makes of a state and its context what the output is read from."""

    width: int

    @abstractmethod
    def forward(self, state: Tensor, context: Tensor) -> Tensor:
        """(..., D), (..., C) → (..., width)."""

    def folded(self, values: Tensor) -> Tensor | None:  # noqa: ARG002
        """What is made of a context, made of the values (..., C) that it is a mean of; None where that cannot be."""
        return None

    def unfolded(self, state: Tensor, mean: Tensor) -> Tensor:  # noqa: ARG002
        """What `forward` makes of a state (..., D), with the mean of such values for its context."""
        raise AssertionError(f"{type(self).__name__} makes nothing of values")

    def looped(self, steps: int, like: Tensor) -> "Looped":  # noqa: ARG002
        """The same for each of so many steps, of states (B, D) that are like those."""
        return lambda _, state, context: self(state, context)


Looped = Callable[[int, Tensor, Tensor], Tensor]
"""Step, state (B, D), context (B, C) → (B, width)."""


class AttentionalVector(Combine):
    """Luong et al. 2015, equation 5: h̃_t = tanh(W_c [c_t; h_t])."""

    def __init__(self, *, state_width: int, context_width: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.linear = nn.Linear(context_width + state_width, width, bias=False)

    def forward(self, state: Tensor, context: Tensor) -> Tensor:
        return torch.tanh(self.linear(torch.cat((context, state), dim=-1)))

    def folded(self, values: Tensor) -> Tensor | None:
        return functional.linear(values, self.linear.weight[:, : values.size(-1)])

    def unfolded(self, state: Tensor, mean: Tensor) -> Tensor:
        return functional.linear(state, self.linear.weight[:, -state.size(-1) :]).add_(mean).tanh_()

    def looped(self, steps: int, like: Tensor) -> Looped:
        weight = self.linear.weight
        parts = weight.split((weight.size(1) - like.size(-1), like.size(-1)), dim=1)
        linear = LoopLinear(like.new_zeros(1).expand(steps, len(like), self.width), *parts)
        return lambda step, state, context: torch.tanh(linear(step, context, state))


class SideBySide(Combine):
    """[y^d(t); y^a(t)], the state and its context as they are: y(t) = softmax(W^o [y^d(t); y^a(t)]).

    Where the output weights are not as wide as both together (because they are shared with the embeddings), W^o is the
    product of them and a projection.
    """

    def __init__(self, *, state_width: int, context_width: int, width: int) -> None:
        super().__init__()
        self.width = width
        both = state_width + context_width
        self.project = nn.Identity() if width == both else nn.Linear(both, width, bias=False)

    def forward(self, state: Tensor, context: Tensor) -> Tensor:
        return self.project(torch.cat((state, context), dim=-1))


class LocalAttention(nn.Module):
    """Attention to a window around a predicted position (local-p: Luong et al. 2015, equations 9 and 10).

    p_t = S · σ(v_pᵀ tanh(W_p h_t)) for a memory of S positions; the positions s within `window` of p_t are attended to,
    and their weights multiplied with exp(-(s - p_t)² / (2 σ²)), σ = window / 2. As in the paper they are not divided by
    their sum again. Multiplying a value is multiplying its weight, so any attention can be inside; what is shown at its
    site are the weights before the multiplication.
    """

    def __init__(self, *, attention: Attending, query_width: int, window: int) -> None:
        super().__init__()
        self.attention = attention
        self.window = window
        self.inner = nn.Linear(query_width, query_width, bias=False)
        self.outer = nn.Linear(query_width, 1, bias=False)

    def prepare(self, states: Tensor) -> Keys:
        return self.attention.prepare(states)

    def positions(self, queries: Tensor, mask: Tensor) -> Tensor:
        """p_t for memories with the mask (B, N): (B, Q, D) → (B, Q)."""
        share = torch.sigmoid(self.outer(torch.tanh(self.inner(queries)))).squeeze(-1)
        return share * mask.sum(1, keepdim=True)

    def attend(self, queries: Tensor, keys: Keys, mask: Tensor | None) -> Tensor:
        """Each query has other values, so they are asked one after the other."""
        assert mask is not None
        positions = self.positions(queries, mask[:, 0, 0])  # (B, Q)
        distances = torch.arange(mask.size(-1), device=mask.device) - positions.unsqueeze(-1)  # (B, Q, N)
        gains = torch.exp(-distances.square() / (2 * (self.window / 2) ** 2))
        contexts: list[Tensor] = []
        for query in range(queries.size(1)):
            near = mask & (distances[:, None, query : query + 1].abs() <= self.window)  # (B, 1, 1, N)
            scaled = Keys(keys=keys.keys, values=keys.values * gains[:, None, query, :, None])
            contexts.append(self.attention.attend(queries[:, query : query + 1], scaled, near))
        return torch.cat(contexts, dim=1)


class AttentiveDecoder(Decoder):
    """Attend with the state after the step, and predict from both.

    s_t = RNN(s_{t-1}; y_{t-1}), c_t = attention(s_t), p(y_t) ∝ exp(W combine(s_t, c_t)). With `feeding` what was
    combined is an input of the next step, s_t = RNN(s_{t-1}; [y_{t-1}; h̃_{t-1}]), h̃_0 = 0 (Luong et al. 2015, section
    3.3). Without it the recurrence does not depend on the attention, and the whole sequence runs at once.
    """

    def __init__(
        self,
        *,
        embedding: Embedding,
        output: nn.Linear,
        network: Recurrent,
        bridge: Bridge,
        attention: Attending,
        combine: Combine,
        feeding: bool,
        dropout: float,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.output = output
        self.network = network
        self.bridge = bridge
        self.attention = attention
        self.combine = combine
        self.dropout = dropout
        self._sought = Sought()
        self.from_fed = nn.Linear(combine.width, network.blocks * network.width, bias=False) if feeding else None

    def train(self, mode: bool = True) -> Self:
        """Forgets what was laid out for search."""
        self._sought.forget()
        return super().train(mode)

    def _embed(self, tokens: Tensor) -> Tensor:
        embedded = visit(Site("decoder", "embedding"), self.embedding(tokens))
        return dropout(embedded, self.dropout, self.training)

    def _combined(self, states: Tensor, attended: Attended) -> Tensor:
        """States of any number of steps or beams: (B, Q, D) → (B, Q, width)."""
        context = self.attention.attend(states, attended.keys, attended.permitted)
        return dropout(self.combine(states, context), self.dropout, self.training)

    def _sought_combined(self, states: Tensor, attended: Attended) -> Tensor:
        """The same under search, where the weights of the context may be in the memory already."""
        if attended.folded is None:
            return self._combined(states, attended)
        mean = self.attention.attend(states, attended.folded, attended.permitted)
        return self.combine.unfolded(states, mean)

    def _advance(self, products: Tensor, attended: Attended, cell: Tensor, fed: Tensor | None) -> tuple[Tensor, Tensor]:
        """One step with the products of the tokens (S, K, G·D): what is combined (S, K, width), and states."""
        if self.from_fed is not None:
            assert fed is not None
            products = products + self.from_fed(fed)
        outputs, cell = self.network.step(products, cell)
        return self._combined(outputs, attended), cell

    def _nothing(self, cell: Tensor) -> Tensor | None:
        """h̃_0 of a grid of states (S, K, L, P, D)."""
        return None if self.from_fed is None else cell.new_zeros(*cell.shape[:2], self.combine.width)

    def hidden(self, memory: Memory, inputs: Tensor) -> Tensor:
        embedded = self._embed(inputs)  # (B, M, D)
        attended = Attended.prepared(self.attention, memory)
        start = self.bridge.start(memory)  # (B, L, P, D)
        if self.from_fed is None:
            return self._combined(self.network.roll(embedded, start), attended)
        if can_unroll(self.network):
            return self._unrolled(embedded, attended, start)
        cell = start.unsqueeze(1)
        fed = self._nothing(cell)
        said: list[Tensor] = []
        for products in self.network.products(embedded).split(1, dim=1):  # (B, 1, G·D)
            fed, cell = self._advance(products, attended, cell, fed)
            said.append(fed)
        return torch.cat(said, dim=1)

    def _unrolled(self, embedded: Tensor, attended: Attended, start: Tensor) -> Tensor:
        """The steps of `_advance` with input feeding, for inputs (B, M, D) that are all known."""
        assert self.from_fed is not None
        steps = embedded.size(1)
        network = NetworkLoop(self.network, embedded, self.from_fed.weight)
        attention = attended.loop(self.attention, steps)
        states = network.start(start)
        combine = self.combine.looped(steps, states[-1][0])
        fed = start.new_zeros(len(start), self.combine.width)
        said: list[Tensor] = []
        for step in range(steps):
            output, states = network.step(step, states, fed)
            fed = dropout(combine(step, output, attention.attend(step, output)), self.dropout, self.training)
            said.append(fed)
        return torch.stack(said, dim=1)

    def start(self, memory: Memory) -> RecurrentState:
        cell = self.bridge.start(memory).unsqueeze(1)
        attended = Attended.prepared(self.attention, memory)
        if is_fixed(self) and not anyone_watches() and is_mean(self.attention):
            folded = self.combine.folded(attended.keys.values)
            attended = attended if folded is None else attended.with_values(folded)
        return RecurrentState(cell=cell, fed=self._nothing(cell), attended=attended)

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, RecurrentState]:
        assert isinstance(state, RecurrentState)
        reading = () if self.from_fed is None else (self.from_fed.weight,)
        network = self._sought.get(self, self.network, self.embedding, tokens.numel(), *reading)
        state = state if network is not None else state.settled()
        cell, given, attended = state.cell, state.fed, state.attended
        assert attended is not None
        if network is None:
            said, cell = self._advance(self.network.products(self._embed(tokens)), attended, cell, given)
        else:
            outputs, cell = network.step(tokens, cell, state.beams, *(() if given is None else (given,)))
            said = self._sought_combined(outputs, attended)
        fed = None if self.from_fed is None else said
        return said, RecurrentState(cell=cell, fed=fed, attended=attended)
