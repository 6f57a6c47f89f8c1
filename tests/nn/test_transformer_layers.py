"""Transformer layers against torch's, weights copied."""

import pytest
import torch
from torch import Tensor, nn

from regard.nn import Attention, FeedForward, TransformerDecoderLayer, TransformerEncoderLayer
from regard.nn.past import Past, Reading
from regard.nn.transformer import Residual

LENGTHS = torch.tensor([6, 3, 1])


def wild(module: nn.Module) -> None:
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.6)


@torch.no_grad()
def copy_attention(ours: Attention, theirs: nn.MultiheadAttention) -> None:
    theirs.in_proj_weight.copy_(torch.cat((ours.query.weight, ours.key_value.weight)))
    theirs.in_proj_bias.copy_(torch.cat((ours.query.bias, ours.key_value.bias)))
    theirs.out_proj.load_state_dict(ours.output.state_dict())


def copy_rest(
    feedforward: FeedForward, residuals: list[Residual], theirs: nn.Module, norms: list[nn.LayerNorm]
) -> None:
    assert isinstance(theirs, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer)
    theirs.linear1.load_state_dict(feedforward.inner.state_dict())
    theirs.linear2.load_state_dict(feedforward.outer.state_dict())
    for residual, norm in zip(residuals, norms, strict=True):
        norm.load_state_dict(residual.norm.state_dict())


def decoder_pair(norm_first: bool) -> tuple[TransformerDecoderLayer, nn.TransformerDecoderLayer]:
    ours = TransformerDecoderLayer(
        width=8, memory_width=8, heads=2, inner=12, norm_first=norm_first, dropout=0.3, layer=0
    ).double()
    theirs = nn.TransformerDecoderLayer(8, 2, 12, dropout=0.3, batch_first=True, norm_first=norm_first).double()
    wild(ours)
    copy_attention(ours.attention, theirs.self_attn)
    copy_attention(ours.cross, theirs.multihead_attn)
    copy_rest(
        ours.feedforward,
        [ours.around_attention, ours.around_cross, ours.around_feedforward],
        theirs,
        [theirs.norm1, theirs.norm2, theirs.norm3],
    )
    return ours.eval(), theirs.eval()


def masks(items: int) -> tuple[Tensor, Tensor]:
    real = torch.arange(items) < LENGTHS.unsqueeze(1)
    return real, real[:, None, None, :]


@pytest.mark.parametrize("norm_first", [False, True])
def test_encoder_layer_equals_that_of_torch(norm_first: bool) -> None:
    ours = TransformerEncoderLayer(width=8, heads=2, inner=12, norm_first=norm_first, dropout=0.3, layer=0).double()
    theirs = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.3, batch_first=True, norm_first=norm_first).double()
    wild(ours)
    copy_attention(ours.attention, theirs.self_attn)
    residuals = [ours.around_attention, ours.around_feedforward]
    copy_rest(ours.feedforward, residuals, theirs, [theirs.norm1, theirs.norm2])
    ours.eval()
    theirs.eval()
    states = torch.randn(3, 6, 8, dtype=torch.float64)
    real, mask = masks(6)
    result, expected = ours(states, mask), theirs(states, src_key_padding_mask=~real)
    torch.testing.assert_close(result[real], expected[real], rtol=0, atol=1e-12)


@pytest.mark.parametrize("norm_first", [False, True])
def test_decoder_layer_equals_that_of_torch(norm_first: bool) -> None:
    ours, theirs = decoder_pair(norm_first)
    states, memory = torch.randn(3, 5, 8, dtype=torch.float64), torch.randn(3, 6, 8, dtype=torch.float64)
    real, mask = masks(6)
    result = ours(states, ours.cross.prepare(memory), mask)
    future = torch.ones(5, 5, dtype=torch.bool).triu(1)
    expected = theirs(states, memory, tgt_mask=future, memory_key_padding_mask=~real)
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("norm_first", [False, True])
def test_decoder_steps_equal_all_steps_at_once(norm_first: bool) -> None:
    """Two sentences with three beams each, against six rows."""
    ours, _ = decoder_pair(norm_first)
    states, memory = torch.randn(2, 3, 5, 8, dtype=torch.float64), torch.randn(2, 6, 8, dtype=torch.float64)
    mask = (torch.arange(6) < torch.tensor([[6], [2]]))[:, None, None, :]
    expected = ours(
        states.flatten(0, 1), ours.cross.prepare(memory.repeat_interleave(3, 0)), mask.repeat_interleave(3, 0)
    ).unflatten(0, (2, 3))
    past = Past.start(2, states).select(None, torch.zeros(2, 3, dtype=torch.long))
    for item in range(5):
        past = past.grow(3)
        reading = Reading(past, None, None, torch.full((2,), item + 1))
        result = ours.step(states[:, :, item], reading, ours.cross.prepare(memory), mask)
        torch.testing.assert_close(result, expected[:, :, item], rtol=0, atol=1e-12)


def test_dropout_acts_only_in_training() -> None:
    ours, _ = decoder_pair(norm_first=True)
    states, memory = torch.randn(1, 5, 8, dtype=torch.float64), torch.randn(1, 6, 8, dtype=torch.float64)
    mask = torch.ones(1, 1, 1, 6, dtype=torch.bool)
    still = ours(states, ours.cross.prepare(memory), mask)
    assert torch.equal(still, ours(states, ours.cross.prepare(memory), mask))
    ours.train()
    assert not torch.allclose(still, ours(states, ours.cross.prepare(memory), mask))
