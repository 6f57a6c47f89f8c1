"""What two draws of the same rows that must agree need of their logits, in two visits to each pair."""

import ctypes

import torch
from torch import Tensor

from regard.kernels.calls import library, threads
from regard.kernels.structures import Agreed

Shares = tuple[float, float, float]
"""Of the label, of every word, and the weight of the divergence."""


def agreed(
    logits: Tensor, labels: Tensor, shares: Shares, results: tuple[Tensor, Tensor, Tensor], errors: Tensor | None
) -> None:
    """Fill results and errors for logits (2, P, V) in single precision, and labels (P,).

    `results` are the negative log-likelihoods of labels (2, P), what they would be if every word were one (2, P), and
    the mean of both divergences (P,). Errors (2, P, V) are those of half the losses, with the `shares`, and of the
    weighted divergence; in half precision, or where the logits are.
    """
    _, pairs, width = logits.shape
    narrow = errors is not None and errors.dtype is torch.bfloat16
    places = (None if one is None else one.data_ptr() for one in (logits, labels, errors, *results))
    asked = Agreed(pairs, width, narrow, *shares, *places)
    library().regard_agreed(ctypes.byref(asked), threads(logits.numel()))
