"""How the items of a sequence stand to each other, as attention sees it.

Shapes: B rows, Q queries, N keys, H heads, E width of a head, C distances told apart.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class Relations:
    """What a scheme of positions tells self-attention, made once for all layers; None: it does not use this way.

    States are aligned at their end, so the distance of two columns is the same in all rows; only turns need to know
    the position of an item in its own row.
    """

    bias: Tensor | None = None  # (H, Q, N), or (B, 1, Q, N) without a mask, is added to the scores
    turns: tuple[Tensor, Tensor] | None = None  # cosine and sine, (N, E / 2) or (B, 1, 1, E / 2), of the new items
    distances: Tensor | None = None  # (Q, N) position of the key minus that of the query


def turn(states: Tensor, turns: tuple[Tensor, Tensor]) -> Tensor:
    """Turn each pair (x_2i, x_2i+1) of queries or keys (B, H, N, E) by the angle of its position and wave.

    Su et al. 2021, equation 34. The product of a query and a key then depends on the difference of their angles only.
    """
    cosine, sine = turns
    even, odd = states.unflatten(-1, (-1, 2)).unbind(-1)  # (B, H, N, E / 2) each
    return torch.stack((even * cosine - odd * sine, even * sine + odd * cosine), dim=-1).flatten(-2)


class RelativeTerms(nn.Module):
    """Vectors of distances that join keys and values, shared by the heads of a layer.

    Shaw et al. 2018, equations 3 to 5: e_ij = q_i (k_j + a^K_ij)ᵀ / √E, z_i = Σ_j α_ij (v_j + a^V_ij), where a_ij is
    that of the distance j - i, clipped at ± `furthest`. A causal side sees no distances above 0.
    """

    def __init__(self, *, width: int, furthest: int, causal: bool) -> None:
        super().__init__()
        self.furthest = furthest
        self.causal = causal
        told_apart = furthest + 1 if causal else 2 * furthest + 1
        self.keys = nn.Parameter(torch.empty(told_apart, width))  # (C, E)
        self.values = nn.Parameter(torch.empty(told_apart, width))  # (C, E)
        for table in (self.keys, self.values):
            nn.init.normal_(table, std=width**-0.5)

    def _rows(self, distances: Tensor) -> Tensor:
        return distances.clamp(-self.furthest, 0 if self.causal else self.furthest) + self.furthest

    def scores(self, queries: Tensor, distances: Tensor) -> Tensor:
        """q_i a^K_ijᵀ: (B, H, Q, E), (Q, N) → (B, H, Q, N)."""
        return torch.einsum("bhqe,qne->bhqn", queries, self.keys[self._rows(distances)])

    def context(self, weights: Tensor, distances: Tensor) -> Tensor:
        """Σ_j α_ij a^V_ij: (B, H, Q, N), (Q, N) → (B, H, Q, E)."""
        return torch.einsum("bhqn,qne->bhqe", weights, self.values[self._rows(distances)])
