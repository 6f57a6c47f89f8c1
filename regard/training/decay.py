"""How much of the truth a decoder still reads at a step (Bengio et al. 2015, section 2.4).

ε_i is the share of true tokens among the inputs of update i, the first of which is 1. It falls from about 1, with which
training is teacher forcing, towards 0, with which the model reads nothing but its own output.
"""

import math
from dataclasses import dataclass
from typing import Protocol


class Decay(Protocol):
    """ε_i of each update i."""

    def share(self, step: int) -> float: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearDecay:
    """ε_i = max(ε, k - c i), at most 1: an offset k above 1 is a time of teacher forcing."""

    slope: float  # c > 0
    offset: float = 1.0  # k
    floor: float = 0.0  # ε, in [0, 1)

    def share(self, step: int) -> float:
        return min(1.0, max(self.floor, self.offset - self.slope * step))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExponentialDecay:
    """ε_i = k^i."""

    base: float  # 0 < k < 1

    def share(self, step: int) -> float:
        return self.base**step


@dataclass(frozen=True, slots=True, kw_only=True)
class InverseSigmoidDecay:
    """ε_i = k / (k + exp(i / k)): long near 1, 1/2 at i = k ln k, then falling with the speed that k gives."""

    k: float  # at least 1

    def share(self, step: int) -> float:
        """As σ(ln k - i / k), which does not overflow."""
        return 0.5 * (1.0 + math.tanh(0.5 * (math.log(self.k) - step / self.k)))


@dataclass(frozen=True, slots=True)
class NoTruth:
    """ε_i = 0: the baseline that always reads its own output."""

    def share(self, step: int) -> float:  # noqa: ARG002
        return 0.0
