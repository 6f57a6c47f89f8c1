"""Dropout whose random numbers are cheap on a CPU, alone and together with what stands beside it in a Transformer.

torch draws a random number for each element; here each draw of 64 bits serves eight elements, and what is kept for the
backward pass is a byte each. Where there are native kernels (`regard.kernels`), they draw and compute in one pass.
"""

from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.kernels import rows as native
from regard.kernels.calls import serves
from regard.kernels.draws import generator
from regard.kernels.products import projected, projects
from regard.nn.plain import is_plain

_LEVELS: Final = 1 << 8
_FINE: Final = 1 << 16
MOST: Final = (_LEVELS - 1) / _LEVELS
_LEAST: Final = 2.0**-24  # by which random numbers of torch differ


def dropout(states: Tensor, rate: float, training: bool) -> Tensor:
    """Set each number to 0 with probability `rate` and scale the others by 1 / (1 - rate), in training only."""
    if not training or not rate:
        return states
    if rate > MOST:
        stays = torch.rand(states.shape, device=states.device, generator=generator()) >= rate
        return torch.where(stays, states / max(1 - rate, _LEAST), 0.0)
    if serves(states):
        return native.dropped(states, rate)
    return _Dropped.apply(states, rate)  # type: ignore[no-untyped-call]


def add_dropped(states: Tensor, result: Tensor, rate: float, training: bool) -> Tensor:
    """states + dropout(result), in one pass."""
    if not training or not rate or rate > MOST or states.shape != result.shape:
        return states + dropout(result, rate, training)
    if serves(states, result):
        return native.added(states, result, rate)
    return _Added.apply(states, result, rate)  # type: ignore[no-untyped-call]


def norm_projected(
    norm: nn.Module, states: Tensor, inside: Tensor, projection: nn.Linear, rate: float, training: bool
) -> Tensor:
    """norm(states + dropout(inside W + b)); all but the product is one pass where a layer norm learns."""
    if _learns(projection, rate, training) and is_plain(norm, nn.LayerNorm):
        assert isinstance(norm, nn.LayerNorm)
        weight, shift, gain, bias = projection.weight, projection.bias, norm.weight, norm.bias
        fits = norm.normalized_shape == (len(weight),) and states.shape == (*inside.shape[:-1], len(weight))
        fits = fits and inside.size(-1) == weight.size(1)
        if fits and bias is not None and serves(states, weight, shift, gain, bias) and serves(inside, narrow=True):
            through = (weight, shift)
            return native.normed_projection(states, inside, through, rate, gain=gain, bias=bias, epsilon=norm.eps)
    return norm(add_dropped(states, projection(inside), rate, training))


def rectified_dropped(states: Tensor, rate: float, training: bool) -> Tensor:
    """dropout(max(0, states)). Where the result is not 0 tells all that the gradient needs."""
    if not training or not rate or rate > MOST:
        return dropout(functional.relu(states), rate, training)
    return _Rectified.apply(states, rate)  # type: ignore[no-untyped-call]


def rectified_projection(projection: nn.Linear, states: Tensor, rate: float, training: bool) -> Tensor:
    """dropout(max(0, x W + b)); the native kernel adds b, and writes over the product."""
    weight, bias = projection.weight, projection.bias
    if _learns(projection, rate, training) and serves(states, weight, bias):
        made = projected(states, weight, None) if projects(states, weight, None) else functional.linear(states, weight)
        return native.rectified(made, bias, rate)
    return rectified_dropped(projection(states), rate, training)


def _learns(projection: nn.Linear, rate: float, training: bool) -> bool:
    """Whether a native kernel may add the bias of a projection. What is dropped must not depend on whether gradients
    are wanted: a pass that is made again for them drops the same."""
    learns = training and rate <= MOST and (rate > 0 or torch.is_grad_enabled())
    if not learns or projection.bias is None or not is_plain(projection, nn.Linear):
        return False
    return projection.bias.shape == projection.weight.shape[:1]


def kept(like: Tensor, rate: float) -> Tensor:
    """A byte for each number of a tensor: 0 with probability `rate`, otherwise 1.

    A level from 0 to 255 is drawn for each number and compared with 256 · rate. The fraction of that is made up for by
    rows with one level more, so that the probability is exact (to 2⁻²⁴) for each number, whatever the rate.
    """
    count, width = like.numel(), like.shape[-1] if like.dim() else 1
    rows = count // width if width else 0
    whole, fraction = divmod(round(rate * _LEVELS * _FINE), _FINE)
    words = _bits((count + 7) // 8, like)
    fine = _bits((rows + 3) // 4, like).view(torch.int16)[:rows].view(rows, 1)  # evenly from -32768 to 32767
    limits = (fine < fraction - _FINE // 2).to(torch.uint8) + whole
    levels = words.view(torch.uint8)[:count].view(rows, width)
    return (levels >= limits).view(torch.uint8).view(like.shape)  # not in place: compiled views forget their type


def _bits(words: int, like: Tensor) -> Tensor:
    """Random words of 64 bits."""
    return torch.empty(words, dtype=torch.int64, device=like.device).random_(-(2**63), None, generator=generator())


class _Dropped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, rate: float) -> Tensor:
        mask = kept(states, rate)
        ctx.save_for_backward(mask)
        ctx.scale = 1 / (1 - rate)
        return mask.to(states.dtype).mul_(states).mul_(ctx.scale)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (mask,) = ctx.saved_tensors
        return mask.to(gradient.dtype).mul_(gradient).mul_(ctx.scale), None


class _Added(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, result: Tensor, rate: float) -> Tensor:
        mask = kept(result, rate)
        ctx.save_for_backward(mask)
        ctx.scale, ctx.types = 1 / (1 - rate), (states.dtype, result.dtype)
        wide = torch.promote_types(*ctx.types)
        return torch.addcmul(states.to(wide), result.to(wide), mask.to(wide), value=ctx.scale)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        (mask,) = ctx.saved_tensors
        of_states, of_result = ctx.types
        return gradient.to(of_states), mask.to(of_result).mul_(gradient.to(of_result)).mul_(ctx.scale), None


class _Rectified(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, rate: float) -> Tensor:
        ctx.scale = 1 / (1 - rate)
        result = kept(states, rate).to(states.dtype).mul_(states).clamp_min_(0).mul_(ctx.scale)
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (result,) = ctx.saved_tensors
        return torch.ops.aten.threshold_backward(gradient, result, 0).mul_(ctx.scale), None
