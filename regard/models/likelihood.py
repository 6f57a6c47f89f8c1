"""What every shape makes of its hidden states: a loss over the places that are asked about, or log-probabilities.

Padding is dropped before the output projection, so that no product is spent on it.

Shapes: B rows, M places, R places that are asked about, V vocabulary, D width.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from regard.data.batch import Batch
from regard.models.contracts import Loss
from regard.nn import smoothed_cross_entropy

Project = Callable[[Tensor], Tensor]
"""(R, D) → logits (R, V)."""


def likelihood_loss(hidden: Tensor, project: Project, batch: Batch, smoothing: float) -> Loss:
    """Cross-entropy at the places of a batch, from hidden states (B, M, D)."""
    asked = hidden[batch.mask]  # (R, D)
    total, likelihood = smoothed_cross_entropy(single(project(asked)), batch.outputs[batch.mask], smoothing)
    return Loss(sum=total, count=asked.size(0), parts={"likelihood": likelihood.detach()})


def log_distribution(hidden: Tensor, project: Project, batch: Batch) -> Tensor:
    """log p of the whole vocabulary at the places of a batch, from hidden states (B, M, D): (R, V)."""
    return single(project(hidden[batch.mask])).log_softmax(-1)


def chosen_log_probabilities(hidden: Tensor, project: Project, batch: Batch) -> Tensor:
    """log p of the outputs of a batch, from hidden states (B, M, D): (B, M), 0 at padding."""
    logits = single(project(hidden[batch.mask]))  # (R, V)
    labels = batch.outputs[batch.mask].unsqueeze(-1)
    chosen = logits.gather(-1, labels).squeeze(-1) - logits.logsumexp(-1)  # (R,)
    return chosen.new_zeros(batch.mask.shape).masked_scatter(batch.mask, chosen)


def single(logits: Tensor) -> Tensor:
    """Half precision is widened before probabilities are made of it."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))
