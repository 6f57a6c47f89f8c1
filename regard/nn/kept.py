"""Parameters laid out anew for search, kept until they change.

With few rows a product is bound by reading its weights, and a weight that stands as (inputs, outputs) is read up to
twice as fast as one that stands as torch keeps it. Turning it round at every step would cost more than it saves.

Shapes: R rows, I inputs, O outputs.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

Made = TypeVar("Made")
Place = tuple[Mapping[str, object], str, object]
"""Where a part of a module is kept, its name, and the part."""


@dataclass(frozen=True, slots=True)
class Known(Generic[Made]):
    """What was made, and all that it was made of: it is good as long as this stands where it stood, as it was."""

    made: Made
    places: list[Place]
    tensors: Sequence[Tensor]
    aliases: list[Tensor]  # they keep others from coming to stand at the same addresses
    written: list[tuple[int, int]] | None  # where each stands, and how often it was written to; None: nobody counts

    def is_good(self) -> bool:
        for held, name, part in self.places:
            if held.get(name) is not part:
                return False
        return self.written is not None and self.written == _written(self.tensors)


class Kept(Generic[Made]):
    """What was made of the parameters of a module, until they change.

    Torch counts what is written to a tensor, but not what a fused optimiser writes, nor what is written to `.data`:
    whoever keeps something forgets it whenever training begins or ends (`forget`), which `train` and `eval` tell.
    """

    def __init__(self) -> None:
        self._known: Known[Made] | None = None

    def __reduce__(self) -> tuple[type, tuple[()]]:
        """Copies and files know nothing of it."""
        return Kept, ()

    def forget(self) -> None:
        self._known = None

    def get(self, module: nn.Module, make: Callable[[], Made]) -> Made:
        """What `make` makes of the module, made before or now."""
        known = self._known
        if known is not None and known.is_good():
            return known.made
        tensors = [*module.parameters(), *module.buffers()]
        with torch.no_grad():
            made = make()
        aliases = [one.detach() for one in tensors]
        self._known = Known(made, list(_places(module)), tensors, aliases, _written(tensors))
        return made


def _places(module: nn.Module) -> Iterator[Place]:
    """All parameters, buffers and modules inside a module, and where there might be one."""
    for one in module.modules():
        for held in (one._parameters, one._buffers, one._modules):
            yield from ((held, name, part) for name, part in held.items())


def _written(tensors: Sequence[Tensor]) -> list[tuple[int, int]] | None:
    """None where nobody counts: of tensors that were made in inference mode."""
    if any(one.is_inference() for one in tensors):
        return None
    return [(one.data_ptr(), one._version) for one in tensors]


def is_fixed(module: nn.Module) -> bool:
    """Whether what is made of its parameters may stand for them: nobody learns, and numbers are not narrowed."""
    narrowed = torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda")
    return not (module.training or narrowed or torch.is_grad_enabled())


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

    def part(self, first: int, last: int) -> "Product":
        """Some of the outputs."""
        return Product(self.weight[:, first:last], None if self.bias is None else self.bias[first:last])

    def __call__(self, rows: Tensor, *, out: Tensor | None = None) -> Tensor:
        """(R, I) → (R, O), written to `out` where that is given."""
        if self.bias is None:
            return torch.mm(rows, self.weight, out=out)
        return torch.addmm(self.bias, rows, self.weight, out=out)
