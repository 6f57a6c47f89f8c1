"""Products with weights that stand beside a kernel, in the precision that is asked for.

Where products are to be made in a narrower one (torch.autocast), kernels read and write their results as they are, and
compute in single precision. What torch.autocast does for a product, is done here for a product inside a kernel's
function, and for its backward pass, of which autocast knows nothing.
"""

import torch
from torch import Tensor


def narrowed(tensor: Tensor) -> Tensor:
    """In the precision that products are made in."""
    kind = tensor.device.type
    return tensor.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else tensor


def widened(tensor: Tensor) -> Tensor:
    """In single precision, or a wider one."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def product_gradients(
    errors: Tensor, inputs: Tensor, weight: Tensor, needed: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    """Of x Wᵀ, for inputs (as narrow as they are) and weight (wide), from that of the result: (R, O)."""
    of_inputs = errors.mm(weight).view_as(inputs) if needed[0] else None
    of_weight = widened(errors.t().mm(inputs.view(-1, inputs.size(-1)))) if needed[1] else None
    return of_inputs, of_weight
