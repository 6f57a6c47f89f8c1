"""From what an encoder leaves behind to where a recurrent decoder begins.

Shapes: B rows, L layers, P parts of a state, D state width, S summary width.
"""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from regard.models.memory import Memory
from regard.nn import StateSize


class Bridge(nn.Module, ABC):
    """Makes the first states of a decoder."""

    @abstractmethod
    def start(self, memory: Memory) -> Tensor:
        """(B, L, P, D)."""


class FinalStates(Bridge):
    """The final states of the encoder as they are, layer by layer (Sutskever et al. 2014)."""

    def __init__(self, *, offered: StateSize | None, wanted: StateSize) -> None:
        super().__init__()
        if offered != wanted:
            raise ValueError(f"the decoder begins with {wanted}, and the encoder ends with {offered}")

    def start(self, memory: Memory) -> Tensor:
        assert memory.layers is not None
        return torch.stack(memory.layers, dim=1)


class TransformedSummary(Bridge):
    """s_0 = tanh(W · summary), of any size to any other (Bahdanau et al. 2015, A.2.2)."""

    def __init__(self, *, summary_width: int, wanted: StateSize) -> None:
        super().__init__()
        self.wanted = wanted
        self.linear = nn.Linear(summary_width, wanted.layers * wanted.parts * wanted.width)

    def start(self, memory: Memory) -> Tensor:
        return self.of(memory.summary)

    def of(self, summary: Tensor) -> Tensor:
        """(B, S) → (B, L, P, D)."""
        wanted = self.wanted
        return torch.tanh(self.linear(summary)).unflatten(-1, (wanted.layers, wanted.parts, wanted.width))


class FromNothing(Bridge):
    """Zero states, where there is no source: a language model."""

    def __init__(self, *, wanted: StateSize) -> None:
        super().__init__()
        self.wanted = wanted

    def start(self, memory: Memory) -> Tensor:
        wanted = self.wanted
        return memory.states.new_zeros(memory.states.size(0), wanted.layers, wanted.parts, wanted.width)
