"""Recurrent cells: one step of Elman's network, the multiplicative one, the LSTM and the GRU in its two readings.

All have one interface. What a cell sees of the input are its products with the input weights, which are made beforehand
for all steps at once; its state is one tensor of P parts, of which the first is what others see, so that states of all
cells are selected and joined alike. Weights stand as in torch.nn, so that the fused kernels can use them.

Layer norm follows Ba et al. 2016: the products of input and state are normalised apart (without gates: their sum), all
gates together, the candidate of a GRU for itself, and the LSTM's memory before it is shown.

Shapes: D state width, P parts of a state, G blocks of width D in the products of the input, N items.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, assert_never

import torch
from torch import Tensor, nn
from torch.nn import functional

CellName = Literal["elman", "lstm", "gru", "gru_cho", "multiplicative"]


@dataclass(frozen=True, slots=True)
class StepResult:
    """The state after a step, and what the gates did in it."""

    state: Tensor  # (..., P, D)
    gates: Mapping[str, Tensor]  # (..., D) each


class Cell(nn.Module, ABC):
    """One step of a recurrence."""

    parts: int
    blocks: int
    fused: bool

    def __init__(self, *, width: int, blocks: int) -> None:
        super().__init__()
        self.width = width
        self.recurrent = nn.Linear(width, blocks * width)
        for block in self.recurrent.weight.split(width):
            nn.init.orthogonal_(block)

    @abstractmethod
    def step(self, products: Tensor, state: Tensor) -> StepResult:
        """Products of the input (..., G·D), state (..., P, D)."""

    def start(self, like: Tensor) -> Tensor:
        """The zero state of as many rows as `like` (B, ...) has: (B, P, D)."""
        return like.new_zeros(like.size(0), self.parts, self.width)


def norm(width: int, *, wanted: bool) -> nn.Module:
    """A layer norm, or nothing."""
    return nn.LayerNorm(width) if wanted else nn.Identity()


class ElmanCell(Cell):
    """Elman 1990: h_t = tanh(W x_t + U h_{t-1} + b)."""

    parts = blocks = 1

    def __init__(self, *, width: int, layer_norm: bool = False) -> None:
        super().__init__(width=width, blocks=self.blocks)
        self.fused = not layer_norm
        self.norm = norm(width, wanted=layer_norm)

    def step(self, products: Tensor, state: Tensor) -> StepResult:
        hidden = torch.tanh(self.norm(products + self.recurrent(state[..., 0, :])))
        return StepResult(state=hidden.unsqueeze(-2), gates={})


class MultiplicativeCell(Cell):
    """Sutskever et al. 2011 (multiplicative RNN): the input chooses the matrix by which the state goes on.

    f_t = (W_fx x_t + b_f) ∘ (W_fh h_{t-1}), h_t = tanh(W_hf f_t + W_hx x_t + b_h), with as many factors as the state is
    wide. The paper reads one-hot characters, where b_f is a part of W_fx; it begins with 1, so that what was read is
    kept from the first step of training on.
    """

    parts = 1
    blocks = 2
    fused = False

    def __init__(self, *, width: int, layer_norm: bool = False) -> None:
        super().__init__(width=width, blocks=self.blocks)
        self.norm = norm(width, wanted=layer_norm)
        nn.init.constant_(self.recurrent.bias[:width], 1.0)

    def step(self, products: Tensor, state: Tensor) -> StepResult:
        for_factors, for_hidden = products.chunk(2, dim=-1)
        to_factors, to_hidden = self.recurrent.weight.chunk(2)
        factor_bias, hidden_bias = self.recurrent.bias.chunk(2)
        factors = (for_factors + factor_bias) * functional.linear(state[..., 0, :], to_factors)
        hidden = torch.tanh(self.norm(for_hidden + functional.linear(factors, to_hidden, hidden_bias)))
        return StepResult(state=hidden.unsqueeze(-2), gates={"factors": factors})


class LSTMCell(Cell):
    """Hochreiter and Schmidhuber 1997 with the forget gate of Gers et al. 2000; the state is h and the memory c.

    i, f, o = σ(W x + U h + b), g = tanh(W_g x + U_g h + b_g), c' = f ∘ c + i ∘ g, h' = o ∘ tanh(c'). The forget gate
    begins open, with a bias of 1.
    """

    parts = 2
    blocks = 4

    def __init__(self, *, width: int, layer_norm: bool = False) -> None:
        super().__init__(width=width, blocks=self.blocks)
        self.fused = not layer_norm
        self.input_norm = norm(4 * width, wanted=layer_norm)
        self.state_norm = norm(4 * width, wanted=layer_norm)
        self.memory_norm = norm(width, wanted=layer_norm)
        nn.init.constant_(self.recurrent.bias[width : 2 * width], 1.0)

    def step(self, products: Tensor, state: Tensor) -> StepResult:
        hidden, memory = state.unbind(-2)
        total = self.input_norm(products) + self.state_norm(self.recurrent(hidden))
        into, forget, candidate, out = total.chunk(4, dim=-1)
        into, forget, out = torch.sigmoid(into), torch.sigmoid(forget), torch.sigmoid(out)
        candidate = torch.tanh(candidate)
        memory = forget * memory + into * candidate
        hidden = out * torch.tanh(self.memory_norm(memory))
        return StepResult(
            state=torch.stack((hidden, memory), dim=-2),
            gates={"input": into, "forget": forget, "candidate": candidate, "output": out},
        )


class GRUCell(Cell):
    """Cho et al. 2014: a candidate h̃, and a share of it that takes the place of the same share of the old state.

    Reset before the product (`gru_cho`, as in the papers of 2014): h̃ = tanh(W x + U (r ∘ h)),
    h' = (1 - z) ∘ h + z ∘ h̃ (Bahdanau et al. 2015, A.1.1; Cho et al. write 1 - z for z).
    Reset after it (`gru`, as in torch): h̃ = tanh(W x + r ∘ (U h)), h' = z ∘ h + (1 - z) ∘ h̃.
    The gate `update` that is shown is in both the share of the candidate.
    """

    parts = 1
    blocks = 3

    def __init__(self, *, width: int, reset: Literal["before", "after"], layer_norm: bool = False) -> None:
        super().__init__(width=width, blocks=self.blocks)
        self.reset = reset
        self.fused = reset == "after" and not layer_norm
        self.input_gates_norm, self.state_gates_norm = (norm(2 * width, wanted=layer_norm) for _ in range(2))
        self.input_candidate_norm, self.state_candidate_norm = (norm(width, wanted=layer_norm) for _ in range(2))

    def step(self, products: Tensor, state: Tensor) -> StepResult:
        hidden = state[..., 0, :]
        sizes = (2 * self.width, self.width)
        input_gates, input_candidate = products.split(sizes, dim=-1)
        input_candidate = self.input_candidate_norm(input_candidate)
        gates_weight, candidate_weight = self.recurrent.weight.split(sizes)
        gates_bias, candidate_bias = self.recurrent.bias.split(sizes)
        state_gates = functional.linear(hidden, gates_weight, gates_bias)
        gates = torch.sigmoid(self.input_gates_norm(input_gates) + self.state_gates_norm(state_gates))
        reset, update = gates.chunk(2, dim=-1)
        if self.reset == "before":
            product = functional.linear(reset * hidden, candidate_weight, candidate_bias)
            candidate = torch.tanh(input_candidate + self.state_candidate_norm(product))
        else:
            product = functional.linear(hidden, candidate_weight, candidate_bias)
            candidate = torch.tanh(input_candidate + reset * self.state_candidate_norm(product))
            update = 1 - update
        kind = candidate.dtype  # under autocast the state may be wider
        return StepResult(
            state=torch.lerp(hidden.to(kind), candidate, update.to(kind)).unsqueeze(-2),
            gates={"reset": reset, "update": update, "candidate": candidate},
        )


def build_cell(name: CellName, *, width: int, layer_norm: bool = False) -> Cell:
    """A cell by its name."""
    match name:
        case "elman":
            return ElmanCell(width=width, layer_norm=layer_norm)
        case "lstm":
            return LSTMCell(width=width, layer_norm=layer_norm)
        case "gru":
            return GRUCell(width=width, reset="after", layer_norm=layer_norm)
        case "gru_cho":
            return GRUCell(width=width, reset="before", layer_norm=layer_norm)
        case "multiplicative":
            return MultiplicativeCell(width=width, layer_norm=layer_norm)
        case _:
            assert_never(name)


def candidate_weights(updates: Tensor) -> Tensor:
    """The weights with which an unrolled GRU sums its candidates: (..., N, D) → (..., N, N, D), w[t, i].

    h_t = (1 - u_t) ∘ h_{t-1} + u_t ∘ h̃_t = Σ_{i ≤ t} w_{t,i} ∘ h̃_i with w_{t,i} = u_i ∘ Π_{i < j ≤ t} (1 - u_j): a
    weighted sum over the past, as attention is. What is missing to 1 is the weight of the initial state.
    """
    items = updates.size(-2)
    past = updates.new_zeros(*updates.shape[:-2], items, updates.size(-1))
    rows: list[Tensor] = []
    for item in range(items):
        update = updates[..., item : item + 1, :]  # (..., 1, D)
        past = torch.cat((past[..., :item, :] * (1 - update), update, past[..., item + 1 :, :]), dim=-2)
        rows.append(past)
    return torch.stack(rows, dim=-3)
