"""The rows of all running sentences, and how they are continued.

Shapes: S sentences, K beams, C continuations of a sentence, T tokens so far.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.models.contracts import State
from regard.special import PAD, START

WORST = -math.inf


@dataclass(frozen=True, slots=True)
class Continuations:
    """For each sentence of a grid, rows of it with one more token each."""

    values: Tensor  # (S, C) log-probabilities of the whole; -inf where there is none
    rows: Tensor  # (S, C) the row that is continued
    tokens: Tensor  # (S, C)

    def in_use_first(self) -> "Continuations":
        """Without the places that no sentence uses; the order of the others stays."""
        unused = self.values == WORST
        count = max(1, self.values.size(1) - int(unused.sum(1).min()))
        order = unused.int().sort(dim=1, stable=True).indices[:, :count]
        return Continuations(*(one.gather(1, order) for one in (self.values, self.rows, self.tokens)))


def merge(parts: Sequence[tuple[Tensor, Continuations]]) -> Continuations:
    """One for all sentences, from continuations of some each: (S',), (S', C')."""
    sentences = sum(len(places) for places, _ in parts)
    widest = max(1, *(part.values.size(1) for _, part in parts))
    values = torch.full((sentences, widest), WORST, dtype=torch.float64)
    rows = torch.zeros(sentences, widest, dtype=torch.long)
    tokens = torch.full((sentences, widest), PAD)
    for places, part in parts:
        width = part.values.size(1)
        values[places, :width], rows[places, :width], tokens[places, :width] = part.values, part.rows, part.tokens
    return Continuations(values=values, rows=rows, tokens=tokens)


@dataclass(frozen=True, slots=True)
class Grid:
    """The rows of all running sentences; of each sentence those in use stand first.

    Histories are aligned at the end, like the caches of a state.
    """

    state: State
    scores: Tensor  # (S, K) log-probabilities, with what was added; -inf where a row is not in use
    samples: Tensor  # (S, K) the number each row was started with
    tokens: Tensor  # (S, K, T)
    steps: Tensor  # (S, K, T) log-probability of each token; anything where a row is not in use
    added: Tensor  # (S, K, T) what a language model adds to each

    @classmethod
    def start(cls, state: State, rows: Sequence[int]) -> "Grid":
        """The first rows of new sentences, so many for each; `state` has one row for each."""
        shape = (len(rows), max(rows))
        samples = torch.arange(shape[1]).expand(shape)
        return cls(
            state=state if shape[1] == 1 else state.select(None, torch.zeros(shape, dtype=torch.long)),
            scores=torch.zeros(shape, dtype=torch.float64).where(samples < torch.tensor(rows).unsqueeze(1), WORST),
            samples=samples,
            tokens=torch.full((*shape, 1), START),
            steps=torch.zeros((*shape, 1), dtype=torch.float64),
            added=torch.zeros((*shape, 1), dtype=torch.float64),
        )

    def select(self, sentences: Tensor | None, beams: Tensor) -> "Grid":
        rows = (torch.arange(len(beams)) if sentences is None else sentences).unsqueeze(1)
        return Grid(
            state=self.state.select(sentences, beams),
            scores=self.scores[rows, beams],
            samples=self.samples[rows, beams],
            tokens=self.tokens[rows, beams],
            steps=self.steps[rows, beams],
            added=self.added[rows, beams],
        )

    def join(self, other: "Grid") -> "Grid":
        """The sentences of both; the narrower grid gets rows that are not in use."""
        beams = max(self.scores.size(1), other.scores.size(1))
        one, another = self._widen(beams), other._widen(beams)
        length = max(one.tokens.size(2), another.tokens.size(2))
        pairs = ((one.tokens, another.tokens), (one.steps, another.steps), (one.added, another.added))
        tokens, steps, added = (torch.cat((_front(first, length), _front(second, length))) for first, second in pairs)
        return Grid(
            state=one.state.join(another.state),
            scores=torch.cat((one.scores, another.scores)),
            samples=torch.cat((one.samples, another.samples)),
            tokens=tokens,
            steps=steps,
            added=added,
        )

    def _widen(self, beams: int) -> "Grid":
        sentences, present = self.scores.shape
        if present == beams:
            return self
        wide = self.select(None, torch.arange(beams).clamp(max=present - 1).expand(sentences, -1))
        wide.scores[:, present:] = WORST
        return wide

    def advance(self, state: State, chosen: Continuations, fusion: Tensor | None = None) -> "Grid":
        """The grid after a step; `state` is where its rows stand then, `fusion` (S, K, V) what was added."""
        moved = replace(self, state=state)
        if not torch.equal(chosen.rows, torch.arange(self.scores.size(1)).expand(len(chosen.rows), -1)):
            moved = moved.select(None, chosen.rows)
        said = (chosen.values - moved.scores).nan_to_num(0.0)
        added = torch.zeros_like(said)
        if fusion is not None:
            sentences = torch.arange(len(fusion)).unsqueeze(1)
            added = fusion[sentences, chosen.rows, chosen.tokens].double().nan_to_num(0.0)
        return Grid(
            state=moved.state,
            scores=chosen.values,
            samples=moved.samples,
            tokens=torch.cat((moved.tokens, chosen.tokens.unsqueeze(2)), dim=2),
            steps=torch.cat((moved.steps, (said - added).unsqueeze(2)), dim=2),
            added=torch.cat((moved.added, added.unsqueeze(2)), dim=2),
        )

    def keep(self, sentences: Sequence[int], length: int) -> "Grid":
        """These sentences only, with no more rows and no longer histories than they need."""
        places = torch.tensor(sentences)
        beams = max(1, int((self.scores[places] > WORST).sum(1).max()))
        grid = self.select(places, torch.arange(beams).expand(len(sentences), -1))
        last = slice(-length, None)
        return replace(grid, tokens=grid.tokens[..., last], steps=grid.steps[..., last], added=grid.added[..., last])


def _front(rows: Tensor, length: int) -> Tensor:
    return torch.nn.functional.pad(rows, (length - rows.size(2), 0))
