"""Names and shapes of what all layouts have: linear maps, norms, attention; foreign names to ours."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn

from regard.errors import ModelError
from regard.interchange.checkpoint import Checkpoint
from regard.recipe.schema import ModelSection


@dataclass(slots=True)
class Parts:
    """Collects tensors under our names."""

    checkpoint: Checkpoint
    tensors: dict[str, Tensor] = field(default_factory=dict)

    def linear(self, ours: str, theirs: Sequence[str], inside: int, outside: int, *, bias: bool) -> None:
        """A linear map; several of theirs, one below the other, may be one of ours."""
        weights = [self.checkpoint.take(f"{name}.weight", outside, inside) for name in theirs]
        self.tensors[f"{ours}.weight"] = torch.cat(weights)
        if bias:
            self.tensors[f"{ours}.bias"] = torch.cat([self.checkpoint.take(f"{name}.bias", outside) for name in theirs])

    def norm(self, ours: str, theirs: str, width: int, *, bias: bool) -> None:
        self.tensors[f"{ours}.weight"] = self.checkpoint.take(f"{theirs}.weight", width)
        if bias:
            self.tensors[f"{ours}.bias"] = self.checkpoint.take(f"{theirs}.bias", width)

    def attention(self, ours: str, theirs: Sequence[str], width: int, inner: int, *, bias: bool) -> None:
        """`theirs` are the maps of queries, keys, values and heads; keys and values are one map of ours."""
        query, key, value, output = theirs
        self.linear(f"{ours}.query", [query], width, inner, bias=bias)
        self.linear(f"{ours}.key_value", [key, value], width, inner, bias=bias)
        self.linear(f"{ours}.output", [output], inner, width, bias=bias)


@dataclass(frozen=True, slots=True)
class Tables:
    """Embeddings of both sides and the output, in foreign order; the same tensor where they are tied."""

    source: Tensor
    target: Tensor
    output: Tensor
    bias: Tensor

    @property
    def tie(self) -> Literal["all", "target", "none"]:
        """What is shared. A table that source and target share without the output is held twice."""
        if not _same(self.target, self.output):
            return "none"
        return "all" if _same(self.source, self.target) else "target"

    @property
    def shared(self) -> bool:
        """Whether both sides read the same table."""
        return _same(self.source, self.target)


def _same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.equal(one, other)


@dataclass(frozen=True, slots=True)
class Layout:
    """An encoder-decoder as its checkpoint has it: what to build, and the tensors for it."""

    name: str
    model: ModelSection
    tensors: dict[str, Tensor]
    tables: Tables
    longest: int | None = None  # tokens that a side may have, START or END included


def fill(module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Put tensors in the place of all parameters of a module; those of tied ones may be given more than once."""
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if name not in tensors or tensors[name].shape != parameter.shape:
                found = tuple(tensors[name].shape) if name in tensors else "absent"
                raise ModelError(f"the import has {name} {found}, and {tuple(parameter.shape)} is needed")
            parameter.copy_(tensors[name])
    known = {name for name, _ in module.named_parameters(remove_duplicate=False)}
    assert tensors.keys() <= known, f"nobody wants {sorted(tensors.keys() - known)}"
