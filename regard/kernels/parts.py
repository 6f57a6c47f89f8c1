"""Parts of a Transformer layer in half precision with what goes around them, norm(x + dropout(part(x))), each one call.

What the kernels compute is what they compute one by one; only gradients that meet are added where they are made. A
small model spends a good part of its time between kernels, in Python and in autograd, and lanes of training wait there
for each other.

Shapes: R rows, D width, I inner width, B sentences, N items.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.kernels.attention import Heads, Place, Projected, ask_backward, ask_forward, asked_attention
from regard.kernels.calls import Asked, Kind, call_all, chance, library, rows_of, seed
from regard.kernels.products import asked_product, asked_turned
from regard.kernels.structures import Chance, Normed, NormedBackward, Product, Rectified


class Around(NamedTuple):
    """What leads out of a part: norm(x + dropout(inside Wᵀ + b)) · gain + bias."""

    weight: Tensor  # (D, ·)
    shift: Tensor  # (D,)
    gain: Tensor  # (D,)
    bias: Tensor  # (D,)
    rate: float
    epsilon: float


def fed(states: Tensor, inner: Projected, rate: float, around: Around) -> Tensor:
    """Feed-forward: inside = dropout(max(0, x Wᵀ + b)); (..., D) → (..., D)."""
    return _Fed.apply(states, *inner, *around, rate)  # type: ignore[no-untyped-call]


def attended_within(
    states: Tensor, query: Projected, joined: Projected, mask: Tensor | None, how: Heads, around: Around
) -> Tensor:
    """States (B, N, D) that look at each other: inside is the context of all heads."""
    return _AttendedWithin.apply(states, *query, *joined, *around, mask, how)  # type: ignore[no-untyped-call]


def attended(
    states: Tensor, query: Projected, joined: Tensor, mask: Tensor | None, how: Heads, around: Around
) -> Tensor:
    """States (B, N, D) that look at keys beside values, projected before: inside is the context of all heads."""
    return _Attended.apply(states, *query, joined, *around, mask, how)  # type: ignore[no-untyped-call]


class _Way(NamedTuple):
    """The way out of a part, forward: calls to be made, the result, and what the backward pass needs."""

    product: Product
    norm: Normed
    out: Tensor
    standard: Tensor
    inverse: Tensor
    chance: Chance
    made: Tensor  # held until the calls are made


def _way_out(states: Tensor, inside: Tensor, around: Around) -> _Way:
    rows, width = rows_of(states)
    drawn = chance(around.rate, seed() if around.rate else 0)
    made = inside.new_empty(rows, width)
    standard, out, inverse = torch.empty_like(states), torch.empty_like(states), states.new_empty(rows)
    given = (one.data_ptr() for one in (made, states, around.shift, around.gain, around.bias, standard, out, inverse))
    norm = Normed(drawn, rows, width, True, around.epsilon, *given)
    return _Way(
        asked_product(inside, around.weight, None, made, turned=True), norm, out, standard, inverse, drawn, made
    )


class _Back(NamedTuple):
    """The same backward: from the gradient of the result to those of states, of what is inside and of parameters."""

    calls: tuple[Asked, ...]
    of_states: Tensor
    of_inside: Tensor
    of_weight: Tensor | None
    sums: Tensor  # (blocks, 3, D); the first, once the calls are made: of gain, bias and shift
    of_product: Tensor  # held until the calls are made

    def of_around(self) -> tuple[Tensor | None, ...]:
        """Gradients in the order of `Around`."""
        of_gain, of_bias, of_shift = self.sums[0].clone()
        return self.of_weight, of_shift, of_gain, of_bias, None, None


def _way_back(
    gradient: Tensor,
    inside: Tensor,
    weight: Tensor,
    kept: tuple[Tensor, Tensor, Tensor],
    drawn: Chance,
    *,
    learns: bool,
) -> _Back:
    standard, inverse, gain = kept
    rows, width = rows_of(standard)
    of_states, of_inside = torch.empty_like(standard), torch.empty_like(inside)
    of_product = inside.new_empty(rows, width)
    sums = standard.new_empty(library().regard_blocks(rows), 3, width)
    given = (one.data_ptr() for one in (gradient, standard, inverse, gain, of_states, of_product, sums))
    calls: list[Asked] = [
        (Kind.NORMED_BACKWARD, NormedBackward(drawn, rows, width, True, *given)),
        (Kind.PRODUCT, asked_product(of_product, weight, None, of_inside, turned=False)),
    ]
    of_weight = torch.empty_like(weight) if learns else None
    if of_weight is not None:
        calls.append((Kind.TURNED, asked_turned(of_product, inside, of_weight, None)))
    return _Back(tuple(calls), of_states, of_inside, of_weight, sums, of_product)


def _through(
    errors: Tensor, states: Tensor, weight: Tensor, of_states: Tensor, *, learns: bool
) -> tuple[list[Asked], Tensor | None]:
    """Calls for a projection x Wᵀ, backward: its gradient is added to that of the states; and the weight's."""
    of_weight = torch.empty_like(weight) if learns else None
    calls: list[Asked] = [(Kind.PRODUCT, asked_product(errors, weight, None, of_states, turned=False, adds=True))]
    if of_weight is not None:
        calls.append((Kind.TURNED, asked_turned(errors, states, of_weight, None)))
    return calls, of_weight


class _Fed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor, bias: Tensor, *rest: Any) -> Tensor:
        around, rate = Around(*rest[:6]), rest[6]
        rows, inner = rows_of(states)[0], len(weight)
        ctx.inner_chance = chance(rate, seed() if rate else 0)
        inside = states.new_empty(*states.shape[:-1], inner, dtype=torch.bfloat16)
        place = inside.data_ptr()
        rectified = Rectified(ctx.inner_chance, rows, inner, True, place, bias.data_ptr(), None, place, None)
        way = _way_out(states, inside, around)
        call_all(
            (Kind.PRODUCT, asked_product(states, weight, None, inside, turned=True)),
            (Kind.RECTIFIED, rectified),
            (Kind.PRODUCT, way.product),
            (Kind.NORMED, way.norm),
            numbers=inside.numel(),
        )
        ctx.chance = way.chance
        ctx.save_for_backward(states, weight, inside, around.weight, way.standard, way.inverse, around.gain)
        return way.out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        states, weight, inside, outer, *kept = ctx.saved_tensors
        gradient, needed = gradient.contiguous(), ctx.needs_input_grad
        back = _way_back(gradient, inside, outer, (kept[0], kept[1], kept[2]), ctx.chance, learns=needed[3])
        rows, inner = rows_of(inside)
        sums = states.new_empty(library().regard_blocks(rows), inner)
        place = back.of_inside.data_ptr()
        rectified = Rectified(
            ctx.inner_chance, rows, inner, True, inside.data_ptr(), None, place, place, sums.data_ptr()
        )
        through, of_weight = _through(back.of_inside, states, weight, back.of_states, learns=needed[1])
        call_all(*back.calls, (Kind.RECTIFIED_BACKWARD, rectified), *through, numbers=inside.numel())
        return back.of_states, of_weight, sums[0].clone(), *back.of_around(), None


class _AttendedWithin(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        query_weight: Tensor,
        query_bias: Tensor,
        weight: Tensor,
        bias: Tensor,
        *rest: Any,
    ) -> Tensor:
        around, mask, how = Around(*rest[:6]), rest[6], rest[7]
        rows, items, _ = states.shape
        ctx.sizes, ctx.how = (rows, items, items, len(query_weight)), how
        joined, shift = torch.cat((query_weight, weight)), torch.cat((query_bias, bias))
        made = states.new_empty(rows, items, len(joined), dtype=torch.bfloat16)
        places = Place.beside(made, len(query_weight))
        asked = asked_attention(ctx.sizes, places, made.dtype, mask, how)
        context, softmax = ask_forward(asked, made)
        way = _way_out(states, context, around)
        call_all(
            (Kind.PRODUCT, asked_product(states, joined, shift, made, turned=True)),
            (Kind.ATTENTION, asked),
            (Kind.PRODUCT, way.product),
            (Kind.NORMED, way.norm),
            numbers=made.numel(),
        )
        ctx.chance = way.chance
        seen = (states, joined, query_bias, bias, mask, made, softmax)
        ctx.save_for_backward(*seen, context, around.weight, way.standard, way.inverse, around.gain)
        return way.out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        states, joined, query_bias, bias, mask, made, softmax, context, outer, *kept = ctx.saved_tensors
        gradient, needed = gradient.contiguous(), ctx.needs_input_grad
        back = _way_back(gradient, context, outer, (kept[0], kept[1], kept[2]), ctx.chance, learns=needed[5])
        width, of_made = len(query_bias), torch.empty_like(made)
        asked = asked_attention(ctx.sizes, Place.beside(made, width), made.dtype, mask, ctx.how)
        sums = [bias.new_empty(states.size(0), len(one)) for one in (query_bias, bias)]
        asked.query_sums, asked.key_sums = (one.data_ptr() for one in sums)
        ask_backward(asked, softmax, back.of_inside, Place.beside(of_made, width))
        learns = needed[1] or needed[3]
        through, of_both = _through(of_made, states, joined, back.of_states, learns=learns)
        call_all(*back.calls, (Kind.ATTENTION_BACKWARD, asked), *through, numbers=made.numel())
        of_query, of_joined = (None, None) if of_both is None else of_both.split((width, len(bias)))
        of_biases = sums[0][0].clone(), sums[1][0].clone()
        return back.of_states, of_query, of_biases[0], of_joined, of_biases[1], *back.of_around(), None, None


class _Attended(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, states: Tensor, query_weight: Tensor, query_bias: Tensor, joined: Tensor, *rest: Any
    ) -> Tensor:
        around, mask, how = Around(*rest[:6]), rest[6], rest[7]
        rows, items, _ = states.shape
        ctx.sizes, ctx.how = (rows, items, joined.size(1), len(query_weight)), how
        query = states.new_empty(rows, items, len(query_weight), dtype=torch.bfloat16)
        asked = asked_attention(ctx.sizes, (Place.of(query), Place.of(joined)), query.dtype, mask, how)
        context, softmax = ask_forward(asked, query)
        way = _way_out(states, context, around)
        call_all(
            (Kind.PRODUCT, asked_product(states, query_weight, query_bias, query, turned=True)),
            (Kind.ATTENTION, asked),
            (Kind.PRODUCT, way.product),
            (Kind.NORMED, way.norm),
            numbers=query.numel(),
        )
        ctx.chance = way.chance
        seen = (states, query_weight, joined, mask, query, softmax)
        ctx.save_for_backward(*seen, context, around.weight, way.standard, way.inverse, around.gain)
        return way.out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        states, query_weight, joined, mask, query, softmax, context, outer, *kept = ctx.saved_tensors
        gradient, needed = gradient.contiguous(), ctx.needs_input_grad
        back = _way_back(gradient, context, outer, (kept[0], kept[1], kept[2]), ctx.chance, learns=needed[4])
        of_query, of_joined = torch.empty_like(query), torch.empty_like(joined)
        places = Place.of(query), Place.of(joined)
        asked = asked_attention(ctx.sizes, places, query.dtype, mask, ctx.how)
        ask_backward(asked, softmax, back.of_inside, (Place.of(of_query), Place.of(of_joined)))
        of_weight = torch.empty_like(query_weight) if needed[1] else None
        of_bias = query_weight.new_empty(len(query_weight)) if needed[2] else None
        call_all(
            *back.calls,
            (Kind.ATTENTION_BACKWARD, asked),
            (Kind.PRODUCT, asked_product(of_query, query_weight, None, back.of_states, turned=False, adds=True)),
            (Kind.TURNED, asked_turned(of_query, states, of_weight, of_bias)),
            numbers=query.numel(),
        )
        return back.of_states, of_weight, of_bias, of_joined, *back.of_around(), None, None
