"""Ancestral sampling: every row draws its own next token, until it draws the end.

The model's distribution over the tokens that may come out is first sharpened or flattened, p^(1/T), then truncated, one
rule after the other, each on what the one before has left. A draw depends on the seed, the request, the number of the
sample and the step, and on nothing else: what a sentence gives does not depend on its company.

Weights are in proportion to probabilities; they are never normalised, so a rule that takes nothing away changes
nothing. Shapes: S sentences, K rows, V vocabulary, C candidates, in the order of ids or as a rule has sorted them.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from regard.search.chance import uniform, words
from regard.search.grid import WORST, Continuations
from regard.search.hypothesis import Hypothesis
from regard.search.options import SearchOptions


@dataclass(frozen=True, slots=True)
class Candidates:
    """The tokens that a row may draw."""

    weights: Tensor  # (..., C) from 0 on
    tokens: Tensor  # (..., C)

    def order(self, places: Tensor) -> "Candidates":
        return Candidates(weights=self.weights.gather(-1, places), tokens=self.tokens.gather(-1, places))

    def largest(self, count: int) -> "Candidates":
        """So many of the largest weights, in the order they were in."""
        return self.order(self.weights.topk(min(count, self.weights.size(-1)), sorted=False).indices.sort().values)

    def only(self, kept: Tensor) -> "Candidates":
        return Candidates(weights=self.weights * kept, tokens=self.tokens)

    def draw(self, chance: Tensor) -> Tensor:
        """The token where the running sum of the weights passes a number in [0, 1) of the whole: (...) → (...)."""
        sums = self.weights.cumsum(-1)
        whole = sums[..., -1:]
        aim = torch.minimum(chance.unsqueeze(-1) * whole, whole.nextafter(torch.zeros_like(whole)))
        places = torch.searchsorted(sums, aim.contiguous(), right=True).clamp(max=sums.size(-1) - 1)
        return self.tokens.gather(-1, places).squeeze(-1)


def candidates(log_probabilities: Tensor, *, temperature: float, forbidden: Collection[int]) -> Candidates:
    """w = (p / max p)^(1/T), and 0 for what must not come out or has no probability: (..., V)."""
    said = log_probabilities.double().index_fill(-1, torch.tensor(list(forbidden), dtype=torch.long), WORST)
    best = said.amax(-1, keepdim=True).nan_to_num(neginf=0.0)
    weights = ((said - best) / temperature).exp()
    return Candidates(weights=weights, tokens=torch.arange(said.size(-1)).expand(said.shape))


def truncate(found: Candidates, options: SearchOptions) -> Candidates:
    """What the rules of the options leave."""
    if options.top_k is not None:
        found = found.largest(options.top_k)
    if options.top_p is not None:
        found = nucleus(found, options.top_p)
    if options.min_p is not None:
        found = found.only(found.weights >= options.min_p * found.weights.amax(-1, keepdim=True))
    if options.typical is not None:
        found = typical(found, options.typical)
    return found


def nucleus(found: Candidates, mass: float) -> Candidates:
    """The smallest set of most probable tokens of this mass (Holtzman et al. 2020).

    Sorting is dear. All C' tokens with less than (1 - p) / C' of the whole have less than 1 - p together, so none of
    them is in the set, and only the others are sorted.
    """
    whole = found.weights.sum(-1, keepdim=True)
    eligible = found.weights >= (1 - mass) / found.weights.size(-1) * whole
    some = found.largest(max(1, int(eligible.sum(-1).max())))
    ordered = some.order(some.weights.sort(dim=-1, descending=True, stable=True).indices)
    return ordered.only(_before(ordered.weights) < mass * whole)


def _before(weights: Tensor) -> Tensor:
    """The sum before each. The smallest set of mass p takes those in front with less than p before them."""
    return weights.cumsum(-1) - weights


def typical(found: Candidates, mass: float) -> Candidates:
    """The smallest set of this mass whose surprise -log p is closest to its expectation, the entropy (Meister 2023)."""
    whole = found.weights.sum(-1, keepdim=True)
    probabilities = found.weights / whole
    surprise = -probabilities.log()
    entropy = torch.special.entr(probabilities).sum(-1, keepdim=True)
    ordered = found.order((surprise - entropy).abs().sort(dim=-1, stable=True).indices)
    return ordered.only(_before(ordered.weights) < mass * whole)


def drawn_continuations(
    scores: Tensor, log_probabilities: Tensor, chance: Tensor, *, options: SearchOptions, forbidden: Collection[int]
) -> Continuations:
    """One token for each row, by its own number in [0, 1): (S, K), (S, K, V), (S, K) → (S, K)."""
    found = candidates(log_probabilities, temperature=options.temperature, forbidden=forbidden)
    tokens = truncate(found, options).draw(chance)
    said = log_probabilities.gather(2, tokens.unsqueeze(2)).squeeze(2)
    nothing = found.weights.amax(-1) == 0
    return Continuations(
        values=(scores + said).masked_fill(nothing, WORST),
        rows=torch.arange(scores.size(1)).expand(scores.shape),
        tokens=tokens,
    )


def chances(seed: int, requests: Sequence[int], samples: Tensor, steps: Sequence[int]) -> Tensor:
    """The numbers that rows draw by: one for each request, sample and step (S, K)."""
    return torch.from_numpy(uniform(words([seed]), words(requests)[:, None], samples.numpy(), words(steps)[:, None]))


@dataclass(slots=True)
class Drawn:
    """The samples of a request that are done, by their numbers."""

    done: dict[int, Hypothesis] = field(default_factory=dict)

    def add(self, hypothesis: Hypothesis, sample: int) -> None:
        self.done[sample] = hypothesis

    def is_open(self, log_probability: float, length: int) -> bool:
        del log_probability, length  # every sample runs to its own end
        return True

    @property
    def takes_cut(self) -> bool:
        return True

    def hypotheses(self) -> tuple[Hypothesis, ...]:
        return tuple(self.done[sample] for sample in sorted(self.done))
