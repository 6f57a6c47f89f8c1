"""Products with weights that stand beside a kernel: made in the precision that is asked for, and given in the kernel's.

Kernels compute in single precision. Where products are to be made in a narrower one (torch.autocast), their factors are
narrowed and what comes out is widened again, as autocast does it; but for the backward pass, which it knows nothing of.
"""

import torch
from torch import Tensor
from torch.nn import functional


def narrowed(tensor: Tensor) -> Tensor:
    """In the precision that products are made in."""
    kind = tensor.device.type
    return tensor.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else tensor


def widened(tensor: Tensor) -> Tensor:
    """In single precision, or a wider one."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def projected(inputs: Tensor, weight: Tensor) -> Tensor:
    """x Wᵀ, wide: (..., I) and (O, I) → (..., O)."""
    return widened(functional.linear(inputs, weight))


def product_gradients(
    errors: Tensor, inputs: Tensor, weight: Tensor, needed: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    """Of `projected`, for inputs and weight, from that of its result: (R, O), the precision is that of the inputs."""
    errors = errors.to(inputs.dtype)
    of_inputs = widened(errors.mm(weight)).view_as(inputs) if needed[0] else None
    of_weight = widened(errors.t().mm(inputs.view(-1, inputs.size(-1)))) if needed[1] else None
    return of_inputs, of_weight
