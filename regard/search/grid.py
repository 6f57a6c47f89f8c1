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

    def listed(self) -> "list[list[Chosen]]":
        """The same as numbers, sentence by sentence."""
        parts = (self.values.tolist(), self.rows.tolist(), self.tokens.tolist())
        return [list(zip(*one, strict=True)) for one in zip(*parts, strict=True)]


Chosen = tuple[float, int, int]
"""The log-probability of the whole, the row that is continued, and the token."""


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
    values: list[list[float]]  # (S, K) log-probabilities, with what was added; -inf where a row is not in use
    tokens: Tensor  # (S, K) what each row reads next
    numbers: Tensor | None  # (S, K) the number each row was started with; None where that is the first of all

    @classmethod
    def start(cls, state: State, rows: Sequence[int]) -> "Grid":
        """The first rows of new sentences, so many for each; `state` has one row for each."""
        shape = (len(rows), max(rows))
        return cls(
            state=state if shape[1] == 1 else state.select(None, torch.zeros(shape, dtype=torch.long)),
            values=[[0.0] * used + [WORST] * (shape[1] - used) for used in rows],
            tokens=torch.full(shape, START),
            numbers=None if shape[1] == 1 else torch.arange(shape[1]).expand(shape),
        )

    @property
    def scores(self) -> Tensor:
        """The values as a tensor (S, K)."""
        return torch.tensor(self.values, dtype=torch.float64)

    @property
    def samples(self) -> Tensor:
        """(S, K) the number each row was started with."""
        return torch.zeros(self.tokens.shape, dtype=torch.long) if self.numbers is None else self.numbers

    def sample(self, sentence: int, row: int) -> int:
        """The number that a row was started with."""
        return 0 if self.numbers is None else int(self.numbers[sentence, row])

    def join(self, other: "Grid") -> "Grid":
        """The sentences of both; the narrower grid gets rows that are not in use."""
        beams = max(self.tokens.size(1), other.tokens.size(1))
        one, another = self._widen(beams), other._widen(beams)
        first = one.numbers is None and another.numbers is None
        return Grid(
            state=one.state.join(another.state),
            values=one.values + another.values,
            tokens=torch.cat((one.tokens, another.tokens)),
            numbers=None if first else torch.cat((one.samples, another.samples)),
        )

    def _widen(self, beams: int) -> "Grid":
        sentences, present = self.tokens.shape
        if present == beams:
            return self
        rows = torch.arange(beams).clamp(max=present - 1).expand(sentences, -1)
        return Grid(
            state=self.state.select(None, rows),
            values=[one + [WORST] * (beams - present) for one in self.values],
            tokens=self.tokens.gather(1, rows),
            numbers=None if self.numbers is None else self.numbers.gather(1, rows),
        )

    def advance(self, state: State, taken: Sequence[Taken]) -> "Grid":
        """The grid after a step; `state` is where its rows stand then."""
        present = self.tokens.size(1)
        width = max(1, *(len(one.rows) for one in taken))
        filled = [(one, width - len(one.rows)) for one in taken]
        numbers = self.numbers
        if width != present or any(one.rows != list(range(present)) for one in taken):
            rows = torch.tensor([one.rows + [0] * empty for one, empty in filled])
            state = state.select(None, rows)
            numbers = None if numbers is None else numbers.gather(1, rows)
        return Grid(
            state=state,
            values=[one.values + [WORST] * empty for one, empty in filled],
            tokens=torch.tensor([one.tokens + [PAD] * empty for one, empty in filled]),
            numbers=numbers,
        )

    def keep(self, sentences: Sequence[int]) -> "Grid":
        """These sentences only, with no more rows than they need."""
        places = torch.tensor(sentences)
        kept = [self.values[place] for place in sentences]
        beams = max(1, *(sum(value > WORST for value in one) for one in kept))
        return Grid(
            state=self.state.select(places, torch.arange(beams).expand(len(sentences), -1)),
            values=[one[:beams] for one in kept],
            tokens=self.tokens[places, :beams],
            numbers=None if self.numbers is None else self.numbers[places, :beams],
        )
