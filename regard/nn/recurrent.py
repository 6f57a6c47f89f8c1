"""Gated recurrent units in their two readings, and a network that reads a padded batch in one or both directions.

Cho et al. 2014 reset the state before the product: h̃ = tanh(W x + U (r ∘ h)). torch's fused kernel resets after it:
h̃ = tanh(W x + r ∘ (U h)). Both are here under their own names; only the second has a fused kernel.

Shapes: B rows, N items, I input width, D state width.
"""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.nn.dropout import dropout as drop

CellName = Literal["gru", "gru_cho"]


class GRUCell(nn.Module):
    """One step of a GRU whose input products are made beforehand for all steps at once.

    r = σ(x_r + U_r h), z = σ(x_z + U_z h), h' = (1 - z) ∘ h + z ∘ h̃ with h̃ as the name says. Cho's z is the share of
    the candidate that is taken (Bahdanau et al. 2015, A.1.1), torch's the share of the old state that is kept; `z`
    here is always the share of the candidate.
    """

    def __init__(self, *, width: int, name: CellName) -> None:
        super().__init__()
        self.width = width
        self.name = name
        self.gates = nn.Linear(width, 2 * width)
        self.candidate = nn.Linear(width, width)
        for start in (0, width):
            nn.init.orthogonal_(self.gates.weight[start : start + width])
        nn.init.orthogonal_(self.candidate.weight)

    def forward(self, inputs: Tensor, state: Tensor) -> Tensor:
        """Inputs (B, 3D), the parts for reset, update and candidate; state (B, D) → (B, D)."""
        for_gates, for_candidate = inputs.split((2 * self.width, self.width), dim=-1)
        reset, update = torch.sigmoid(for_gates + self.gates(state)).chunk(2, dim=-1)
        if self.name == "gru_cho":
            candidate = torch.tanh(for_candidate + self.candidate(reset * state))
        else:
            candidate = torch.tanh(for_candidate + reset * self.candidate(state))
        return torch.lerp(state, candidate, update)


class GRULayer(nn.Module):
    """Cho's GRU over a whole sequence, by steps."""

    def __init__(self, *, input_width: int, width: int) -> None:
        super().__init__()
        self.inputs = nn.Linear(input_width, 3 * width)
        self.cell = GRUCell(width=width, name="gru_cho")

    def forward(self, inputs: Tensor, mask: Tensor, *, backward: bool) -> Tensor:
        """(B, N, I), mask (B, N) → (B, N, D). Padding leaves the state as it is, so rows do not depend on it."""
        products = self.inputs(inputs)  # (B, N, 3D)
        state = products.new_zeros(products.size(0), self.cell.width)
        keep = mask.unsqueeze(-1)
        states: list[Tensor] = []
        order = range(inputs.size(1) - 1, -1, -1) if backward else range(inputs.size(1))
        for item in order:
            state = torch.where(keep[:, item], self.cell(products[:, item], state), state)
            states.append(state)
        if backward:
            states.reverse()
        return torch.stack(states, dim=1)


class Recurrent(nn.Module):
    """A GRU over a padded batch: any number of layers, one or two directions, dropout between layers."""

    def __init__(
        self, *, input_width: int, width: int, layers: int, two_way: bool, cell: CellName, dropout: float
    ) -> None:
        super().__init__()
        self.cell = cell
        self.two_way = two_way
        self.dropout = dropout
        directions = 2 if two_way else 1
        widths = [input_width, *[width * directions] * (layers - 1)]
        self.layers = nn.ModuleList(
            nn.GRU(size, width, batch_first=True, bidirectional=two_way)
            if cell == "gru"
            else nn.ModuleList(GRULayer(input_width=size, width=width) for _ in range(directions))
            for size in widths
        )
        self.width = width
        self.output_width = width * directions

    def forward(self, inputs: Tensor, mask: Tensor) -> Tensor:
        """(B, N, I), mask (B, N) → states of the last layer (B, N, D · directions), forward half first."""
        states = inputs
        for index, layer in enumerate(self.layers):
            if index:
                states = drop(states, self.dropout, self.training)
            states = self._fused(layer, states, mask) if isinstance(layer, nn.GRU) else self._steps(layer, states, mask)
        return states

    @staticmethod
    def _fused(layer: nn.GRU, states: Tensor, mask: Tensor) -> Tensor:
        packed = pack_padded_sequence(states, mask.sum(1).cpu(), batch_first=True, enforce_sorted=False)
        return pad_packed_sequence(layer(packed)[0], batch_first=True, total_length=states.size(1))[0]

    @staticmethod
    def _steps(layer: nn.Module, states: Tensor, mask: Tensor) -> Tensor:
        assert isinstance(layer, nn.ModuleList)
        return torch.cat(
            [one(states, mask, backward=bool(index)) for index, one in enumerate(layer)],
            dim=-1,
        )
