"""Convolution over pictures of different sizes in one batch.

What is padding stays zero through all layers, as if the picture ended there: so a picture has the same result alone and
beside larger ones.

Shapes: B rows, C channels, G groups of channels, h and w height and width of a grid, D width.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.nn.positions import sinusoids


@dataclass(frozen=True, slots=True)
class Grid:
    """Vectors on the places of a picture."""

    states: Tensor  # (B, C, h, w), zero at padding
    mask: Tensor  # (B, h, w)


class MaskedGroupNorm(nn.GroupNorm):
    """Group normalisation (Wu and He 2018) over the real places only."""

    def __init__(self, *, groups: int, channels: int) -> None:
        if channels % groups:
            raise ValueError(f"{channels} channels cannot be split into {groups} groups")
        super().__init__(groups, channels)

    def masked(self, states: Tensor, mask: Tensor) -> Tensor:
        """(B, C, h, w), mask (B, h, w) → (B, C, h, w)."""
        real = mask[:, None, None].to(states)  # (B, 1, 1, h, w)
        grouped = states.unflatten(1, (self.num_groups, -1))  # (B, G, C / G, h, w)
        count = real.sum((2, 3, 4), keepdim=True).clamp(min=1) * grouped.size(2)
        mean = (grouped * real).sum((2, 3, 4), keepdim=True) / count
        variance = ((grouped - mean).square() * real).sum((2, 3, 4), keepdim=True) / count
        normalised = ((grouped - mean) * torch.rsqrt(variance + self.eps)).flatten(1, 2)
        return normalised * self.weight[:, None, None] + self.bias[:, None, None]


class ConvolutionLayer(nn.Module):
    """relu(norm(W * x + b)) with kernels of 3 × 3; a stride of 2 halves height and width, rounded up."""

    def __init__(self, *, channels: int, width: int, stride: int = 1, groups: int | None = None) -> None:
        super().__init__()
        self.stride = stride
        self.convolution = nn.Conv2d(channels, width, kernel_size=3, stride=stride, padding=1)
        nn.init.kaiming_normal_(self.convolution.weight, nonlinearity="relu")
        assert self.convolution.bias is not None
        nn.init.zeros_(self.convolution.bias)
        self.norm = None if groups is None else MaskedGroupNorm(groups=groups, channels=width)

    def forward(self, grid: Grid) -> Grid:
        """A new place stands where the middle of its kernel stood, and is real where that was."""
        states, mask = self.convolution(grid.states), grid.mask[:, :: self.stride, :: self.stride]
        if self.norm is not None:
            states = self.norm.masked(states, mask)
        return Grid(states=functional.relu(states).masked_fill(~mask.unsqueeze(1), 0.0), mask=mask)


def grid_sinusoids(height: int, width: int, channels: int) -> Tensor:
    """Waves along both axes: (h, w, D); the first half of the channels tells the row, the second the column."""
    of_row = (channels + 1) // 2
    rows = sinusoids(torch.arange(height), of_row).unsqueeze(1).expand(-1, width, -1)
    columns = sinusoids(torch.arange(width), channels - of_row).unsqueeze(0).expand(height, -1, -1)
    return torch.cat((rows, columns), dim=-1)
