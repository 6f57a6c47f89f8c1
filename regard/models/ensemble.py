"""Several scorers as one: they read the same source, each in its own way, and say together what comes next.

linear:         p(y_i | ·) = Σ_m w_m p_m(y_i | ·), the mean of probabilities
loglinear:      p(y_i | ·) ∝ Π_m p_m(y_i | ·)^w_m, the mean of log-probabilities, made a distribution again
loglinear_raw:  the same mean, left as it is: what it says adds up to less than 1 wherever members differ

Weights add up to 1. All three say at most 0, which the early end of a beam relies on. A mean of log-probabilities
gives a token a small chance if only one member does; a mean of probabilities, if all do.

Shapes: S sentences, K beams, V vocabulary, B rows, M target items, R places that are asked about.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from torch import Tensor

from regard.data.batch import Batch, Sources
from regard.data.joint import own_sources
from regard.errors import UsageError
from regard.models.contracts import Scorer, State, Step
from regard.models.encoder_decoder import EncoderDecoder

Combine = Literal["linear", "loglinear", "loglinear_raw"]
COMBINES: tuple[Combine, ...] = get_args(Combine)


@dataclass(frozen=True, slots=True)
class JointState:
    """Where the rows of several scorers stand."""

    members: tuple[State, ...]

    def select(self, sentences: Tensor | None, beams: Tensor) -> "JointState":
        return JointState(tuple(one.select(sentences, beams) for one in self.members))

    def join(self, other: "JointState") -> "JointState":
        return JointState(tuple(one.join(another) for one, another in zip(self.members, other.members, strict=True)))


class Ensemble:
    """A scorer of scorers of any architectures that share a vocabulary.

    Its sources are those of its members, packed (`pack_sources`). Coverage is that of the first member: positions of a
    source belong to one way of splitting it.
    """

    def __init__(
        self, members: Sequence[Scorer], *, combine: Combine = "linear", weights: Sequence[float] | None = None
    ) -> None:
        if not members:
            raise UsageError("an ensemble has at least one member, and none was given")
        if combine not in COMBINES:
            raise UsageError(f"combine must be one of {', '.join(COMBINES)}, not {combine!r}")
        sizes = [one.vocabulary for one in members]
        if len(set(sizes)) > 1:
            raise UsageError(f"members of an ensemble share a vocabulary, and these have {sizes} ids")
        self.members = tuple(members)
        self.vocabulary = sizes[0]
        self.combine = combine
        self.weights = shares(weights, len(self.members))

    @property
    def longest(self) -> int | None:
        return min((one.longest for one in self.members if one.longest is not None), default=None)

    def start(self, sources: Sources) -> JointState:
        numbered = enumerate(self.members, start=1)
        return JointState(tuple(one.start(own_sources(sources, number)) for number, one in numbered))

    def step(self, tokens: Tensor, state: State) -> Step:
        assert isinstance(state, JointState)
        steps = [one.step(tokens, own) for one, own in zip(self.members, state.members, strict=True)]
        return Step(
            logits=self._together([step.log_probabilities for step in steps]),
            state=JointState(tuple(step.state for step in steps)),
            coverage=steps[0].coverage,
        )

    def _together(self, said: Sequence[Tensor]) -> Tensor:
        """One distribution of several: (..., V) each."""
        if len(said) == 1:
            return said[0]
        if self.combine == "linear":
            return self._mixture(said)
        product = self._product(said)
        return product.log_softmax(-1) if self.combine == "loglinear" else product

    def _mixture(self, said: Sequence[Tensor]) -> Tensor:
        """log Σ_m w_m p_m, where rounding must not make a probability above 1."""
        weighted = [one + math.log(weight) for one, weight in zip(said, self.weights, strict=True)]
        return torch.stack(weighted).logsumexp(0).clamp_(max=0.0)

    def _product(self, said: Sequence[Tensor]) -> Tensor:
        """Σ_m w_m log p_m."""
        total = said[0] * self.weights[0]
        for one, weight in zip(said[1:], self.weights[1:], strict=True):
            total = total.add_(one, alpha=weight)
        return total

    def token_log_probabilities(self, batch: Batch) -> Tensor:
        """log p(y_i | y_{<i}, x) of given targets, teacher-forced: (B, M), 0 at padding.

        A mixture needs only what its members say of the targets; a product made a distribution again needs all.
        """
        pairs = []
        for number, one in enumerate(self.members, start=1):
            assert isinstance(one, EncoderDecoder), "only whole models are teacher-forced"
            pairs.append((one, replace(batch, sources=own_sources(batch.sources, number))))
        if self.combine == "loglinear" and len(pairs) > 1:
            every = self._together([one.log_distribution(own) for one, own in pairs])  # (R, V)
            chosen = every.gather(-1, batch.outputs[batch.mask].unsqueeze(-1)).squeeze(-1)
            return chosen.new_zeros(batch.mask.shape).masked_scatter(batch.mask, chosen)
        said = self._together([one.token_log_probabilities(own) for one, own in pairs])
        return said.masked_fill(~batch.mask, 0.0)


def shares(weights: Sequence[float] | None, members: int) -> tuple[float, ...]:
    """Weights that add up to 1; equal ones where none are given."""
    if weights is None:
        return (1 / members,) * members
    if len(weights) != members:
        raise UsageError(f"{len(weights)} weights were given for {members} members; give one for each, or none")
    for weight in weights:
        if not 0 < weight < math.inf:
            raise UsageError(f"a weight must be a number above 0, not {weight}; leave out a member that has no say")
    return tuple(weight / math.fsum(weights) for weight in weights)
