"""Dropout, alone and with what stands beside it, each in one pass over its numbers.

What is dropped is not kept for the backward pass: it is a function of the seed, and is made again there.

Some results are written over what they are made of, because memory that was just read is the fastest to write. The
caller must own it: an output of a product that nobody else sees. Where autograd had kept it, it complains.
"""

import ctypes
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.autograd.graph import increment_version

from regard.kernels.calls import chance, library, rows_of, seed, threads
from regard.kernels.products import factor, product, product_gradients
from regard.kernels.structures import Dropped, Normed, NormedBackward, Rectified


def dropped(states: Tensor, rate: float) -> Tensor:
    """Dropout."""
    return _Dropped.apply(states, rate)  # type: ignore[no-untyped-call]


def added(states: Tensor, result: Tensor, rate: float) -> Tensor:
    """states + dropout(result)."""
    return _Added.apply(states, result, rate)  # type: ignore[no-untyped-call]


def rectified(states: Tensor, bias: Tensor, rate: float) -> Tensor:
    """dropout(max(0, states + bias)), written over the states."""
    return _Rectified.apply(states, bias, rate)  # type: ignore[no-untyped-call]


def normed_projection(
    states: Tensor,
    inside: Tensor,
    projection: tuple[Tensor, Tensor],
    rate: float,
    *,
    gain: Tensor,
    bias: Tensor,
    epsilon: float,
) -> Tensor:
    """The layer norm of states + dropout(inside W + b): (x - mean) / √(variance + ε) · gain + bias.

    The kernel adds b, the bias of the projection.
    """
    return _Normed.apply(states, inside, *projection, gain, bias, rate, epsilon)  # type: ignore[no-untyped-call]


def _narrow(tensor: Tensor) -> bool:
    return tensor.dtype is torch.bfloat16


def _drop(result: Tensor, rate: float, drawn: int, states: Tensor | None = None) -> Tensor:
    rows, width = rows_of(result)
    out = torch.empty_like(result)
    asked = Dropped(
        chance(rate, drawn), width, None if states is None else states.data_ptr(), result.data_ptr(), out.data_ptr()
    )
    library().regard_dropped(ctypes.byref(asked), rows, threads(result.numel()))
    return out


class _Dropped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, rate: float) -> Tensor:
        ctx.rate, ctx.seed = rate, seed()
        return _drop(states, rate, ctx.seed)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _drop(gradient.contiguous(), ctx.rate, ctx.seed), None


class _Added(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, result: Tensor, rate: float) -> Tensor:
        ctx.rate, ctx.seed = rate, seed()
        return _drop(result, rate, ctx.seed, states)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        return gradient, _drop(gradient.contiguous(), ctx.rate, ctx.seed), None


class _Rectified(torch.autograd.Function):
    """Where the result is not 0 tells all that the gradient needs."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, bias: Tensor, rate: float) -> Tensor:
        rows, width = rows_of(states)
        ctx.chance, place = chance(rate, seed() if rate else 0), states.data_ptr()
        asked = Rectified(ctx.chance, rows, width, _narrow(states), place, bias.data_ptr(), None, place, None)
        library().regard_rectified(ctypes.byref(asked), threads(states.numel()))
        increment_version(states)
        memory = (states.untyped_storage(), states.storage_offset(), states.shape, states.stride())
        out = states.new_empty(0).set_(*memory)  # another tensor in the same memory
        ctx.save_for_backward(out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        (result,), gradient = ctx.saved_tensors, gradient.contiguous()
        rows, width = rows_of(result)
        out, blocks = torch.empty_like(result), library().regard_blocks(rows)
        sums = result.new_empty(blocks, width, dtype=torch.float32)
        given = (one.data_ptr() for one in (gradient, out, sums))
        asked = Rectified(ctx.chance, rows, width, _narrow(result), result.data_ptr(), None, *given)
        library().regard_rectified_backward(ctypes.byref(asked), threads(result.numel()))
        return out, sums[0].clone(), None


class _Normed(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        inside: Tensor,
        weight: Tensor,
        shift: Tensor,
        gain: Tensor,
        bias: Tensor,
        rate: float,
        epsilon: float,
    ) -> Tensor:
        rows, width = rows_of(states)
        ctx.rate, ctx.chance = rate, chance(rate, seed() if rate else 0)
        inputs, weight = factor(inside), factor(weight)
        made = product(inputs, weight)
        standard = torch.empty_like(states) if _narrow(made) else made  # where it may be written over
        out, inverse = torch.empty_like(states), states.new_empty(rows)
        given = (one.data_ptr() for one in (made, states, shift, gain, bias, standard, out, inverse))
        asked = Normed(ctx.chance, rows, width, _narrow(made), epsilon, *given)
        library().regard_normed(ctypes.byref(asked), threads(states.numel()))
        ctx.save_for_backward(inputs, weight, standard, inverse, gain)
        ctx.kind, ctx.narrow = inside.dtype, _narrow(made)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (inputs, weight, standard, inverse, gain), gradient = ctx.saved_tensors, gradient.contiguous()
        rows, width = rows_of(standard)
        of_states, narrow = torch.empty_like(standard), ctx.narrow
        apart = bool(ctx.rate) or narrow
        of_product = (
            torch.empty_like(standard, dtype=torch.bfloat16 if narrow else torch.float32) if apart else of_states
        )
        sums = standard.new_empty(library().regard_blocks(rows), 3, width)
        given = [one.data_ptr() for one in (gradient, standard, inverse, gain, of_states, of_product, sums)]
        given[-2] = given[-2] if apart else 0
        asked = NormedBackward(ctx.chance, rows, width, narrow, *given)
        library().regard_normed_backward(ctypes.byref(asked), threads(standard.numel()))
        needed = ctx.needs_input_grad
        of_inputs, of_weight = product_gradients(of_product.view(rows, width), inputs, weight, (needed[1], needed[2]))
        of_inside = None if of_inputs is None else of_inputs.to(ctx.kind)
        of_gain, of_bias, of_shift = sums[0].clone()
        return of_states, of_inside, of_weight, of_shift, of_gain, of_bias, None, None
