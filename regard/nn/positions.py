"""Telling positions to a model that sees a set.

Shapes: B rows, N items, D width.
"""

import math

import torch
from torch import Tensor, nn


def sinusoids(positions: Tensor, width: int) -> Tensor:
    """Sine and cosine waves of rising length: (...,) → (..., D).

    Vaswani et al. 2017, section 3.5: PE(p, 2i) = sin(p / 10000^{2i/D}), PE(p, 2i+1) = cos(p / 10000^{2i/D}).
    """
    half = torch.arange(0, width, 2, dtype=torch.float64)
    angles = positions.to(torch.float64).unsqueeze(-1) * torch.exp(half * (-math.log(10000.0) / width))
    waves = torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)  # (..., D) or D + 1 for an odd width
    return waves[..., :width]


class SinusoidalPositions(nn.Module):
    """Adds sinusoids to embeddings; has no parameters and no longest length."""

    table: Tensor

    def __init__(self, *, width: int, prepared: int = 512) -> None:
        super().__init__()
        self.width = width
        self.register_buffer("table", sinusoids(torch.arange(prepared), width).float(), persistent=False)

    def forward(self, embedded: Tensor) -> Tensor:
        """A sequence from its first item on: (B, N, D) → (B, N, D)."""
        return embedded + self.at(torch.arange(embedded.size(1))).to(embedded)

    def at(self, positions: Tensor) -> Tensor:
        """Waves of given positions, computed anew beyond the table: (...,) → (..., D)."""
        if positions.numel() and int(positions.max()) >= self.table.size(0):
            return sinusoids(positions, self.width).to(self.table)
        return self.table[positions]
