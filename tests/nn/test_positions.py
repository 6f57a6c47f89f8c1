"""Sinusoids against the formula of the paper."""

import math

import pytest
import torch

from regard.nn import SinusoidalPositions, sinusoids


def formula(position: int, dimension: int, width: int) -> float:
    """PE(p, 2i) = sin(p / 10000^{2i/D}), PE(p, 2i+1) = cos(p / 10000^{2i/D})."""
    angle = position / 10000 ** (2 * (dimension // 2) / width)
    return math.cos(angle) if dimension % 2 else math.sin(angle)


@pytest.mark.parametrize("width", [1, 2, 6, 7])
def test_sinusoids_follow_the_formula(width: int) -> None:
    positions = [0, 1, 2, 511, 512, 5000]
    waves = sinusoids(torch.tensor(positions), width)
    expected = [[formula(position, dimension, width) for dimension in range(width)] for position in positions]
    torch.testing.assert_close(waves, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-11)


@pytest.mark.parametrize("width", [1, 2, 6, 7])
def test_halves_are_the_same_waves_with_all_sines_first(width: int) -> None:
    positions = torch.tensor([0, 1, 2, 511, 512, 5000])
    mixed = sinusoids(positions, width)
    both = torch.cat((mixed[:, 0::2], mixed[:, 1::2]), dim=1)
    assert torch.equal(sinusoids(positions, width, "halves"), both)
    module = SinusoidalPositions(width=width, waves="halves")
    torch.testing.assert_close(module.at(positions).double(), both, rtol=0, atol=1e-6)


def test_sinusoids_of_any_shape() -> None:
    positions = torch.tensor([[3, 1], [0, 7]])
    assert torch.equal(sinusoids(positions, 4)[1, 1], sinusoids(torch.tensor(7), 4))


def test_positions_are_added_from_the_first_item_on() -> None:
    embedded = torch.randn(2, 5, 6)
    told = SinusoidalPositions(width=6)(embedded)
    expected = torch.tensor([[formula(item, dimension, 6) for dimension in range(6)] for item in range(5)])
    torch.testing.assert_close(told - embedded, expected.expand(2, -1, -1), rtol=0, atol=1e-6)


def test_there_is_no_longest_length() -> None:
    short, long = SinusoidalPositions(width=6, prepared=4), SinusoidalPositions(width=6, prepared=64)
    embedded = torch.zeros(1, 20, 6)
    assert torch.equal(short(embedded), long(embedded))
    positions = torch.tensor([[0, 3], [4, 19]])
    assert torch.equal(short.at(positions), long.at(positions))


def test_positions_take_the_type_of_the_embeddings() -> None:
    positions = SinusoidalPositions(width=6)
    assert positions(torch.zeros(1, 3, 6, dtype=torch.float64)).dtype == torch.float64
    assert positions(torch.zeros(1, 3, 6, dtype=torch.bfloat16)).dtype == torch.bfloat16
    assert not list(positions.parameters())
    assert not positions.state_dict()
