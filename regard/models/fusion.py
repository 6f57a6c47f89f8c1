"""Shallow fusion: log p(y | x) + λ log p_LM(y), step by step (Gülçehre et al. 2015).

The language model has a say in what is chosen; the log-probability that is told stays the model's own. λ ≥ 0, and so
what is added is at most 0, which the early end of a beam relies on.

Shapes: S sentences, K beams, V vocabulary.
"""

import math
from dataclasses import replace

import torch
from torch import Tensor

from regard.data.batch import Sources
from regard.data.joint import own_sources
from regard.errors import UsageError
from regard.models.contracts import Scorer, State, Step
from regard.models.ensemble import JointState


class Fusion:
    """A scorer beside which a language model scores. Its sources are those of both, packed (`pack_sources`)."""

    def __init__(self, scorer: Scorer, language_model: Scorer, *, weight: float) -> None:
        if not 0 <= weight < math.inf:
            raise UsageError(f"the weight of fusion must be a number from 0 on, not {weight}; 0 is none")
        if scorer.vocabulary != language_model.vocabulary:
            raise UsageError(
                f"a language model is fused with a model of its own vocabulary, and these have {scorer.vocabulary} and "
                f"{language_model.vocabulary} ids"
            )
        self.scorer = scorer
        self.language_model = language_model
        self.weight = weight
        self.vocabulary = scorer.vocabulary

    @property
    def longest(self) -> int | None:
        both = (self.scorer.longest, self.language_model.longest)
        return min((one for one in both if one is not None), default=None)

    def start(self, sources: Sources) -> JointState:
        both = (self.scorer, self.language_model)
        return JointState(tuple(one.start(own_sources(sources, number)) for number, one in enumerate(both, start=1)))

    def step(self, tokens: Tensor, state: State) -> Step:
        assert isinstance(state, JointState)
        step, other = (
            one.step(tokens, own) for one, own in zip((self.scorer, self.language_model), state.members, strict=True)
        )
        said = other.log_probabilities
        return replace(
            step,
            state=JointState((step.state, other.state)),
            fusion=said * self.weight if self.weight else torch.zeros_like(said),
        )
