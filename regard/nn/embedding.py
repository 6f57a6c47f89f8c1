"""Ids to vectors.

Shapes: B rows, N items, F factors of an item, V vocabulary, D width.
"""

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.errors import ModelError
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

    def items(self, ids: Tensor) -> Tensor:
        """Items with all their factors: (B, N, F) → (B, N, D)."""
        _check_factors(ids, 1)
        return self(ids[..., 0])


class FactoredEmbedding(Embedding):
    """A table for the words and one for each further factor: lemma, part of speech, any column.

    Sennrich and Haddow 2016: x_j = ‖_k E_k x_jk, the vectors of all factors of an item side by side; with `sum` they
    are added, and all tables have one width. `forward` looks up words alone.
    """

    def __init__(
        self,
        *,
        weight: nn.Parameter,
        factors: Sequence[nn.Parameter],
        combine: Literal["concat", "sum"],
        scaled: bool,
    ) -> None:
        super().__init__(weight=weight, scaled=scaled)
        widths = [weight.size(1), *(table.size(1) for table in factors)]
        if combine == "sum" and len(set(widths)) > 1:
            raise ValueError(f"tables whose vectors are summed must have one width, and these have {widths}")
        self.factors = nn.ParameterList(factors)
        self.combine = combine
        self.scale = math.sqrt(self.width) if scaled else 1.0

    @property
    def width(self) -> int:
        """Of the result."""
        if self.combine == "sum":
            return self.weight.size(1)
        return self.weight.size(1) + sum(table.size(1) for table in self.factors)

    def items(self, ids: Tensor) -> Tensor:
        tables = (self.weight, *self.factors)
        _check_factors(ids, len(tables))
        vectors = [functional.embedding(ids[..., factor], table) for factor, table in enumerate(tables)]
        combined = torch.cat(vectors, dim=-1) if self.combine == "concat" else torch.stack(vectors).sum(0)
        return combined * self.scale


def _check_factors(ids: Tensor, known: int) -> None:
    if ids.size(-1) != known:
        raise ModelError(
            f"each item of this source has {ids.size(-1)} factors, and the model knows {known}; "
            "give the columns that it was trained with"
        )
