"""Recurrent networks over padded batches: any cell, stacked, in one or both directions.

Where a cell has a fused kernel a whole sequence goes through it in one call; otherwise, and where the gates are asked
for, it goes step by step. Both use the same weights.

Shapes: B rows, S sentences, K beams, N items, I input width, D state width, P parts of a state, L layers, G blocks.
"""

from dataclasses import dataclass
from typing import Final, cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from regard.nn.cells import Cell, CellName, ElmanCell, GRUCell, LSTMCell, StepResult, build_cell
from regard.nn.dropout import dropout as drop
from regard.nn.linear import linear
from regard.nn.loops import LoopLinear, added_bias, can_loop, cell_loop
from regard.nn.sites import Part, Site, visit, watched

DENSE: Final = 0.75
"""From this share of real items on a batch goes through the kernel with its padding: packing costs more."""

SHUT: Final = 1e4
"""What is added to a gate so that it is 0 or 1 to the bit, whatever else it sees."""

ALIGNED: Final = 16
"""Numbers that a row of inputs is lengthened by, so that rows begin where vectors can be read at once."""


@dataclass(frozen=True, slots=True)
class StateSize:
    """The size of the states of a network."""

    layers: int
    parts: int
    width: int


@dataclass(frozen=True, slots=True)
class Sweep:
    """What is left of a layer that has gone over a sequence in one direction."""

    outputs: Tensor  # (B, N, D)
    final: Tensor  # (B, P, D) the state after the last real item


@dataclass(frozen=True, slots=True)
class Run:
    """What is left of a network that has gone over a sequence: two directions stand side by side, forward first."""

    outputs: Tensor  # (B, N, D · directions) of the last layer
    mask: Tensor | None  # (B, N); shorter than that of the input for a pyramid
    finals: tuple[Tensor, ...]  # per layer (B, P, D · directions)


def reverse(rows: Tensor, mask: Tensor | None) -> Tensor:
    """The real items of each row (B, N, ...) in opposite order; padding stays at the end."""
    if mask is None:
        return rows.flip(1)
    return rows[torch.arange(len(rows), device=rows.device).unsqueeze(1), opposite(mask)]


def opposite(mask: Tensor) -> Tensor:
    """Where the items of a reversed row stood: (B, N) → (B, N); row of 3 real items and 1 of padding: 2 1 0 3."""
    items = torch.arange(mask.size(1), device=mask.device)
    return torch.where(mask, mask.sum(1, keepdim=True) - 1 - items, items)


def last_real(rows: Tensor, mask: Tensor, otherwise: Tensor) -> Tensor:
    """The last real item of each row (B, N, D), or where there is none its `otherwise` (B, D): (B, D)."""
    last = (mask.sum(1) - 1).clamp(min=0)
    found = rows[torch.arange(len(rows), device=rows.device), last]
    return torch.where(mask.any(1, keepdim=True), found, otherwise)


def pairs(rows: Tensor) -> Tensor:
    """Neighbours side by side: (B, N, ...) → (B, ⌈N/2⌉, 2, ...); the last item may have zeros beside it."""
    if rows.size(1) % 2:
        rows = functional.pad(rows, [0, 0] * (rows.dim() - 2) + [0, 1])
    return rows.unflatten(1, (-1, 2))


class RecurrentLayer(nn.Module):
    """A cell with its input weights, over a sequence from its first item to its last."""

    def __init__(self, *, input_width: int, cell: Cell) -> None:
        super().__init__()
        self.inputs = nn.Linear(input_width, cell.blocks * cell.width)
        self.cell = cell

    def forward(self, inputs: Tensor, mask: Tensor | None, state: Tensor) -> Sweep:
        """(B, N, I), mask (B, N), state (B, P, D). Padding stands at the end and leaves the final state as it is."""
        if not self.cell.fused or self._lays_out():
            looped = can_loop(self.cell) and inputs.size(1) > 0
            return self._looped(inputs, mask, state) if looped else self.steps(inputs, mask, state)
        if mask is None or bool(mask.all()):
            return self._fused(inputs, state)
        if self.cell.parts == 1:
            outputs = self._fused(inputs, state).outputs  # the whole state, so the final one can be picked
            return Sweep(outputs=outputs, final=last_real(outputs, mask, state[:, 0]).unsqueeze(1))
        if int(mask.sum()) < DENSE * mask.numel():
            return self._packed(inputs, mask, state)
        return self._held(inputs, mask, state)

    def _lays_out(self) -> bool:
        """Whether a loop is faster than torch's call, which makes the same steps and prepares each product anew."""
        learns = torch.is_grad_enabled() and self.cell.parts == 1
        return learns and can_loop(self.cell) and LoopLinear.lays_out(self.cell.recurrent.weight)

    def steps(self, inputs: Tensor, mask: Tensor | None, state: Tensor) -> Sweep:
        """The same, step by step."""
        products = self.inputs(inputs)  # (B, N, G·D)
        outputs: list[Tensor] = []
        for item, product in enumerate(products.unbind(1)):
            new = self.cell.step(product, state).state
            state = new if mask is None else torch.where(mask[:, item, None, None], new, state)
            outputs.append(state[:, 0])
        return Sweep(outputs=torch.stack(outputs, dim=1), final=state)

    def _looped(self, inputs: Tensor, mask: Tensor | None, state: Tensor) -> Sweep:
        """The same for a state of one part, whose weights learn after the loop."""
        bias = self.inputs.bias + added_bias(self.cell)
        bases = linear(inputs.transpose(0, 1), self.inputs.weight, bias)  # (N, B, G·D)
        loop, parts, said = cell_loop(LoopLinear, self.cell, bases), tuple(state.unbind(1)), list[Tensor]()
        for item in range(inputs.size(1)):
            parts = loop.step(item, parts)
            said.append(parts[0])
        outputs = torch.stack(said, dim=1)
        final = outputs[:, -1] if mask is None else last_real(outputs, mask, state[:, 0])
        return Sweep(outputs=outputs, final=final.unsqueeze(1))

    def trace(self, inputs: Tensor, state: Tensor) -> list[StepResult]:
        """The states and gates of each step over (B, N, I) without padding."""
        products = self.inputs(inputs)
        results: list[StepResult] = []
        for item in range(inputs.size(1)):
            results.append(self.cell.step(products[:, item], state))
            state = results[-1].state
        return results

    def _weights(self, inputs: Tensor | None = None) -> list[Tensor]:
        recurrent, inputs = self.cell.recurrent, self.inputs.weight if inputs is None else inputs
        return [inputs, recurrent.weight, self.inputs.bias, recurrent.bias]

    def _fused(self, inputs: Tensor, state: Tensor, weight: Tensor | None = None) -> Sweep:
        """`weight`: in the place of that of the inputs."""
        start = [part.unsqueeze(0).contiguous() for part in state.unbind(1)]  # (1, B, D) each
        settings = (self._weights(weight), True, 1, 0.0, self.training, False, True)
        match self.cell:
            case LSTMCell():
                outputs, *final = torch.lstm(inputs, start, *settings)
            case GRUCell():
                outputs, *final = torch.gru(inputs, start[0], *settings)
            case ElmanCell():
                outputs, *final = torch.rnn_tanh(inputs, start[0], *settings)
            case _:
                raise AssertionError(f"{type(self.cell).__name__} has no fused kernel")
        return Sweep(outputs=outputs, final=torch.stack([part.squeeze(0) for part in final], dim=1))

    def _held(self, inputs: Tensor, mask: Tensor, state: Tensor) -> Sweep:
        """An LSTM in one call, with one more input that is 1 at padding: it shuts the input gate and opens the forget
        gate wholly, so that the memory stays as it was after the last real item, to the bit.
        """
        width, room = self.cell.width, inputs.new_zeros(*mask.shape, ALIGNED)
        room[..., 0] = ~mask
        weight = self.inputs.weight
        hold = weight.new_zeros(weight.size(0), ALIGNED)
        hold[:width, 0], hold[width : 2 * width, 0] = -SHUT, SHUT
        sweep = self._fused(torch.cat((inputs, room), dim=-1), state, torch.cat((weight, hold), dim=-1))
        shown = last_real(sweep.outputs, mask, state[:, 0])
        return Sweep(outputs=sweep.outputs, final=torch.stack((shown, sweep.final[:, 1]), dim=1))

    def _packed(self, inputs: Tensor, mask: Tensor, state: Tensor) -> Sweep:
        """An LSTM shows only a part of its state, so the kernel itself must stop at the end of each row."""
        packed = pack_padded_sequence(inputs, mask.sum(1).cpu(), batch_first=True, enforce_sorted=False)
        order, back = packed.sorted_indices, packed.unsorted_indices
        assert order is not None
        assert back is not None
        start = [part.unsqueeze(0).contiguous() for part in state[order].unbind(1)]
        data, *final = torch.lstm(
            packed.data, packed.batch_sizes, start, self._weights(), True, 1, 0.0, self.training, False
        )
        outputs, _ = pad_packed_sequence(
            PackedSequence(data, packed.batch_sizes, order, back), batch_first=True, total_length=inputs.size(1)
        )
        return Sweep(outputs=outputs, final=torch.stack([part.squeeze(0) for part in final], dim=1)[back])


class Recurrent(nn.Module):
    """Layers of one cell.

    From the second layer on a layer may read two neighbours of the one below at once (`pyramid`: Chan et al. 2016,
    equation 5), or add what it reads to what it says (`residual`: Wu et al. 2016, section 3.1). Dropout acts between
    layers. Each layer shows its states (B, N, D · directions) at the site `cell`; what runs by `step` shows (S, K, D).
    What takes their place after a whole sequence is what layers above, memory and final states are made of.
    """

    def __init__(
        self,
        *,
        part: Part,
        input_width: int,
        width: int,
        layers: int,
        cell: CellName,
        two_way: bool = False,
        residual: bool = False,
        pyramid: bool = False,
        layer_norm: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if residual and pyramid:
            raise ValueError("a layer of a pyramid reads two states at once, so it cannot add them to its own")
        self.part = part
        self.residual = residual
        self.pyramid = pyramid
        self.dropout = dropout
        self.width = width
        self.output_width = 2 * width if two_way else width
        upper = 2 * self.output_width if pyramid else self.output_width
        self.directions = nn.ModuleList(
            nn.ModuleList(
                RecurrentLayer(
                    input_width=input_width if index == 0 else upper,
                    cell=build_cell(cell, width=width, layer_norm=layer_norm),
                )
                for index in range(layers)
            )
            for _ in range(2 if two_way else 1)
        )

    def layers(self, direction: int = 0) -> list[RecurrentLayer]:
        """The layers of the forward (0) or backward (1) direction."""
        layers = self.directions[direction]
        assert isinstance(layers, nn.ModuleList)
        return cast("list[RecurrentLayer]", list(layers))  # or what stands in their place

    @property
    def size(self) -> StateSize:
        """Of the final states, with two directions side by side."""
        layers = self.layers()
        return StateSize(layers=len(layers), parts=layers[0].cell.parts, width=self.output_width)

    @property
    def blocks(self) -> int:
        """How many times the width the products of an input have."""
        return self.layers()[0].cell.blocks

    def forward(self, inputs: Tensor, mask: Tensor | None) -> Run:
        """A whole sequence from the zero state: (B, N, I), mask (B, N)."""
        states, finals = inputs, []
        for index in range(len(self.layers())):
            if index and self.pyramid:
                real = states if mask is None else states * mask.unsqueeze(-1)
                states = pairs(real).flatten(2)  # (B, ⌈N/2⌉, 2 · D · directions)
                mask = None if mask is None else mask[:, ::2]
            if index:
                states = drop(states, self.dropout, self.training)
            sweeps = [self._sweep(direction, index, states, mask) for direction in range(len(self.directions))]
            outputs = torch.cat([sweep.outputs for sweep in sweeps], dim=-1)
            final = torch.cat([sweep.final for sweep in sweeps], dim=-1)
            site = Site(self.part, "cell", index)
            if watched(site):
                outputs = visit(site, outputs)
                final = self._shown(outputs, mask, final)
            states = states + outputs if self.residual and index else outputs
            finals.append(final)
        return Run(outputs=states, mask=mask, finals=tuple(finals))

    def _shown(self, outputs: Tensor, mask: Tensor | None, final: Tensor) -> Tensor:
        """Final states (B, P, D · directions) that show what a watcher left of the last outputs of each direction.

        The forward direction ends at the last real item, the backward one at the first.
        """
        real = outputs.new_ones(outputs.shape[:2], dtype=torch.bool) if mask is None else mask
        ahead, back = final[:, 0].split((self.width, self.output_width - self.width), dim=-1)
        ahead = last_real(outputs[..., : self.width], real, ahead)
        back = torch.where(real.any(1, keepdim=True), outputs[:, 0, self.width :], back)
        return torch.cat((torch.cat((ahead, back), dim=-1).unsqueeze(1), final[:, 1:]), dim=1)

    def _sweep(self, direction: int, index: int, states: Tensor, mask: Tensor | None) -> Sweep:
        layer = self.layers(direction)[index]
        start = layer.cell.start(states)
        if direction == 0:
            return layer(states, mask, start)
        sweep = layer(reverse(states, mask), mask, start)
        return Sweep(outputs=reverse(sweep.outputs, mask), final=sweep.final)

    def products(self, inputs: Tensor) -> Tensor:
        """The products of the first layer with its inputs, for any number of steps: (..., I) → (..., G·D)."""
        return self.layers()[0].inputs(inputs)

    def step(self, products: Tensor, states: Tensor) -> tuple[Tensor, Tensor]:
        """One step of a one-way network: (S, K, G·D), states (S, K, L, P, D) → outputs (S, K, D), states.

        What a watcher puts in the place of a state goes on in the recurrence.
        """
        new: list[Tensor] = []
        outputs = read = products
        for index, layer in enumerate(self.layers()):
            if index:
                read = drop(outputs, self.dropout, self.training)
                products = layer.inputs(read)
            state = layer.cell.step(products, states[..., index, :, :]).state  # (S, K, P, D)
            outputs, site = state[..., 0, :], Site(self.part, "cell", index)
            if watched(site):
                outputs = visit(site, outputs)
                state = torch.cat((outputs.unsqueeze(-2), state[..., 1:, :]), dim=-2)
            new.append(state)
            if self.residual and index:
                outputs = read + outputs
        return outputs, torch.stack(new, dim=-3)

    def roll(self, inputs: Tensor, states: Tensor) -> Tensor:
        """A whole sequence through a one-way network from given states (B, L, P, D): (B, N, I) → (B, N, D).

        In one call of the kernel per layer; step by step if somebody looks at a state, so that what is put in its place
        goes on as in `step`.
        """
        if any(watched(Site(self.part, "cell", index)) for index in range(len(self.layers()))):
            products, grid = self.products(inputs), states.unsqueeze(1)
            outputs: list[Tensor] = []
            for item in range(inputs.size(1)):
                one, grid = self.step(products[:, item : item + 1], grid)
                outputs.append(one)
            return torch.cat(outputs, dim=1)
        read = inputs
        for index, layer in enumerate(self.layers()):
            if index:
                read = drop(read, self.dropout, self.training)
            said = layer(read, None, states[:, index]).outputs
            read = read + said if self.residual and index else said
        return read
