"""What every shape makes of its hidden states: a loss over the places that are asked about, or log-probabilities.

Padding is dropped before the output projection, so that no product is spent on it.

Shapes: B rows, M places, R places that are asked about, V vocabulary, D width.
"""

from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor

from regard.data.batch import Batch
from regard.kernels import search as native
from regard.models.contracts import Loss, State, Step
from regard.nn import Projection, projected_cross_entropy

MODERATE: Final = 45.0
"""A sum of exponentials between exp(±45) has lost nothing to the limits of single precision."""

FEW: Final = 16
"""So many numbers are sooner looked at one by one."""

AT_A_TIME: Final = 1 << 18
"""Exponentials that are there at once."""

Project = Callable[[Tensor], Projection]
"""(R, D) → logits (R, V) to be made."""


def likelihood_loss(hidden: Tensor, project: Project, batch: Batch, smoothing: float) -> Loss:
    """Cross-entropy at the places of a batch, from hidden states (B, M, D)."""
    asked = hidden[batch.mask]  # (R, D)
    total, likelihood = projected_cross_entropy(project(asked), batch.outputs[batch.mask], smoothing)
    return Loss(sum=total, count=asked.size(0), parts={"likelihood": likelihood})


def log_normaliser(logits: Tensor) -> Tensor:
    """log Σ exp: (..., V) → (...), with exponentials that stay in the cache.

    Logits are seldom so large that they must be shifted first: whether they were is seen by the sums, row by row, so
    that no row depends on others.
    """
    rows = logits.flatten(0, -2)
    at_a_time = max(1, AT_A_TIME // logits.size(-1))
    if len(rows) <= at_a_time:
        found = rows.exp().sum(-1).log_()
    else:
        found = torch.cat([part.exp().sum(-1) for part in rows.split(at_a_time)]).log_()
    if len(rows) <= FEW and all(-MODERATE < one < MODERATE for one in found.tolist()):
        return found.view(logits.shape[:-1])
    extreme = ~(found.abs() < MODERATE)
    if bool(extreme.any()):
        found[extreme] = rows[extreme].logsumexp(-1)
    return found.view(logits.shape[:-1])


def said(logits: Tensor, state: State) -> Step:
    """What a scorer says by logits (S, K, V)."""
    rows = logits.flatten(0, -2)
    if not native.sums(rows):
        return Step(logits=logits, normaliser=log_normaliser(logits), state=state)
    normaliser, largest = native.summed(rows)
    strange = ~normaliser.isfinite()
    if bool(strange.any()):
        normaliser[strange] = rows[strange].logsumexp(-1)
    shape = logits.shape[:-1]
    return Step(logits=logits, normaliser=normaliser.view(shape), largest=largest.view(*shape, -1), state=state)


def chosen_log_probabilities(hidden: Tensor, project: Project, batch: Batch) -> Tensor:
    """log p of the outputs of a batch, from hidden states (B, M, D): (B, M), 0 at padding."""
    logits = project(hidden[batch.mask]).logits()  # (R, V)
    labels = batch.outputs[batch.mask].unsqueeze(-1)
    chosen = logits.gather(-1, labels).squeeze(-1) - logits.logsumexp(-1)  # (R,)
    return chosen.new_zeros(batch.mask.shape).masked_scatter(batch.mask, chosen)
