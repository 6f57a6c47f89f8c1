"""Weights by name: taken, put back, averaged over checkpoints or over updates."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from regard.models import System

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor
    from typing_extensions import TypeIs


def weights(system: System) -> dict[str, Tensor]:
    """Every parameter once, under its first name: tied weights are not repeated."""
    return {name: parameter.detach().clone() for name, parameter in system.named_parameters()}


def shared_out(tensor: Tensor) -> "TypeIs[DTensor]":
    """Whether other processes have the rest of a tensor. What torch needs for that is not loaded to find out."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(tensor, module.DTensor)


def whole(tensor: Tensor) -> Tensor:
    """A tensor that is shared out among processes, put together in all of them; others are whole."""
    return tensor.full_tensor() if shared_out(tensor) else tensor


def share(tensor: Tensor, like: Tensor) -> Tensor:
    """The share of this process in a whole tensor, if what it is for is shared out."""
    if not shared_out(like):
        return tensor
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(tensor, like.device_mesh, like.placements, src_data_rank=None)


def local(tensor: Tensor) -> Tensor:
    """What of a tensor is in this process."""
    return tensor.to_local() if shared_out(tensor) else tensor


def gather(named: Iterable[tuple[str, Tensor]], *, keep: bool) -> dict[str, Tensor]:
    """Tensors made whole one after the other, in all processes alike; those who do not keep them get none."""
    gathered: dict[str, Tensor] = {}
    for name, tensor in named:
        one = whole(tensor.detach())
        if keep:
            gathered[name] = one
    return gathered


def load_weights(system: System, tensors: Mapping[str, Tensor]) -> None:
    """Copy weights into a system that has the same names and shapes."""
    with torch.no_grad():
        for name, parameter in system.named_parameters():
            parameter.copy_(share(tensors[name], parameter))


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
        portion = 1 - min(self.decay, (1 + step) / (10 + step))
        averages = [local(value) for value in self.values.values()]
        torch._foreach_lerp_(averages, [local(one.detach()) for one in self.system.parameters()], portion)

    @torch.no_grad()
    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from an average that was saved."""
        for name, value in self.values.items():
            value.copy_(share(tensors[name], value))
