"""Optimisers, and their state by the names of parameters."""

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer

from regard.training.groups import Group
from regard.training.settings import Settings
from regard.training.weights import share, shared_out


def build_optimizer(learning: Sequence[Group], settings: Settings) -> Optimizer:
    """One of three: `adamw` (decoupled weight decay), `adam` (decay as a part of the gradient), `sgd` (momentum)."""
    parameters = [{"params": list(group.parameters), "factor": group.factor} for group in learning]
    rate, decay = settings.learning_rate, settings.weight_decay
    match settings.optimizer:
        case "adamw":
            return torch.optim.AdamW(parameters, lr=rate, betas=settings.betas, weight_decay=decay, fused=True)
        case "adam":
            return torch.optim.Adam(parameters, lr=rate, betas=settings.betas, weight_decay=decay, fused=True)
        case "sgd":
            fused = not any(shared_out(one) for group in learning for one in group.parameters)  # torch has no such one
            return torch.optim.SGD(parameters, lr=rate, momentum=settings.momentum, weight_decay=decay, fused=fused)


def optimizer_state(optimizer: Optimizer, named: Iterable[tuple[str, Parameter]]) -> dict[str, Tensor]:
    """What an optimiser remembers of each parameter, as `parameter/what`; empty before the first update."""
    return {
        f"{name}/{what}": value
        for name, parameter in named
        if parameter in optimizer.state
        for what, value in optimizer.state[parameter].items()
        if isinstance(value, Tensor)
    }


def load_optimizer_state(
    optimizer: Optimizer, named: Iterable[tuple[str, Parameter]], tensors: Mapping[str, Tensor]
) -> None:
    """Take up what `optimizer_state` gave."""
    parameters = dict(named)
    for key, value in tensors.items():
        name, _, what = key.rpartition("/")
        if name in parameters:
            parameter = parameters[name]
            mine = share(value, parameter) if value.shape == parameter.shape else value
            optimizer.state[parameter][what] = mine.clone()
