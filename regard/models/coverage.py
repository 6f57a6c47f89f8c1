"""A scorer that also tells how much of the source was attended to.

log-coverage = Σ_j log min(Σ_i a_ij, 1), where a_ij is the attention to position j of the source at step i (Wu et al.
2016, equation 14). Attention is that of the last decoder layer, the mean of its heads; it takes the explicit path.

Shapes: S sentences, K beams, N memory positions, H heads.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.data.batch import Sources
from regard.models.contracts import State, Step
from regard.models.encoder_decoder import EncoderDecoder
from regard.nn.sites import Site, watching

LEAST = 1e-6
"""No position counts as less covered: log 0 would make all outputs alike that leave a position out."""


@dataclass(frozen=True, slots=True)
class CoveringState:
    """Where rows stand, and how much each has attended to each position."""

    inner: State
    covered: Tensor  # (S, K, N)
    mask: Tensor  # (S, N)

    def select(self, sentences: Tensor | None, beams: Tensor) -> "CoveringState":
        places = torch.arange(len(self.mask)) if sentences is None else sentences
        return CoveringState(
            inner=self.inner.select(sentences, beams),
            covered=self.covered[places.unsqueeze(1), beams],
            mask=self.mask[places],
        )

    def join(self, other: "CoveringState") -> "CoveringState":
        width = max(self.mask.size(1), other.mask.size(1))
        return CoveringState(
            inner=self.inner.join(other.inner),
            covered=torch.cat([_wide(one.covered, width) for one in (self, other)]),
            mask=torch.cat([_wide(one.mask, width) for one in (self, other)]),
        )


def _wide(values: Tensor, width: int) -> Tensor:
    return torch.nn.functional.pad(values, (0, width - values.size(-1)))


class _Weights:
    """Watches the attention to the source; an attention may show its rows in several parts."""

    def __init__(self) -> None:
        self.layers: dict[int, list[Tensor]] = {}

    def watches(self, site: Site) -> bool:
        return site.part == "decoder" and site.kind == "cross"

    def visit(self, site: Site, value: Tensor) -> Tensor:
        self.layers.setdefault(site.layer, []).append(value)
        return value

    def last(self) -> Tensor | None:
        """The mean of the heads of the last layer: (S, K, N)."""
        return torch.cat(self.layers[max(self.layers)], dim=2).mean(1) if self.layers else None


class Covering:
    """An encoder-decoder as a scorer that tells coverage; one without attention tells none."""

    def __init__(self, system: EncoderDecoder) -> None:
        self.system = system
        self.vocabulary = system.vocabulary

    @property
    def longest(self) -> int | None:
        return self.system.longest

    def start(self, sources: Sources) -> CoveringState:
        memory = self.system.memory(sources)
        covered = memory.states.new_zeros(memory.mask.size(0), 1, memory.mask.size(1))
        return CoveringState(inner=self.system.decoder.start(memory), covered=covered, mask=memory.mask)

    def step(self, tokens: Tensor, state: State) -> Step:
        assert isinstance(state, CoveringState)
        watcher = _Weights()
        with watching(watcher):
            step = self.system.step(tokens, state.inner)
        covered = state.covered
        told = None
        weights = watcher.last()
        if weights is not None:
            covered = covered + _wide(weights, covered.size(2))
            told = covered.clamp(LEAST, 1.0).log().masked_fill(~state.mask.unsqueeze(1), 0.0).sum(2)  # (S, K)
        following = CoveringState(inner=step.state, covered=covered, mask=state.mask)
        return replace(step, state=following, coverage=told)
