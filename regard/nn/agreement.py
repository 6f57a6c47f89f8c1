"""The loss of two draws that must agree, of logits that are never all there.

Shapes: P pairs, C of them at a time, V vocabulary, D width.
"""

from typing import Any, Final

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.kernels.agreement import Shares, agreed
from regard.kernels.calls import serves
from regard.kernels.loss import Gradients, loses_in_half
from regard.kernels.products import Laid, linear_gradients, narrowed, widened
from regard.nn.loss import Projection, knows, learning

AT_A_TIME: Final = 1 << 22
"""Logits that are there at once: 16 MB in single precision."""


def projected_agreement(
    projection: Projection, labels: Tensor, *, smoothing: float, weight: float
) -> tuple[Tensor, Tensor, Tensor]:
    """½ (L_1 + L_2) + w · ½ (KL(p_1 ‖ p_2) + KL(p_2 ‖ p_1)), summed over pairs, from features (2 P, D), labels (P,).

    The loss, then the mean likelihood and the mean divergence in it, which have no gradient.
    """
    inputs = learning(projection)
    found: tuple[Tensor, Tensor, Tensor] = _Agreement.apply(*inputs, labels, smoothing, weight)  # type: ignore[no-untyped-call]
    return found


class _Agreement(torch.autograd.Function):
    """Gradients are made in the forward pass, as those of `nn.loss` are.

    With p, q = softmax of both logits and r = log p - log q, the divergence is ½ Σ (p - q) r, and its gradient with
    respect to the first logits ½ (p (r - Σ p r) + p - q), to the second -½ (q (r - Σ q r) + p - q).
    """

    @staticmethod
    def forward(
        ctx: Any, features: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float, apart: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        ctx.types = features.dtype, weight.dtype, None if bias is None else bias.dtype
        plain = widened(features)  # recurrent networks hand out narrow ones
        half, kind = _in_half(plain, weight, bias, labels), features.device.type
        inputs, table = (plain, weight) if half else (narrowed(features), narrowed(weight))
        both, shift = inputs.unflatten(0, (2, -1)), bias if bias is None or half else narrowed(bias)
        wide = torch.promote_types(features.dtype, torch.float32)
        gradients = Gradients(
            *(
                torch.zeros_like(one, dtype=wide) if one is not None and needed else None
                for one, needed in zip((features, weight, bias), ctx.needs_input_grad, strict=False)
            )
        )
        shares = 1 - smoothing, smoothing / len(weight), apart
        sums = features.new_zeros(3, dtype=wide)
        at_a_time = max(1, AT_A_TIME // 2 // len(weight))
        laid = Laid(weight) if half else None
        with torch.autocast(kind, enabled=False):
            for start in range(0, len(labels), at_a_time):
                rows = slice(start, start + at_a_time)
                some = both[:, rows].flatten(0, 1).contiguous()  # (2 C, D); of one pair it would be a view with a gap
                part = Projection(some, table, shift)
                sums += _add_some(part, labels[rows], shares, gradients, rows, laid)
        likelihood, uniform, divergence = sums
        total = 0.5 * ((1 - smoothing) * likelihood + smoothing * uniform) + apart * divergence
        ctx.save_for_backward(*gradients)
        told = 0.5 * likelihood, divergence.clone()
        ctx.mark_non_differentiable(*told)
        return total, *told

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, factor: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        made = zip(ctx.saved_tensors, ctx.types, strict=True)
        return *(None if one is None else (one * factor).to(kind) for one, kind in made), None, None, None


def _in_half(features: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor) -> bool:
    return loses_in_half(features, weight, bias) and knows(labels, len(features) // 2, vocabulary=len(weight))


def _add_some(
    part: Projection, labels: Tensor, shares: Shares, gradients: Gradients, rows: slice, laid: Laid | None
) -> Tensor:
    """Add gradients of some pairs, whose rows these are; the sums of what there is to be told of them (3,).

    `laid`: the weight, in half precision.
    """
    learns = any(one is not None for one in gradients)
    if laid is not None:
        logits = part.features.new_empty(len(part.features), len(part.weight))
        laid.forward.multiply(part.features, logits, bias=part.bias)
    else:
        logits = part.logits()
    pairs = logits.unflatten(0, (2, -1))  # (2, C, V)
    if serves(pairs) and knows(labels, pairs.size(1), vocabulary=pairs.size(2)):
        errors = (torch.empty_like(pairs, dtype=torch.bfloat16) if laid else pairs) if learns else None
        results = pairs.new_empty(2, len(labels)), pairs.new_empty(2, len(labels)), pairs.new_empty(len(labels))
        agreed(pairs, labels, shares, results, errors)
    else:
        results, errors = _by_torch(pairs, labels, shares)
    if learns and errors is not None:
        flat = errors.flatten(0, 1)
        _add_gradients(part, flat if laid else flat.to(part.features.dtype), gradients, rows, laid)
    return torch.stack([one.sum() for one in results])


def _by_torch(pairs: Tensor, labels: Tensor, shares: Shares) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor]:
    """Results and errors as `agreed` makes them."""
    share, even, weight = shares
    log_p = pairs.log_softmax(-1)
    places = labels.expand(2, -1).unsqueeze(-1)  # (2, C, 1)
    results = -log_p.gather(-1, places).squeeze(-1), -log_p.mean(-1)
    p, between = log_p.exp(), log_p[0] - log_p[1]
    apart = p[0] - p[1]
    divergence = 0.5 * (apart * between).sum(-1)
    centred = between - (p * between).sum(-1, keepdim=True)  # (2, C, V)
    sign = pairs.new_tensor([1.0, -1.0]).view(2, 1, 1)
    errors = 0.5 * (p - even) + 0.5 * weight * sign * (p * centred + apart)
    errors.scatter_add_(-1, places, errors.new_full(places.shape, -0.5 * share))
    return (*results, divergence), errors


def _add_gradients(part: Projection, errors: Tensor, gradients: Gradients, rows: slice, laid: Laid | None) -> None:
    """What errors of logits (2 C, V), as narrow as factors are, mean for features, weight and bias."""
    of_features, of_weight, of_bias = gradients
    needed = of_features is not None and laid is None, of_weight is not None, of_bias is not None
    of_rows, *others = linear_gradients(errors, part.features, part.weight, needed)
    if laid is not None and of_features is not None:
        of_rows = laid.backward.multiply(errors, torch.empty_like(part.features))
    if of_features is not None and of_rows is not None:
        of_features.unflatten(0, (2, -1))[:, rows] = of_rows.unflatten(0, (2, -1)).to(of_features.dtype)
    for total, some in zip((of_weight, of_bias), others, strict=True):
        if total is not None and some is not None:
            total += some
