"""Beam search: of all continuations of a sentence the K best go on.

A continuation that ends leaves the beam for the list of finished hypotheses, so a beam of 1 is greedy search. A
sentence stops when no running hypothesis can still enter its n best. With the score log p / |y|^α a running hypothesis
can at best keep its log-probability and reach the longest length, so log p / limit^α bounds it. This takes log p ≤ 0
for granted.

Shapes: S sentences, K beams, V vocabulary, C continuations of a sentence.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

from torch import Tensor

from regard.search.grid import WORST, Continuations
from regard.search.hypothesis import Hypothesis
from regard.search.options import SearchOptions


def best_continuations(
    scores: Tensor, log_probabilities: Tensor, *, count: int, forbidden: Collection[int]
) -> Continuations:
    """The best continuations of each sentence, best first: (S, K), (S, K, V) → (S, C).

    The best of a sentence are among the best of each of its rows, so the choice is made in two small steps. A few more
    are taken of each row, from which the tokens that must not come out are struck; so (S, K, V) is never copied.
    """
    chosen = min(count + len(forbidden), log_probabilities.size(2))
    values, tokens = log_probabilities.topk(chosen, dim=2)  # (S, K, C')
    values = values + scores.unsqueeze(2)
    for token in forbidden:
        values.masked_fill_(tokens == token, WORST)
    values = values.flatten(1)
    best, places = values.topk(min(count, values.size(1)), dim=1)  # (S, C)
    return Continuations(values=best, rows=places // chosen, tokens=tokens.flatten(1).gather(1, places))


@dataclass(slots=True)
class Ranked:
    """The n best hypotheses of a request so far, best first."""

    options: SearchOptions
    limit: int
    done: list[Hypothesis] = field(default_factory=list)

    def add(self, hypothesis: Hypothesis, sample: int) -> None:
        del sample  # a beam has no samples
        self.done.append(hypothesis)
        self.done.sort(key=lambda one: -one.score)
        del self.done[self.options.best :]

    def is_open(self, log_probability: float) -> bool:
        if len(self.done) < self.options.best:
            return True
        return self.options.score(log_probability, self.limit) > self.done[-1].score

    @property
    def takes_cut(self) -> bool:
        return not self.done

    def hypotheses(self) -> tuple[Hypothesis, ...]:
        return tuple(self.done)
