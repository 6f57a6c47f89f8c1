"""Weights by name: taken, put back, averaged over checkpoints or over updates."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from regard.models import System


def weights(system: System) -> dict[str, Tensor]:
    """Every parameter once, under its first name: tied weights are not repeated."""
    return {name: parameter.detach().clone() for name, parameter in system.named_parameters()}


def load_weights(system: System, tensors: Mapping[str, Tensor]) -> None:
    """Copy weights into a system that has the same names and shapes."""
    with torch.no_grad():
        for name, parameter in system.named_parameters():
            parameter.copy_(tensors[name])


def average(all_weights: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of several sets of weights, summed in double precision."""
    return {
        name: torch.stack([one[name].double() for one in all_weights]).mean(0).to(tensor.dtype)
        for name, tensor in all_weights[0].items()
    }


class MovingAverage:
    """A moving average of the weights over updates: s ← d·s + (1 - d)·w.

    Early on d is (1 + step) / (10 + step), if that is less, so that the first values are soon forgotten.
    """

    def __init__(self, system: System, decay: float) -> None:
        self.system = system
        self.decay = decay
        self.values = weights(system)

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take in the weights after update `step`."""
        share = 1 - min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(list(self.values.values()), [p.detach() for p in self.system.parameters()], share)

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Let the system have the averaged weights for the length of a block."""
        learning = weights(self.system)
        load_weights(self.system, self.values)
        try:
            yield
        finally:
            load_weights(self.system, learning)
