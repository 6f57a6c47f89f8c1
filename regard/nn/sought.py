"""Recurrent networks under search, whose weights stay as they are.

What comes of a token depends on nothing else, so the products of all tokens are made once, where many rows are searched
at a time. What comes of the state before a step, and of all else that was there before it, is made once for
the rows that go on from it. What is computed is that of `Recurrent.step` up to the order of sums.

Shapes: S sentences, K beams, R rows (S · K), U rows that are continued, V vocabulary, I input width, D state width,
L layers, P parts of a state, G blocks, O output width.
"""

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn

from regard.kernels import search as native
from regard.nn.cells import Cell, GRUCell, LSTMCell
from regard.nn.embedding import Embedding
from regard.nn.kept import Kept, Product, is_fixed
from regard.nn.loops import CellLoop, LSTMLoop, Parts, cell_loop
from regard.nn.packed import Packed, packs
from regard.nn.plain import is_whole
from regard.nn.recurrent import Recurrent
from regard.nn.sites import anyone_watches
from regard.nn.unrolled import LayerLoop, can_unroll, layer_loops

MANY: Final = 32
"""Rows of a step from which on the products of all tokens are made: one sentence would not pay them back."""

LARGEST: Final = 1 << 24
"""Numbers that the products of all tokens may have: 64 megabytes in single precision."""


@dataclass(frozen=True, slots=True)
class Read:
    """What is read in a step."""

    tokens: Tensor  # (R,)
    rows: Tensor | None  # (R,) which row of the inputs each goes on from; None: its own


class TableLinear:
    """b_token + Σ_k W_k x_k: `bases` are those of all tokens (V, 1, O), each W_k is (O, I_k)."""

    def __init__(self, bases: Tensor, *weights: Tensor) -> None:
        self.bases = bases[:, 0]
        self._product: Product | Packed | None = None
        if weights:
            weight = torch.cat(weights, dim=1)  # (O, I)
            self._product = Packed.of(weight) if packs(weight) else Product(weight.t().contiguous(), None)

    def carried(self, *inputs: Tensor) -> Tensor:
        """What comes of the inputs (U, I_k): (U, O)."""
        assert self._product is not None
        return self._product(inputs[0] if len(inputs) == 1 else torch.cat(inputs, dim=1))

    def __call__(self, step: Read, *inputs: Tensor) -> Tensor:
        """(U, I_k) → (R, O)."""
        total = self.bases[step.tokens]
        if self._product is None:
            return total
        carried = self.carried(*inputs)
        return total.add_(carried if step.rows is None else carried[step.rows])


class SoughtLSTM(LSTMLoop[Read]):
    """`LSTMLoop` with all but its product in one pass, where there is a kernel for it."""

    def __init__(self, cell: LSTMCell, bases: Tensor, *reading: Tensor) -> None:
        self._table = TableLinear(bases, cell.recurrent.weight, *reading)
        super().__init__(lambda *_: self._table, cell, bases, *reading)

    def step(self, step: Read, state: Parts, *read: Tensor) -> Parts:
        (hidden, memory), table = state, self._table
        memory = memory.contiguous()
        if not native.gates(table.bases, step.tokens, memory):
            return super().step(step, state, *read)
        return native.gated(table.bases, step.tokens, table.carried(hidden, *read), step.rows, memory)


def sought_loop(cell: Cell, bases: Tensor, *reading: Tensor) -> CellLoop[Read]:
    """The loop of a cell over tokens."""
    if isinstance(cell, LSTMCell):
        return SoughtLSTM(cell, bases, *reading)
    return cell_loop(TableLinear, cell, bases, *reading)


class SoughtNetwork:
    """`Recurrent.step` for tokens with given embeddings (V, I), and weights (G·D, ·) for what else is read."""

    def __init__(self, network: Recurrent, embeddings: Tensor, *reading: Tensor) -> None:
        loops = layer_loops(sought_loop, network, embeddings.unsqueeze(1), *reading)
        self._loop = LayerLoop(network, loops)
        # A GRU's gates act on the state of each row, and upper layers read what is each row's own.
        self._shares = len(loops) == 1 and not isinstance(network.layers()[0].cell, GRUCell)

    def step(self, tokens: Tensor, cell: Tensor, beams: Tensor | None, *read: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs (S, K, D) and states (S, K, L, P, D) after the tokens (S, K).

        Row k of a sentence goes on from row beams[k] of the states (S, K', L, P, D) and of what is read (S, K', ·), or
        from its own.
        """
        states, rows = self._loop.start(cell.flatten(0, 1)), None  # (S · K', D) each
        inputs = [one.flatten(0, 1) for one in read]
        if beams is not None:
            first = torch.arange(0, cell.size(0) * cell.size(1), cell.size(1), device=beams.device)
            parents = places = (first.unsqueeze(1) + beams).flatten()
            if self._shares:
                parents, rows = places.unique(return_inverse=True)
            states = [
                (shown.index_select(0, parents), *(part.index_select(0, places) for part in hidden))
                for shown, *hidden in states
            ]
            inputs = [one.index_select(0, parents) for one in inputs]
        outputs, states = self._loop.step(Read(tokens.flatten(), rows), states, *inputs)
        new = torch.stack([part for layer in states for part in layer], dim=1)  # (R, L · P, D)
        return outputs.view(*tokens.shape, -1), new.view(*tokens.shape, *cell.shape[2:])


class Sought:
    """The network of a decoder as search runs it, where that pays."""

    def __init__(self) -> None:
        self._kept: Kept[SoughtNetwork] = Kept()

    def forget(self) -> None:
        self._kept.forget()

    def get(
        self, decoder: nn.Module, network: Recurrent, embedding: Embedding, rows: int, *reading: Tensor
    ) -> SoughtNetwork | None:
        """For a step of so many rows; None where its products must not, or need not, be made of all tokens.

        Which way is taken follows from what is asked, not from what was asked before: both agree but for the last bits.
        """
        size = len(embedding.weight) * network.blocks * network.width
        if rows < MANY or size > LARGEST or not is_fixed(decoder) or anyone_watches() or not can_unroll(network):
            return None
        if not is_whole(decoder):
            return None
        return self._kept.get(decoder, lambda: SoughtNetwork(network, embedding.weight * embedding.scale, *reading))
