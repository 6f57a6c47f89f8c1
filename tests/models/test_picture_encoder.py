"""The convolutional encoder against torch's own layers, picture by picture."""

import pytest
import torch
from torch import nn

from regard.data.batch import Image, join_sources
from regard.insight import capture, intervene
from regard.insight.intervene import replace as put
from regard.models import ConvolutionEncoder
from regard.models.convolution import compact
from regard.models.memory import unit_spans
from regard.nn import Site
from regard.nn.convolution import ConvolutionLayer, grid_sinusoids

SITE = Site("encoder", "embedding")
SIZES = ((5, 7), (8, 4), (1, 1), (2, 9))


def picture(height: int, width: int) -> Image:
    return Image(pixels=torch.randn(1, 2, height, width, dtype=torch.float64), mask=torch.ones(1, height, width).bool())


def convolution_encoder(*, halvings: int | None = None, groups: int | None = None) -> ConvolutionEncoder:
    encoder = ConvolutionEncoder(channels=2, width=6, layers=3, dropout=0.0, halvings=halvings, groups=groups)
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.normal_(std=0.5)
    return encoder.double().eval()


def theirs(encoder: ConvolutionEncoder, halvings: int, groups: int | None) -> nn.Sequential:
    """The same stack of torch's layers, for pictures without padding."""
    modules: list[nn.Module] = []
    for index, layer in enumerate(encoder.layers):
        assert isinstance(layer, ConvolutionLayer)
        convolution = nn.Conv2d(6 if index else 2, 6, 3, stride=2 if index < halvings else 1, padding=1)
        convolution.load_state_dict(layer.convolution.state_dict())
        modules.append(convolution)
        if groups is not None:
            assert layer.norm is not None
            norm = nn.GroupNorm(groups, 6)
            norm.load_state_dict(layer.norm.state_dict())
            modules.append(norm)
        modules.append(nn.ReLU())
    return nn.Sequential(*modules).double()


@pytest.mark.parametrize("halvings", [0, 1, 2, None])
@pytest.mark.parametrize("groups", [None, 3])
@torch.no_grad()
def test_the_memory_of_a_padded_batch_is_that_of_each_picture(halvings: int | None, groups: int | None) -> None:
    encoder = convolution_encoder(halvings=halvings, groups=groups)
    stack = theirs(encoder, 3 if halvings is None else halvings, groups)
    pictures = [picture(*size) for size in SIZES]
    source = join_sources([{"source": one} for one in pictures])["source"]
    assert isinstance(source, Image)
    source.pixels.movedim(1, -1)[~source.mask] = 9.0
    memory = encoder.encode(source)
    for row, one in enumerate(pictures):
        grid = stack(one.pixels)[0].movedim(0, -1)  # (h, w, D)
        expected = (grid + grid_sinusoids(*grid.shape).to(grid)).flatten(0, 1)
        positions = len(expected)
        assert memory.mask[row].tolist() == [True] * positions + [False] * (memory.mask.size(1) - positions)
        torch.testing.assert_close(memory.states[row, :positions], expected, rtol=0, atol=1e-9)
        torch.testing.assert_close(memory.summary[row], expected.mean(0), rtol=0, atol=1e-9)
    assert torch.equal(memory.spans, unit_spans(memory.mask))
    assert memory.layers is None
    assert encoder.finals is None
    assert encoder.memory_width == encoder.summary_width == 6


def test_pictures_pass_the_site_of_embeddings() -> None:
    encoder, source = convolution_encoder(), picture(5, 7)
    with capture(parts=["encoder"]) as captured:
        memory = encoder.encode(source)
    assert torch.equal(captured.values[SITE], memory.states)
    with intervene({SITE: put(torch.full((6,), 2.0))}):
        changed = encoder.encode(source)
    torch.testing.assert_close(changed.summary, torch.full((1, 6), 2.0, dtype=torch.float64))


def test_pixels_take_the_precision_of_the_model() -> None:
    encoder = convolution_encoder().to(torch.bfloat16)
    assert encoder.encode(picture(5, 7)).states.dtype == torch.bfloat16


def test_dropout_acts_only_in_training() -> None:
    encoder = ConvolutionEncoder(channels=2, width=6, layers=1, dropout=0.5).double().eval()
    source = picture(9, 9)
    plain = encoder.encode(source).states
    assert torch.equal(plain, encoder.encode(source).states)
    assert not torch.equal(plain, encoder.train().encode(source).states)


@pytest.mark.parametrize("halvings", [-1, 4])
def test_more_halvings_than_layers_are_refused(halvings: int) -> None:
    with pytest.raises(ValueError, match=f"3 layers cannot halve a picture {halvings} times"):
        convolution_encoder(halvings=halvings)


def test_other_channels_are_not_read() -> None:
    source = picture(3, 3)
    with pytest.raises(AssertionError, match="more or fewer channels than the first layer"):
        convolution_encoder().encode(Image(pixels=source.pixels[:, :1], mask=source.mask))


def test_compact_moves_real_positions_to_the_front_in_their_order() -> None:
    states = torch.arange(8.0).view(2, 4, 1)
    mask = torch.tensor([[True, False, True, True], [False, True, False, False]])
    moved, real = compact(states, mask)
    assert real.tolist() == [[True, True, True], [True, False, False]]
    assert moved[real].flatten().tolist() == [0.0, 2.0, 3.0, 5.0]
    everything = torch.ones_like(mask)
    assert compact(states, everything)[0] is states
