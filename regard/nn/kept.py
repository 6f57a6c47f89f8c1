"""Parameters laid out anew for search, kept until they change.

With few rows a product is bound by reading its weights, and a weight that stands as (inputs, outputs) is read up to
twice as fast as one that stands as torch keeps it. Turning it round at every step would cost more than it saves.

Shapes: R rows, I inputs, O outputs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

Made = TypeVar("Made")


class Kept(Generic[Made]):
    """What was made of some parameters, as long as these are the same tensors with nothing written to them.

    Whoever keeps it forgets it when training goes on (`forget`), so that nothing lies about that is no longer needed.
    """

    def __init__(self) -> None:
        self._known: tuple[tuple[Tensor, ...], tuple[tuple[int, int], ...], Made] | None = None

    def __deepcopy__(self, memo: dict[int, object]) -> "Kept[Made]":
        return Kept()

    def forget(self) -> None:
        self._known = None

    def get(self, parameters: Sequence[Tensor], make: Callable[[], Made]) -> Made:
        """What `make` makes of the parameters, made before or now."""
        now = tuple((one.data_ptr(), one._version) for one in parameters)
        known = self._known
        if known is not None and known[1] == now:
            return known[2]
        with torch.no_grad():
            made = make()
        # The tensors are held so that no others can come to stand at the same address.
        self._known = tuple(one.detach() for one in parameters), now, made
        return made


def is_fixed(parameters: Sequence[Tensor]) -> bool:
    """Whether what is made of parameters may be used in their place: nobody learns, and torch counts what is written."""
    return not torch.is_grad_enabled() and not any(one.is_inference() for one in parameters)


@dataclass(frozen=True, slots=True)
class Product:
    """x W + b for rows x (R, I)."""

    weight: Tensor  # (I, O)
    bias: Tensor | None  # (O,)

    @classmethod
    def of(cls, *modules: nn.Linear, scales: Sequence[float] = ()) -> "Product":
        """One map for several that read the same, their outputs side by side, each times its scale."""
        parts = list(zip(modules, scales or (1.0,) * len(modules), strict=True))
        weight = modules[0].weight.new_empty(modules[0].in_features, sum(one.out_features for one in modules))
        widths = [one.out_features for one in modules]
        for (one, factor), place in zip(parts, weight.split(widths, dim=1), strict=True):
            torch.mul(one.weight.t(), factor, out=place)
        biases = [one.bias * factor for one, factor in parts if one.bias is not None]
        assert len(biases) in (0, len(modules)), "all or none have a bias"
        return cls(weight, torch.cat(biases) if biases else None)

    def __call__(self, rows: Tensor) -> Tensor:
        """(R, I) → (R, O)."""
        return torch.mm(rows, self.weight) if self.bias is None else torch.addmm(self.bias, rows, self.weight)
