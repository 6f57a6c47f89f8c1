"""Ids to vectors.

Shapes: B rows, N items, V vocabulary, D width.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.special import PAD


def embedding_table(vocabulary: int, width: int) -> nn.Parameter:
    """A fresh table (V, D) with variance 1 / D, so that its transpose can serve as the output projection."""
    weight = torch.empty(vocabulary, width)
    nn.init.normal_(weight, std=width**-0.5)
    weight[PAD] = 0.0
    return nn.Parameter(weight)


class Embedding(nn.Module):
    """Looks vectors up in a table that may be shared with other parts.

    The scale is √D for Transformers (Vaswani et al. 2017, section 3.4) and 1 for recurrent networks.
    """

    def __init__(self, *, weight: nn.Parameter, scaled: bool) -> None:
        super().__init__()
        self.weight = weight
        self.scale = math.sqrt(weight.size(1)) if scaled else 1.0

    @property
    def width(self) -> int:
        return self.weight.size(1)

    def forward(self, ids: Tensor) -> Tensor:
        """(B, N) → (B, N, D). Dropout is the caller's: it comes after positions are added."""
        return functional.embedding(ids, self.weight) * self.scale
