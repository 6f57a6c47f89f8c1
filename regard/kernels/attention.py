"""Attention with a scaled product over short sequences, from projections to context without a copy.

Shapes: B rows, Q queries, N keys, H heads, G key heads (each serves H / G heads), E width of a head.
"""

import ctypes
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.kernels.calls import checked, library, serves, threads
from regard.kernels.products import factor, in_half, product, product_gradients, widened
from regard.kernels.structures import Attended

LONGEST: Final = 256
"""Queries or keys of a row; of more, torch's own kernel makes as much."""

Projected = tuple[Tensor, Tensor]
"""Weight and bias of a projection."""


@dataclass(frozen=True, slots=True)
class Heads:
    """How queries and keys are to be read."""

    heads: int
    key_heads: int
    scale: float
    causal: bool


def attends(query: Tensor, joined: Tensor, mask: Tensor | None, how: Heads) -> bool:
    """Whether the kernel is for these, and worth it: it is made for learning, and what is searched is left alone."""
    return (
        serves(query, joined, narrow=True)
        and query.dtype is joined.dtype
        and (query.requires_grad or joined.requires_grad)
        and query.dim() == joined.dim() == 3
        and query.size(0) == joined.size(0)
        and _agree(query.size(2), joined.size(2), how)
        and _suits(query.size(0), query.size(1), joined.size(1), mask)
    )


def attends_within(states: Tensor, query: Projected, joined: Projected, mask: Tensor | None, how: Heads) -> bool:
    """The same for states that look at each other, and the parameters of their projections."""
    if not serves(states, *query, *joined) or states.dim() != 3:
        return False
    shapes = [weight.shape == (len(bias), states.size(2)) for weight, bias in (query, joined)]
    rows, items, _ = states.shape
    return all(shapes) and _agree(len(query[0]), len(joined[0]), how) and _suits(rows, items, items, mask)


def attends_from(states: Tensor, query: Projected, joined: Tensor, mask: Tensor | None, how: Heads) -> bool:
    """The same for states that look at keys beside values, and the parameters of the projection to queries."""
    weight, bias = query
    if not serves(states, weight, bias) or not serves(joined, narrow=True) or joined.dtype is not torch.bfloat16:
        return False
    if states.dim() != 3 or joined.dim() != 3 or len(states) != len(joined):
        return False
    fits = weight.shape == (len(bias), states.size(2)) and _agree(len(weight), joined.size(2), how)
    return fits and _suits(len(states), states.size(1), joined.size(1), mask)


def _agree(queries: int, joined: int, how: Heads) -> bool:
    """Whether queries, and keys beside values, are as wide as their heads say."""
    return queries % how.heads == 0 and joined * how.heads == 2 * how.key_heads * queries


def _suits(rows: int, queries: int, keys: int, mask: Tensor | None) -> bool:
    if max(queries, keys) > LONGEST or not torch.is_grad_enabled():
        return False
    if mask is None:
        return True
    return mask.shape == (rows, 1, 1, keys) and mask.dtype is torch.bool and mask.is_cpu and mask.stride(-1) == 1


def attention(query: Tensor, joined: Tensor, mask: Tensor | None, how: Heads) -> Tensor:
    """softmax(scale · q kᵀ) v in each head: (B, Q, H · E) and keys beside values (B, N, 2 · G · E) → (B, Q, H · E).

    `mask` is (B, 1, 1, N). A query that may look at nothing gets zeros.
    """
    return _Attention.apply(query, joined, mask, how)  # type: ignore[no-untyped-call]


def attention_within(
    states: Tensor,
    query: Projected,
    joined: Projected,
    mask: Tensor | None,
    how: Heads,
) -> Tensor:
    """The same for states (B, N, D) that look at each other: (B, N, H · E).

    Weight and bias of the projections to queries, and to keys beside values, are given: there is one product for all of
    them, and the kernel adds the biases where the product does not.
    """
    return _AttentionWithin.apply(states, *query, *joined, mask, how)  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True)
class Place:
    """Where queries, or keys beside values, lie: an address, and how far apart items are, in numbers."""

    address: int
    stride: int

    @classmethod
    def of(cls, tensor: Tensor) -> "Place":
        return cls(tensor.data_ptr(), tensor.size(-1))

    @classmethod
    def beside(cls, tensor: Tensor, width: int) -> "tuple[Place, Place]":
        """Of queries of a width, and of what lies beside them in the same tensor."""
        first = cls.of(tensor)
        return first, cls(first.address + width * tensor.element_size(), first.stride)


def asked_attention(
    sizes: tuple[int, int, int, int],
    places: tuple[Place, Place],
    kind: torch.dtype,
    mask: Tensor | None,
    how: Heads,
    biases: tuple[Tensor, Tensor] | None = None,
) -> Attended:
    """What is asked of a pass, but for where its results go. `sizes`: B, Q, N, H · E."""
    rows, queries, keys, width = sizes
    query, key = places
    return Attended(
        rows=rows,
        queries=queries,
        keys=keys,
        heads=how.heads,
        key_heads=how.key_heads,
        width=width // how.heads,
        causal=how.causal,
        narrow=kind is torch.bfloat16,
        scale=how.scale,
        query_stride=query.stride,
        key_stride=key.stride,
        query=query.address,
        key=key.address,
        query_bias=None if biases is None else biases[0].data_ptr(),
        key_bias=None if biases is None else biases[1].data_ptr(),
        mask=None if mask is None else mask.data_ptr(),
        mask_stride=0 if mask is None else mask.stride(0),
    )


def ask_forward(asked: Attended, like: Tensor) -> tuple[Tensor, Tensor]:
    """Where the context goes, and what lets its weights be made again."""
    context = like.new_empty(asked.rows, asked.queries, asked.heads * asked.width)
    softmax = like.new_empty(asked.rows, asked.heads, 2, asked.queries, dtype=torch.float32)
    asked.context, asked.softmax = context.data_ptr(), softmax.data_ptr()
    return context, softmax


def ask_backward(asked: Attended, softmax: Tensor, gradient: Tensor, places: tuple[Place, Place]) -> None:
    """Where gradients come from and go to."""
    asked.softmax, asked.gradient = softmax.data_ptr(), gradient.data_ptr()
    asked.of_query, asked.of_key = (one.address for one in places)


def _forward(asked: Attended, like: Tensor) -> tuple[Tensor, Tensor]:
    context, softmax = ask_forward(asked, like)
    checked(library().regard_attention(ctypes.byref(asked), threads(context.numel())))
    return context, softmax


def _backward(asked: Attended, softmax: Tensor, gradient: Tensor, places: tuple[Place, Place]) -> None:
    ask_backward(asked, softmax, gradient, places)
    checked(library().regard_attention_backward(ctypes.byref(asked), threads(gradient.numel())))


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, joined: Tensor, mask: Tensor | None, how: Heads) -> Tensor:
        ctx.sizes, ctx.how = (*query.shape[:2], joined.size(1), query.size(2)), how
        places = (Place.of(query), Place.of(joined))
        context, softmax = _forward(asked_attention(ctx.sizes, places, query.dtype, mask, how), query)
        ctx.save_for_backward(query, joined, mask, softmax)
        return context

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, joined, mask, softmax = ctx.saved_tensors
        of_query, of_joined = torch.empty_like(query), torch.empty_like(joined)
        asked = asked_attention(ctx.sizes, (Place.of(query), Place.of(joined)), query.dtype, mask, ctx.how)
        _backward(asked, softmax, gradient.contiguous(), (Place.of(of_query), Place.of(of_joined)))
        return of_query, of_joined, None, None


class _AttentionWithin(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        query_weight: Tensor,
        query_bias: Tensor,
        weight: Tensor,
        bias: Tensor,
        mask: Tensor | None,
        how: Heads,
    ) -> Tensor:
        rows, items, _ = states.shape
        ctx.sizes, ctx.how = (rows, items, items, len(query_weight)), how
        inputs, joined = factor(states), factor(torch.cat((query_weight, weight)))
        ctx.shifted = in_half()  # native products add biases for nothing, and before they round
        made = product(inputs, joined, torch.cat((query_bias, bias)) if ctx.shifted else None)
        places = Place.beside(made, len(query_weight))
        asked = asked_attention(ctx.sizes, places, made.dtype, mask, how, None if ctx.shifted else (query_bias, bias))
        context, softmax = _forward(asked, made)
        ctx.save_for_backward(inputs, joined, query_bias, bias, mask, made, softmax)
        return context

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        inputs, joined, query_bias, bias, mask, made, softmax = ctx.saved_tensors
        width, of_made = len(query_bias), torch.empty_like(made)
        biases = None if ctx.shifted else (query_bias, bias)
        asked = asked_attention(ctx.sizes, Place.beside(made, width), made.dtype, mask, ctx.how, biases)
        sums = [bias.new_empty(inputs.size(0), len(one)) for one in (query_bias, bias)]
        asked.query_sums, asked.key_sums = (one.data_ptr() for one in sums)
        _backward(asked, softmax, gradient.contiguous(), Place.beside(of_made, width))
        errors, needed = of_made.flatten(0, 1), ctx.needs_input_grad
        of_inputs, of_both = product_gradients(errors, inputs, joined, (needed[0], needed[1] or needed[3]))
        of_states = None if of_inputs is None else widened(of_inputs)
        of_query, of_joined = (None, None) if of_both is None else of_both.split((width, len(bias)))
        return of_states, of_query, sums[0][0].clone(), of_joined, sums[1][0].clone(), None, None
