"""The rows of all running sentences, and how they are continued.

Shapes: S sentences, K beams, C continuations of a sentence.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

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
class Taken:
    """The rows of one sentence after a step: which rows they continue, and with what; only those in use.

    Chains of these are the histories of rows; they are followed when an output is there.
    """

    values: list[float]  # log-probabilities of the whole, with what was added
    rows: list[int]
    tokens: list[int]
    added: list[float] | None = None  # what a language model adds to each token


@dataclass(frozen=True, slots=True)
class Grid:
    """The rows of all running sentences; of each sentence those in use stand first."""

    state: State
    scores: Tensor  # (S, K) log-probabilities, with what was added; -inf where a row is not in use
    samples: Tensor  # (S, K) the number each row was started with
    tokens: Tensor  # (S, K) what each row reads next

    @classmethod
    def start(cls, state: State, rows: Sequence[int]) -> "Grid":
        """The first rows of new sentences, so many for each; `state` has one row for each."""
        shape = (len(rows), max(rows))
        samples = torch.arange(shape[1]).expand(shape)
        return cls(
            state=state if shape[1] == 1 else state.select(None, torch.zeros(shape, dtype=torch.long)),
            scores=torch.zeros(shape, dtype=torch.float64).where(samples < torch.tensor(rows).unsqueeze(1), WORST),
            samples=samples,
            tokens=torch.full(shape, START),
        )

    def join(self, other: "Grid") -> "Grid":
        """The sentences of both; the narrower grid gets rows that are not in use."""
        beams = max(self.scores.size(1), other.scores.size(1))
        one, another = self._widen(beams), other._widen(beams)
        return Grid(
            state=one.state.join(another.state),
            scores=torch.cat((one.scores, another.scores)),
            samples=torch.cat((one.samples, another.samples)),
            tokens=torch.cat((one.tokens, another.tokens)),
        )

    def _widen(self, beams: int) -> "Grid":
        sentences, present = self.scores.shape
        if present == beams:
            return self
        rows = torch.arange(beams).clamp(max=present - 1).expand(sentences, -1)
        scores = self.scores.gather(1, rows)
        scores[:, present:] = WORST
        return Grid(
            state=self.state.select(None, rows),
            scores=scores,
            samples=self.samples.gather(1, rows),
            tokens=self.tokens.gather(1, rows),
        )

    def advance(self, state: State, taken: Sequence[Taken]) -> "Grid":
        """The grid after a step; `state` is where its rows stand then."""
        present = self.scores.size(1)
        width = max(1, *(len(one.rows) for one in taken))
        missing = [width - len(one.rows) for one in taken]
        filled = list(zip(taken, missing, strict=True))
        rows = torch.tensor([one.rows + [0] * empty for one, empty in filled])
        moved = width != present or any(one.rows != list(range(present)) for one in taken)
        return Grid(
            state=state.select(None, rows) if moved else state,
            scores=torch.tensor([one.values + [WORST] * empty for one, empty in filled], dtype=torch.float64),
            samples=self.samples.gather(1, rows) if moved else self.samples,
            tokens=torch.tensor([one.tokens + [PAD] * empty for one, empty in filled]),
        )

    def keep(self, sentences: Sequence[int]) -> "Grid":
        """These sentences only, with no more rows than they need."""
        places = torch.tensor(sentences)
        scores = self.scores[places]
        beams = max(1, int((scores > WORST).sum(1).max()))
        return Grid(
            state=self.state.select(places, torch.arange(beams).expand(len(sentences), -1)),
            scores=scores[:, :beams],
            samples=self.samples[places, :beams],
            tokens=self.tokens[places, :beams],
        )
