"""What a recurrent decoder does to each row under search, in one visit to it. Nothing here has a gradient.

Shapes: R rows, B sentences, Q queries, N keys, A inner width, E width of values, D state width.
"""

import ctypes

import torch
from torch import Tensor

from regard.kernels.calls import library, serves, threads
from regard.kernels.structures import Chosen, Compared, Gated, Summed


def compares(rows: int, key: Tensor, value: Tensor, energy: Tensor, mask: Tensor | None) -> bool:
    """Whether the kernel can make additive attention for queries of so many rows: nobody learns, the mask hides keys
    from all queries alike, and all belong together."""
    if torch.is_grad_enabled() or torch.is_autocast_enabled("cpu") or not serves(key, value, energy):
        return False
    if len(key) != rows or value.shape[:2] != key.shape[:2] or energy.shape != key.shape[2:]:
        return False
    if mask is None:
        return True
    fits = mask.shape == (key.size(0), 1, 1, key.size(1)) and mask.dtype is torch.bool
    return fits and mask.is_cpu and mask.stride(-1) == 1


def compared(query: Tensor, key: Tensor, value: Tensor, energy: Tensor, mask: Tensor | None) -> Tensor:
    """Σ softmax(vᵀ tanh(q + k)) value: (B, Q, A), (B, N, A), (B, N, E), v (A,), mask (B, 1, 1, N) → (B, Q, E).

    A query that may look at nothing gets zeros. What is hidden costs nothing.
    """
    rows, queries, width = query.shape
    context = query.new_empty(rows, queries, value.size(2))
    weights = query.new_empty(rows, queries, key.size(1))
    asked = Compared(
        queries=queries,
        keys=key.size(1),
        width=width,
        value_width=value.size(2),
        query=query.data_ptr(),
        key=key.data_ptr(),
        value=value.data_ptr(),
        energy=energy.data_ptr(),
        mask=None if mask is None else mask.data_ptr(),
        mask_stride=0 if mask is None else mask.stride(0),
        weights=weights.data_ptr(),
        context=context.data_ptr(),
    )
    library().regard_compared(ctypes.byref(asked), rows, threads(weights.numel() * width))
    return context


def gates(bases: Tensor, base_rows: Tensor, memory: Tensor) -> bool:
    """Whether the kernel can do the gates of an LSTM: nobody learns, and all rows are there that are asked for."""
    if torch.is_grad_enabled() or not serves(bases, memory) or base_rows.dtype is not torch.int64:
        return False
    least, most = torch.aminmax(base_rows)
    return base_rows.is_contiguous() and int(least) >= 0 and int(most) < len(bases)


def gated(
    bases: Tensor, base_rows: Tensor, carried: Tensor, carried_rows: Tensor | None, memory: Tensor
) -> tuple[Tensor, Tensor]:
    """The gates of an LSTM: h' and c' (R, D) for c (R, D).

    The total of a row is that row of `bases` (·, 4 D) that `base_rows` (R,) says, and the row of `carried` (·, 4 D)
    that `carried_rows` says, or its own.
    """
    rows, width = memory.shape
    hidden, kept = torch.empty_like(memory), torch.empty_like(memory)
    asked = Gated(
        width=width,
        bases=bases.data_ptr(),
        base_rows=base_rows.data_ptr(),
        carried=carried.data_ptr(),
        carried_rows=None if carried_rows is None else carried_rows.data_ptr(),
        memory=memory.data_ptr(),
        hidden=hidden.data_ptr(),
        kept=kept.data_ptr(),
    )
    library().regard_gated(ctypes.byref(asked), rows, threads(carried.numel()))
    return hidden, kept


def sums(logits: Tensor) -> bool:
    """Whether `summed` and `chosen` are for these: nobody learns."""
    return not torch.is_grad_enabled() and serves(logits)


def summed(logits: Tensor) -> tuple[Tensor, Tensor]:
    """log Σ exp(logit) of finite logits, and the largest of each block of them: (R, V) → (R,), (R, blocks)."""
    rows, width = logits.shape
    normaliser, largest = logits.new_empty(rows), logits.new_empty(rows, int(library().regard_blocks(width)))
    asked = Summed(width, logits.data_ptr(), normaliser.data_ptr(), largest.data_ptr())
    library().regard_summed(ctypes.byref(asked), rows, threads(logits.numel()))
    return normaliser, largest


def chosen(
    scores: Tensor,
    logits: Tensor,
    told: tuple[Tensor, Tensor],
    *,
    count: int,
    forbidden: list[int],
    early: tuple[int, Tensor],
) -> tuple[Tensor, Tensor, Tensor]:
    """The best continuations of each sentence, best first: (S, K), (S, K, V) → values, rows, tokens (S, C).

    `told` is what `summed` says of the logits: (S, K), (S, K, blocks). Values are score + logit - normaliser in double
    precision; the first of a sentence is NaN where a normaliser is not finite. `early`: what else must not come out,
    and in which sentences (S,).
    """
    sentences, beams, width = logits.shape
    (normaliser, largest), (last, where) = told, early
    scores, where = scores.to(torch.float64).contiguous(), where.contiguous()
    tokens = torch.tensor([*forbidden, last])
    found = torch.empty(2, sentences, min(count, beams * width), dtype=torch.int64)
    values = torch.empty(found.shape[1:], dtype=torch.float64)
    asked = Chosen(
        beams=beams,
        width=width,
        count=found.size(2),
        forbids=len(tokens),
        scores=scores.data_ptr(),
        logits=logits.data_ptr(),
        normaliser=normaliser.data_ptr(),
        largest=largest.data_ptr(),
        forbidden=tokens.data_ptr(),
        early=where.data_ptr(),
        values=values.data_ptr(),
        rows=found[0].data_ptr(),
        tokens=found[1].data_ptr(),
    )
    library().regard_chosen(ctypes.byref(asked), sentences, threads(logits.numel()))
    return values, found[0], found[1]
