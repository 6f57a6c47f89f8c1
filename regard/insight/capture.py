"""Looking at what passes through a model, without changing it.

`capture` records the values at sites for the length of a block. Recording attention takes the explicit path, so it
belongs around one teacher-forced pass over a finished output, never around the search that found it.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from regard.nn.sites import Kind, Part, Site, watching

ATTENTION: tuple[Kind, ...] = ("self", "cross")


class Capture:
    """Records values at chosen sites. Modules that work step by step visit a site many times; steps are joined."""

    def __init__(self, *, parts: Sequence[Part] | None, kinds: Sequence[Kind] | None) -> None:
        self.parts = parts
        self.kinds = kinds
        self._values: dict[Site, list[Tensor]] = {}

    def watches(self, site: Site) -> bool:
        return (self.parts is None or site.part in self.parts) and (self.kinds is None or site.kind in self.kinds)

    def visit(self, site: Site, value: Tensor) -> Tensor:
        self._values.setdefault(site, []).append(value.detach())
        return value

    @property
    def values(self) -> Mapping[Site, Tensor]:
        """By site: attention weights (B, H, M, N), everything else (B, M, D)."""
        return {site: _joined(site, values) for site, values in self._values.items()}


def _joined(site: Site, values: list[Tensor]) -> Tensor:
    if site.kind in ATTENTION:
        return torch.cat(values, dim=2)
    return torch.cat([value if value.dim() == 3 else value.unsqueeze(1) for value in values], dim=1)


@contextmanager
def capture(*, parts: Sequence[Part] | None = None, kinds: Sequence[Kind] | None = None) -> Iterator[Capture]:
    """Record the values of some or all sites for the length of a block."""
    captured = Capture(parts=parts, kinds=kinds)
    with watching(captured):
        yield captured
