"""The native engine as a scorer: it reads and says what may come next, and `regard.search` chooses.

So everything that search knows works with an engine file: groups, stochastic beams, traces. Other beams and samples do
not need it: the engine makes them by itself, without Python between steps (`run.native`).

Shapes: S sentences, K beams, V vocabulary, N source items.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.data.batch import Ids, Sources
from regard.engine import Engine, Session
from regard.models.contracts import State, Step
from regard.models.coverage import LEAST
from regard.search import SearchOptions


@dataclass(frozen=True, slots=True)
class NativeState:
    """Where rows stand: in which slots, and which rows of the step before they continue.

    A session knows the rows of its last step only, so a state is good for one step after the one that made it.
    """

    slots: tuple[int, ...]  # (S,)
    rows: Tensor  # (S, K); -1 at the beginning
    positions: tuple[int, ...]  # (S,) tokens that were read
    lengths: tuple[int, ...]  # (S,) items of the source
    covered: Tensor  # (S, K, N); N is 0 where coverage is not told

    def select(self, sentences: Tensor | None, beams: Tensor) -> "NativeState":
        places = torch.arange(len(self.slots)) if sentences is None else sentences
        chosen = places.tolist()
        return NativeState(
            slots=tuple(self.slots[place] for place in chosen),
            rows=self.rows[places.unsqueeze(1), beams],
            positions=tuple(self.positions[place] for place in chosen),
            lengths=tuple(self.lengths[place] for place in chosen),
            covered=self.covered[places.unsqueeze(1), beams],
        )

    def join(self, other: "NativeState") -> "NativeState":
        width = max(self.covered.size(2), other.covered.size(2))
        return NativeState(
            slots=self.slots + other.slots,
            rows=torch.cat((self.rows, other.rows)),
            positions=self.positions + other.positions,
            lengths=self.lengths + other.lengths,
            covered=torch.cat([_wide(one.covered, width) for one in (self, other)]),
        )


def _wide(values: Tensor, width: int) -> Tensor:
    return torch.nn.functional.pad(values, (0, width - values.size(-1)))


class NativeScorer:
    """One search with an engine. States are used once, one after the other, as `Search` does."""

    def __init__(self, engine: Engine, *, options: SearchOptions, capacity: int) -> None:
        beam = max(options.best if options.sample else options.beam, options.groups)
        self.session = Session(engine, slots=2 * capacity, beam=beam)
        self.vocabulary = engine.target_vocabulary
        self.longest = engine.longest
        self._covers = options.coverage_penalty > 0 and len(engine.attention_heads) > 0
        self._taken: set[int] = set()

    def start(self, sources: Sources) -> NativeState:
        source = sources["source"]
        if isinstance(source, Ids):
            ids = [row[mask].tolist() for row, mask in zip(source.ids[:, :, 0], source.mask, strict=True)]
        else:
            ids = [[] for _ in range(len(source.mask))]
        slots = self.session.start(ids)
        self._taken.update(slots)
        lengths = tuple(len(row) for row in ids)
        return NativeState(
            slots=tuple(slots),
            rows=torch.full((len(slots), 1), -1),
            positions=(0,) * len(slots),
            lengths=lengths,
            covered=torch.zeros(len(slots), 1, max(lengths) if self._covers else 0),
        )

    def step(self, tokens: Tensor, state: State) -> Step:
        assert isinstance(state, NativeState)
        for slot in self._taken.difference(state.slots):
            self.session.release(slot)
        self._taken.intersection_update(state.slots)
        sentences, beams = tokens.shape
        rows = np.empty((sentences, beams, 5), dtype=np.int32)
        rows[..., 0] = np.array(state.slots)[:, None]
        rows[..., 1] = state.rows.numpy()
        rows[..., 2] = np.arange(beams)
        rows[..., 3] = tokens.numpy()
        rows[..., 4] = np.array(state.positions)[:, None]
        longest = state.covered.size(2)
        logits, weights = self.session.step(rows.reshape(-1, 5), longest=longest)
        said = torch.log_softmax(torch.from_numpy(logits).view(sentences, beams, -1), -1)
        covered = state.covered + torch.from_numpy(weights).view(sentences, beams, longest)
        following = NativeState(
            slots=state.slots,
            rows=torch.arange(sentences * beams).view(sentences, beams),
            positions=tuple(position + 1 for position in state.positions),
            lengths=state.lengths,
            covered=covered,
        )
        return Step(logits=said, state=following, coverage=_told(following) if self._covers else None)


def _told(state: NativeState) -> Tensor:
    """log-coverage = Σ_j log min(Σ_i a_ij, 1), as `regard.models.coverage` has it: (S, K)."""
    real = torch.arange(state.covered.size(2)) < torch.tensor(state.lengths).unsqueeze(1)  # (S, N)
    return state.covered.clamp(LEAST, 1.0).log().masked_fill(~real.unsqueeze(1), 0.0).sum(2)
