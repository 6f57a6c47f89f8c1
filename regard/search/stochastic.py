"""Stochastic beam search: outputs drawn without replacement (Kool, van Hoof & Welling 2019).

Adding independent Gumbel noise to the log-probabilities of all outputs and keeping the K largest draws K of them
without replacement. The noise of a prefix is the largest of its continuations', so it can be drawn from the top: a row
with perturbed log-probability G has continuations with G̃_c = -log(exp(-G) - exp(-Z) + exp(-G_c)), where G_c are fresh
draws around their log-probabilities and Z is the largest of them (Algorithm 1 and Appendix B.3). An output that has
ended stays among the K until more than K others are above it.

Shapes: K rows, V vocabulary.
"""

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from regard.search.chance import uniform, words
from regard.search.hypothesis import Hypothesis
from regard.search.options import SearchOptions

SMALLEST = 2.0**-54


@dataclass(frozen=True, slots=True)
class Perturbed:
    """A row of a stochastic beam: log-probability under the distribution that is drawn from, and with its noise."""

    log_probability: float
    value: float


def root(options: SearchOptions, request: int) -> Perturbed:
    """Before the first token: one Gumbel number."""
    chance = uniform(words([options.seed]), words([request]), words([0]), words([0]), words([0]))
    return Perturbed(0.0, float(-np.log(-np.log(np.maximum(chance, SMALLEST)))[0]))


def perturb(rows: list[Perturbed], said: Tensor, *, options: SearchOptions, request: int, step: int) -> list[Tensor]:
    """log-probabilities and perturbed ones of all continuations of rows: (K, V) → (K, V), (K, V)."""
    said = said.double()
    best = said.amax(-1, keepdim=True).nan_to_num(neginf=0.0)
    own = ((said - best) / options.temperature).log_softmax(-1)
    own = own + torch.tensor([row.log_probability for row in rows], dtype=torch.float64).unsqueeze(1)
    shape = np.arange(len(rows))[:, None], np.arange(said.size(1))[None, :]
    chance = uniform(words([options.seed]), words([request]), words([step + 1]), *shape)
    noise = -(-torch.from_numpy(chance).clamp(min=SMALLEST).log()).log()
    fresh = (own + noise).nan_to_num(nan=-torch.inf)
    above = torch.tensor([row.value for row in rows], dtype=torch.float64).unsqueeze(1)
    largest = fresh.amax(1, keepdim=True)
    gap = above - fresh + torch.log1p(-(fresh - largest).exp())  # Appendix B.3, without cancellation
    moved = above - gap.clamp(min=0) - torch.log1p((-gap.abs()).exp())
    return [own, torch.where(fresh.isfinite(), moved, -torch.inf)]


@dataclass(slots=True)
class Unreplaced:
    """The outputs of a stochastic beam that have ended and are among its best so far."""

    options: SearchOptions
    done: list[tuple[float, Hypothesis]] = field(default_factory=list)

    def add(self, hypothesis: Hypothesis, sample: int) -> None:
        del sample  # they are ordered by their noise
        assert hypothesis.parts.perturbed is not None
        self.done.append((hypothesis.parts.perturbed, hypothesis))
        self.done.sort(key=lambda one: -one[0])

    def room(self, values: list[float]) -> int:
        """How many of some new values, best first, are among the K best with those that ended; others go."""
        both = sorted([*values, *(value for value, _ in self.done)], reverse=True)[: self.options.beam]
        self.done = [one for one in self.done if one[0] >= both[-1]] if both else []
        return max(0, self.options.beam - len(self.done))

    def is_open(self, log_probability: float, length: int) -> bool:
        del log_probability, length  # a row that runs is among the K
        return True

    @property
    def takes_cut(self) -> bool:
        return True

    def hypotheses(self) -> tuple[Hypothesis, ...]:
        return tuple(one for _, one in self.done[: self.options.best])
