"""Products with a large weight that stays as it is, laid out as oneDNN likes it.

For hundreds of rows these are up to 1.4 times as fast as the products that torch makes by itself, for a few rows
several times, and what comes of a row does not depend on how many others there are. oneDNN makes a program for each
number of rows and keeps it, about a megabyte each; so there are few numbers of rows. The calls are those that
torch's own compiler makes of linear layers whose weights are frozen. They have no public name: whether they are there
and say what they should is tried once, and where not, nothing is packed.

Shapes: R rows, I inputs, O outputs.
"""

from dataclasses import dataclass
from functools import cache
from typing import Final

import torch
from torch import Tensor
from torch.nn import functional

LEAST: Final = 1 << 19
"""Numbers of a weight from which on packing pays: a smaller one stays in a near cache anyway."""


TOGETHER: Final = 16
"""More rows than this are filled up to a multiple of it."""


@dataclass(frozen=True, slots=True)
class Packed:
    """x Wᵀ + b for rows x (R, I)."""

    weight: Tensor  # (O, I), in an order of its own
    bias: Tensor | None  # (O,)

    @classmethod
    def of(cls, weight: Tensor, bias: Tensor | None = None) -> "Packed":
        laid: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous(), None)
        return cls(laid, None if bias is None else bias.detach())

    def __call__(self, rows: Tensor) -> Tensor:
        """(R, I) → (R, O)."""
        count = len(rows)
        if count > TOGETHER and count % TOGETHER:
            rows = functional.pad(rows, (0, 0, 0, -count % TOGETHER))
        made: Tensor = torch.ops.mkldnn._linear_pointwise(rows, self.weight, self.bias, "none", [], "")
        return made[:count]


def packs(weight: Tensor) -> bool:
    """Whether a weight can be packed, and should."""
    return weight.numel() >= LEAST and weight.dtype is torch.float32 and weight.is_cpu and can_pack()


@cache
def can_pack() -> bool:
    """Whether this torch has the calls, and they agree with its products."""
    if not torch.backends.mkldnn.is_available():
        return False
    rows, weight, bias = (torch.linspace(-1, 1, count) for count in (3 * 7, 5 * 7, 5))
    rows, weight = rows.view(3, 7), weight.view(5, 7)
    try:
        with torch.no_grad():
            made = Packed.of(weight, bias)(rows)
    except (AttributeError, RuntimeError, TypeError):
        return False
    return torch.allclose(made, torch.nn.functional.linear(rows, weight, bias), rtol=1e-5, atol=1e-6)
