"""Attention with a scaled product over short sequences, from projections to context without a copy.

Shapes: B rows, Q queries, N keys, H heads, G key heads (each serves H / G heads), E width of a head.
"""

import ctypes
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.kernels.calls import library, serves, threads
from regard.kernels.library import Attended

LONGEST: Final = 256
"""Queries or keys of a row; of more, torch's own kernel makes as much."""


@dataclass(frozen=True, slots=True)
class Heads:
    """How queries and keys are to be read."""

    heads: int
    key_heads: int
    scale: float
    causal: bool


def attends(query: Tensor, joined: Tensor, mask: Tensor | None) -> bool:
    """Whether the kernel is for these, and worth it: it is made for learning, and what is searched is left alone."""
    if not serves(query, joined) or query.size(0) != joined.size(0) or max(query.size(1), joined.size(1)) > LONGEST:
        return False
    if not (torch.is_grad_enabled() and (query.requires_grad or joined.requires_grad)):
        return False
    if mask is None:
        return True
    shaped = mask.shape == (query.size(0), 1, 1, joined.size(1))
    return shaped and mask.dtype is torch.bool and mask.is_cpu and mask.stride(-1) == 1


def attention(query: Tensor, joined: Tensor, mask: Tensor | None, how: Heads) -> Tensor:
    """softmax(scale · q kᵀ) v in each head: (B, Q, H · E) and keys beside values (B, N, 2 · G · E) → (B, Q, H · E).

    `mask` is (B, 1, 1, N). A query that may look at nothing gets zeros.
    """
    return _Attention.apply(query, joined, mask, how)  # type: ignore[no-untyped-call]


def _asked(query: Tensor, joined: Tensor, mask: Tensor | None, how: Heads, *results: Tensor | None) -> Attended:
    rows, queries, width = query.shape
    return Attended(
        rows,
        queries,
        joined.size(1),
        how.heads,
        how.key_heads,
        width // how.heads,
        how.causal,
        how.scale,
        query.data_ptr(),
        joined.data_ptr(),
        None if mask is None else mask.data_ptr(),
        0 if mask is None else mask.stride(0),
        *(None if one is None else one.data_ptr() for one in results),
    )


def _checked(enough: int) -> None:
    if not enough:
        raise MemoryError("there is not enough memory for the scores of one head")


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, joined: Tensor, mask: Tensor | None, how: Heads) -> Tensor:
        context = torch.empty_like(query)
        softmax = query.new_empty(query.size(0), how.heads, query.size(1), 2)
        asked = _asked(query, joined, mask, how, context, softmax)
        _checked(library().regard_attention(ctypes.byref(asked), threads(query.numel())))
        ctx.save_for_backward(query, joined, mask, softmax)
        ctx.how = how
        return context

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, joined, mask, softmax = ctx.saved_tensors
        gradient, of_query, of_joined = gradient.contiguous(), torch.empty_like(query), torch.empty_like(joined)
        asked = _asked(query, joined, mask, ctx.how, None, softmax, gradient, of_query, of_joined)
        _checked(library().regard_attention_backward(ctypes.byref(asked), threads(query.numel())))
        return of_query, of_joined, None, None
