"""Cross-entropy over a sequence, with label smoothing.

Shapes: R real tokens, C of them at a time, V vocabulary, D width.
"""

from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from regard.kernels.calls import serves
from regard.kernels.loss import Even, Gradients, half_loss, loses_in_half
from regard.kernels.products import widened
from regard.kernels.softmax import peaked

AT_A_TIME: Final = 1 << 21
"""Logits that are there at once: 8 MB in single precision, which a cache can hold."""

_FAINT: Final = 1e-30


@dataclass(frozen=True, slots=True)
class Projection:
    """Logits that are not made yet: x Wᵀ + b."""

    features: Tensor  # (..., D)
    weight: Tensor  # (V, D)
    bias: Tensor | None = None  # (V,)

    def logits(self) -> Tensor:
        """(..., V), in single precision at least: probabilities are made of nothing narrower."""
        return widened(functional.linear(self.features, self.weight, self.bias))


def projected_cross_entropy(projection: Projection, labels: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Sums over tokens of the smoothed loss and of the plain negative log-likelihood: features (R, D) → scalars.

    Szegedy et al. 2016, section 7: the target distribution is (1 - ε) · one-hot + ε / V. The second has no gradient.
    A vocabulary is often wider than all the rest of a small model, and its logits would be written to memory and read
    again several times. Here a few rows at a time get their logits, loss and gradient, while these are in the cache.
    """
    total, likelihood = _Projected.apply(*learning(projection), labels, smoothing)  # type: ignore[no-untyped-call]
    return total, likelihood


def learning(projection: Projection) -> tuple[Tensor, Tensor, Tensor | None]:
    """Features, weight and bias. Where nobody learns they need no gradient: parameters would say that they do, which
    costs more than the loss."""
    features, weight, bias = projection.features, projection.weight, projection.bias
    if torch.is_grad_enabled():
        return features, weight, bias
    return features.detach(), weight.detach(), None if bias is None else bias.detach()


class _Projected(torch.autograd.Function):
    """The gradient of the loss is the same up to a factor whatever comes after it, so it is made in the forward pass.

    With p = softmax(x Wᵀ + b) and the target distribution q: ∂/∂logits = p - q. The even share ε / V in q is the same
    for all logits: what it adds to the loss and to gradients follows from the sums of x, W and b alone.
    """

    @staticmethod
    def forward(
        ctx: Any, features: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        ctx.types = features.dtype, weight.dtype, None if bias is None else bias.dtype
        plain = widened(features)  # recurrent networks hand out narrow ones
        if _fits_half(plain, weight, bias, labels):
            found = _in_half(ctx, plain, weight, bias, labels, smoothing)
            if found is not None:
                return found
        kind, vocabulary = features.device.type, len(weight)
        narrow = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else features.dtype
        wide = torch.promote_types(narrow, torch.float32)
        inputs, table = features.to(narrow), weight.to(narrow)
        shift = None if bias is None else bias.to(narrow)
        learns_features, learns_weight, learns_bias, *_ = ctx.needs_input_grad
        of_features = torch.empty_like(inputs) if learns_features else None
        of_weight = torch.zeros_like(weight, dtype=wide) if learns_weight else None
        of_bias = torch.zeros(vocabulary, dtype=wide, device=weight.device) if learns_bias else None
        with torch.autocast(kind, enabled=False):
            made = Projection(inputs, table, shift)
            chosen, normaliser = _in_chunks(made, labels, smoothing, (of_features, of_weight, of_bias))
            total = likelihood = -chosen.sum()
            if smoothing:
                sums = inputs.sum(0, dtype=wide), table.sum(0, dtype=wide)
                shifts = 0.0 if shift is None else shift.sum(dtype=wide) * len(inputs)
                uniform = normaliser.sum() - (sums[0].dot(sums[1]) + shifts) / vocabulary
                total = (1 - smoothing) * likelihood + smoothing * uniform
                even = smoothing / vocabulary
                if of_features is not None:
                    of_features -= (sums[1] * even).to(narrow)
                if of_weight is not None:
                    of_weight -= sums[0] * even
                if of_bias is not None:
                    of_bias -= len(inputs) * even
        return _kept(ctx, Gradients(of_features, of_weight, of_bias), total, likelihood)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, factor: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        made = zip(ctx.saved_tensors, ctx.types, strict=True)
        return *(None if gradient is None else (gradient * factor).to(kind) for gradient, kind in made), None, None


def _kept(ctx: Any, gradients: Gradients, total: Tensor, likelihood: Tensor) -> tuple[Tensor, Tensor]:
    """Keep gradients for the backward pass; only the first result has any."""
    ctx.save_for_backward(*gradients)
    likelihood = likelihood.detach().clone()
    ctx.mark_non_differentiable(likelihood)
    return total, likelihood


def _fits_half(features: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor) -> bool:
    fits = features.dim() == 2 and loses_in_half(features, weight, bias)
    return fits and knows(labels, len(features), vocabulary=len(weight))


def _in_half(
    ctx: Any, features: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float
) -> tuple[Tensor, Tensor] | None:
    """The forward pass of `_Projected` in one call."""
    count, vocabulary, even = len(features), len(weight), -smoothing / len(weight)
    sums = features.sum(0), weight.sum(0)
    inputs = zip((features, weight, bias), ctx.needs_input_grad, strict=False)
    gradients = Gradients(*(torch.empty_like(one) if one is not None and needed else None for one, needed in inputs))
    begin = Even(sums[1] * even, sums[0] * even, count * even)
    found = half_loss(features, weight, bias, labels, 1 - smoothing, begin, gradients)
    if found is None:
        return None
    chosen, normaliser = found
    total = likelihood = -chosen.sum()
    if smoothing:
        shifts = 0.0 if bias is None else bias.sum() * count
        uniform = normaliser.sum() - (sums[0].dot(sums[1]) + shifts) / vocabulary
        total = (1 - smoothing) * likelihood + smoothing * uniform
    return _kept(ctx, gradients, total, likelihood)


def _in_chunks(
    made: Projection, labels: Tensor, smoothing: float, gradients: tuple[Tensor | None, Tensor | None, Tensor | None]
) -> tuple[Tensor, Tensor]:
    """Log-probabilities of the labels and log-sum-exps, (R,) each; adds p - (1 - ε) · one-hot to the gradients."""
    count, vocabulary = made.features.shape[:-1], len(made.weight)
    if serves(made.features, made.weight, narrow=True) and knows(labels, *count, vocabulary=vocabulary):
        return _natively(made, labels, smoothing, gradients)
    inputs, table, (of_features, of_weight, of_bias) = made.features, made.weight, gradients
    wide = torch.promote_types(inputs.dtype, torch.float32)
    logits, probabilities = inputs.new_empty(2, len(inputs), 1, dtype=wide)
    at_a_time = max(1, AT_A_TIME // len(table))
    for start in range(0, len(inputs), at_a_time):
        rows = slice(start, start + at_a_time)
        part, answers = inputs[rows], labels[rows].unsqueeze(-1)
        said = Projection(part, table, made.bias).logits()  # (C, V)
        logits[rows] = said.gather(-1, answers)
        torch.softmax(said, -1, out=said)
        probabilities[rows] = said.gather(-1, answers)
        if of_features is of_weight is of_bias is None:
            continue
        error = said.scatter_add_(-1, answers, said.new_full(answers.shape, smoothing - 1))
        if of_bias is not None:
            of_bias += error.sum(0)
        narrowed = error.to(inputs.dtype)
        if of_features is not None:
            torch.mm(narrowed, table, out=of_features[rows])
        if of_weight is not None:
            _add_product(of_weight, narrowed.t(), part)
    chosen = probabilities.log().squeeze(-1)
    lost = (probabilities.squeeze(-1) < _FAINT).nonzero().squeeze(-1)  # too little is left of them to take a logarithm
    if len(lost):
        said = Projection(inputs[lost], table, made.bias).logits().log_softmax(-1)
        chosen[lost] = said.gather(-1, labels[lost].unsqueeze(-1)).squeeze(-1)
    return chosen, logits.squeeze(-1) - chosen


def knows(labels: Tensor, *rows: int, vocabulary: int) -> bool:
    """Whether there is a label in the vocabulary for each row: a kernel does not look twice, and torch's way tells what
    is wrong."""
    if labels.dtype is not torch.int64 or not labels.is_cpu or labels.shape != rows or len(rows) != 1:
        return False
    return labels.is_contiguous() and int(labels.min()) >= 0 and int(labels.max()) < vocabulary


def _natively(
    made: Projection, labels: Tensor, smoothing: float, gradients: tuple[Tensor | None, Tensor | None, Tensor | None]
) -> tuple[Tensor, Tensor]:
    """The same with one visit to each row of logits. Its softmax is never divided by its sum: the products are."""
    inputs, table, (of_features, of_weight, of_bias) = made.features, made.weight, gradients
    learns = any(one is not None for one in gradients)
    results = inputs.new_empty(3, len(inputs), dtype=torch.float32)
    at_a_time = max(1, AT_A_TIME // len(table))
    for start in range(0, len(inputs), at_a_time):
        rows = slice(start, start + at_a_time)
        part = inputs[rows]
        said = functional.linear(part, table, made.bias)  # (C, V)
        chosen, normaliser, inverse = results[:, rows]
        peaked(said, labels[rows], 1 - smoothing, (chosen, normaliser, inverse), writes=learns)
        share = inverse.unsqueeze(-1)
        if of_features is not None:
            torch.mm(said, table, out=of_features[rows]).mul_(share)
        if of_weight is not None:
            _add_product(of_weight, said.t(), (part * share).to(part.dtype))
        if of_bias is not None:
            of_bias.addmv_(widened(said).t(), inverse)
    return results[0], results[1]


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """Add a product to a total, which may be wider than its factors."""
    if left.dtype == total.dtype:
        total.addmm_(left, right)
    else:
        total += left @ right
