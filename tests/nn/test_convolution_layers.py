"""Convolution over padded pictures: against plain loops, and against torch over each picture alone."""

import math

import pytest
import torch
from torch import Tensor, nn

from regard.nn.convolution import ConvolutionLayer, Grid, MaskedGroupNorm, grid_sinusoids

SIZES = ((5, 7), (8, 4), (1, 1), (2, 9))


def padded(channels: int) -> tuple[Grid, list[Tensor]]:
    pictures = [torch.randn(channels, *size, dtype=torch.float64) for size in SIZES]
    states, mask = torch.zeros(4, channels, 9, 10, dtype=torch.float64), torch.zeros(4, 9, 10, dtype=torch.bool)
    for row, (picture, (height, width)) in enumerate(zip(pictures, SIZES, strict=True)):
        states[row, :, :height, :width] = picture
        mask[row, :height, :width] = True
    return Grid(states=states, mask=mask), pictures


def convolved(picture: Tensor, weight: Tensor, bias: Tensor, stride: int) -> Tensor:
    """y[o, i, j] = b[o] + Σ W[o, c, u, v] x[c, s i + u - 1, s j + v - 1], number by number; x is 0 outside."""
    channels, height, width = picture.shape
    result = torch.zeros(len(weight), math.ceil(height / stride), math.ceil(width / stride), dtype=picture.dtype)
    for out, i, j in torch.cartesian_prod(*map(torch.arange, result.shape)).tolist():
        total = bias[out]
        for channel, u, v in torch.cartesian_prod(torch.arange(channels), torch.arange(3), torch.arange(3)).tolist():
            row, column = stride * i + u - 1, stride * j + v - 1
            if 0 <= row < height and 0 <= column < width:
                total = total + weight[out, channel, u, v] * picture[channel, row, column]
        result[out, i, j] = total
    return result


@pytest.mark.parametrize("stride", [1, 2])
@torch.no_grad()
def test_a_layer_sees_each_picture_as_if_it_were_alone(stride: int) -> None:
    layer = ConvolutionLayer(channels=2, width=3, stride=stride).double()
    nn.init.normal_(layer.convolution.bias)
    grid, pictures = padded(2)
    result = layer(grid)
    for row, picture in enumerate(pictures):
        expected = convolved(picture, layer.convolution.weight, layer.convolution.bias, stride).clamp(min=0)
        real = result.mask[row]
        height, width = expected.shape[1:]
        assert real.sum() == height * width
        assert real[:height, :width].all()
        torch.testing.assert_close(result.states[row, :, :height, :width], expected, rtol=0, atol=1e-12)
        assert not result.states[row, :, ~real].any()


@torch.no_grad()
def test_group_norm_counts_only_real_places() -> None:
    norm = MaskedGroupNorm(groups=2, channels=6).double()
    theirs = nn.GroupNorm(2, 6).double()
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    theirs.load_state_dict(norm.state_dict())
    grid, pictures = padded(6)
    result = norm.masked(grid.states.masked_fill(~grid.mask.unsqueeze(1), 99.0), grid.mask)
    for row, picture in enumerate(pictures):
        height, width = picture.shape[1:]
        expected = theirs(picture.unsqueeze(0))[0]
        torch.testing.assert_close(result[row, :, :height, :width], expected, rtol=0, atol=1e-11)
    empty = norm.masked(torch.ones(1, 6, 2, 2, dtype=torch.float64), torch.zeros(1, 2, 2, dtype=torch.bool))
    assert empty.isfinite().all()


def test_channels_must_fall_into_groups() -> None:
    with pytest.raises(ValueError, match="6 channels cannot be split into 4 groups"):
        MaskedGroupNorm(groups=4, channels=6)


@pytest.mark.parametrize("channels", [6, 7])
def test_waves_tell_row_and_column(channels: int) -> None:
    waves = grid_sinusoids(3, 4, channels)
    assert waves.shape == (3, 4, channels)
    half = (channels + 1) // 2
    for row in range(3):
        for column in range(4):
            for channel in range(channels):
                place, index, size = (
                    (row, channel, half) if channel < half else (column, channel - half, channels - half)
                )
                wave = math.cos if index % 2 else math.sin
                expected = wave(place / 10000 ** ((index - index % 2) / size))
                assert waves[row, column, channel].item() == pytest.approx(expected, abs=1e-12)
    places = waves.flatten(0, 1)
    assert (torch.cdist(places, places) + torch.eye(12)).min() > 0.1, "two places look alike"
