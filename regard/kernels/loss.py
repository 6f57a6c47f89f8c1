"""The loss of a wide vocabulary in half precision, with its gradients, in one call.

Shapes: R rows, D width, V vocabulary.
"""

import ctypes
from typing import Final, NamedTuple

import torch
from torch import Tensor

from regard.kernels.calls import checked, has_half, library, serves
from regard.kernels.structures import Loss

_FARTHEST: Final = -60.0
"""Logits are compared with the label's, whose log-probability must not be below this: powers would not be numbers."""


class Gradients(NamedTuple):
    """What there is of gradients, in single precision."""

    features: Tensor | None  # (R, D)
    weight: Tensor | None  # (V, D)
    bias: Tensor | None  # (V,)


class Even(NamedTuple):
    """What label smoothing adds to the gradient of each row, word and bias."""

    features: Tensor  # (D,)
    weight: Tensor  # (D,)
    bias: float


def loses_in_half(features: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    """Whether products are to be made in half precision, and the kernel is for them."""
    return (
        torch.is_autocast_enabled("cpu") and has_half() and serves(features, weight, *(() if bias is None else (bias,)))
    )


def half_loss(
    features: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    labels: Tensor,
    share: float,
    even: Even,
    gradients: Gradients,
) -> tuple[Tensor, Tensor] | None:
    """Log-probabilities of the labels and log-sum-exps, (R,) each, of logits x Wᵀ + b; fills the gradients.

    Errors of logits are their softmax less `share` at the label; what smoothing adds to gradients is given. None where
    a label is so unlikely, or something so far from being a number, that powers are too large to be computed with.
    """
    (rows, width), vocabulary = features.shape, len(weight)
    results = features.new_empty(2, rows)
    given = (features, weight, bias, labels, even.features, even.weight, *results, *gradients)
    places = (None if one is None else one.data_ptr() for one in given)
    asked = Loss(rows, width, vocabulary, share, even.bias, *places)
    checked(library().regard_loss(ctypes.byref(asked), torch.get_num_threads()))
    chosen, normaliser = results
    return (chosen, normaliser) if bool((chosen > _FARTHEST).all()) else None
