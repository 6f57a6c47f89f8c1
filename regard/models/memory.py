"""What an encoder leaves behind for a decoder.

Shapes: B rows, N positions of the memory, D width, S summary width, P parts of a recurrent state (an LSTM has 2).
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True, slots=True)
class Memory:
    """States to attend to, at the memory's own resolution, and one vector for decoders that want just that."""

    states: Tensor  # (B, N, D)
    mask: Tensor  # (B, N)
    summary: Tensor  # (B, S) one vector for any encoder
    spans: Tensor  # (B, N, 2) the source items [start, end) that a position stands for
    layers: tuple[Tensor, ...] | None = None  # per layer, final states (B, P, D)

    def select(self, rows: Tensor) -> "Memory":
        """Some rows, in the order of `rows`."""
        return Memory(
            states=self.states[rows],
            mask=self.mask[rows],
            summary=self.summary[rows],
            spans=self.spans[rows],
            layers=None if self.layers is None else tuple(layer[rows] for layer in self.layers),
        )

    def join(self, other: "Memory") -> "Memory":
        """The rows of both, padded to the longer one."""
        items = max(self.mask.size(1), other.mask.size(1))
        layers = None
        assert (self.layers is None) == (other.layers is None), "only one of two memories has layers"
        if self.layers is not None and other.layers is not None:
            layers = tuple(torch.cat(pair) for pair in zip(self.layers, other.layers, strict=True))
        return Memory(
            states=torch.cat((lengthen(self.states, items), lengthen(other.states, items))),
            mask=torch.cat((lengthen(self.mask, items), lengthen(other.mask, items))),
            summary=torch.cat((self.summary, other.summary)),
            spans=torch.cat((lengthen(self.spans, items), lengthen(other.spans, items))),
            layers=layers,
        )


def lengthen(rows: Tensor, items: int, *, dim: int = 1, front: bool = False) -> Tensor:
    """Pad axis `dim` with zeros (False) to `items`, at the end or at the front."""
    missing = items - rows.size(dim)
    assert missing >= 0, f"{rows.size(dim)} items do not fit in {items}"
    if not missing:
        return rows
    padding = [0, 0] * (rows.dim() - dim - 1) + ([missing, 0] if front else [0, missing])
    return functional.pad(rows, padding)


def unit_spans(mask: Tensor) -> Tensor:
    """Spans of a memory that has one position for each source item: (B, N) → (B, N, 2)."""
    starts = torch.arange(mask.size(1), device=mask.device)
    return torch.stack((starts, starts + 1), dim=-1).expand(mask.size(0), -1, -1)


def over_source(weights: Tensor, spans: Tensor, mask: Tensor, items: int) -> Tensor:
    """Weights over the positions of a memory as weights over source items: (B, ..., N) → (B, ..., items).

    A position that stands for several items gives each the same share.
    """
    starts, ends = spans[..., :1], spans[..., 1:]  # (B, N, 1)
    places = torch.arange(items, device=spans.device)
    inside = (places >= starts) & (places < ends) & mask.unsqueeze(-1)  # (B, N, items)
    shares = inside / inside.sum(-1, keepdim=True).clamp(min=1)
    middle = [1] * (weights.dim() - 3)
    return weights @ shares.to(weights).view(len(shares), *middle, *shares.shape[1:])


def masked_mean(states: Tensor, mask: Tensor) -> Tensor:
    """Mean of the real positions: (B, N, D), (B, N) → (B, D)."""
    real = mask.unsqueeze(-1).to(states)
    return (states * real).sum(1) / real.sum(1).clamp(min=1)
