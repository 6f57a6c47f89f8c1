"""What the loss of a wide vocabulary needs of its logits, in one visit to each row."""

import ctypes

import torch
from torch import Tensor

from regard.kernels.calls import library, threads
from regard.kernels.structures import Peaked


def peaked(
    logits: Tensor, labels: Tensor, share: float, results: tuple[Tensor, Tensor, Tensor], *, writes: bool
) -> None:
    """Turn logits (R, V) into their errors, up to a factor of the row.

    With e = exp(logit - largest) and s = Σ e, the logits become e - `share` · s · one-hot, which times 1 / s is the
    softmax less `share` at the label. `results`, (R,) each: the log-probability of the label, log Σ exp(logit), 1 / s.
    Without `writes` the logits stay. They may be in half precision; what is computed is not.
    """
    chosen, normaliser, inverse = results
    rows, width = logits.shape
    given = (one.data_ptr() for one in (logits, labels, chosen, normaliser, inverse))
    asked = Peaked(width, share, writes, logits.dtype is torch.bfloat16, *given)
    library().regard_peaked(ctypes.byref(asked), rows, threads(logits.numel()))
