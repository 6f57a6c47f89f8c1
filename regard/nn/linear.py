"""Linear maps that learn: by torch, and in half precision by the kernels where there are some.

Kernels make a product as it is; torch prepares one for each number of rows, of which batches have many.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.kernels.products import in_half, projected, projects
from regard.nn.plain import is_plain


def linear(states: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x Wᵀ + b: (..., I), (O, I), (O,) → (..., O)."""
    if _natively():
        rows = states.contiguous()
        if projects(rows, weight, bias):
            return projected(rows, weight, bias)
    return functional.linear(states, weight, bias)


def mapped(projection: nn.Module, states: Tensor) -> Tensor:
    """What a linear module makes of states, called if it is more than that."""
    if _natively() and isinstance(projection, nn.Linear) and is_plain(projection, nn.Linear):
        return linear(states, projection.weight, projection.bias)
    return projection(states)


def _natively() -> bool:
    return torch.is_grad_enabled() and in_half()
