"""A scorer made of random tables, and searches over it that are slow, plain and certainly right.

Shapes: S sentences, K beams, V vocabulary, P digests of a history.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.data.batch import Category, Sources
from regard.models import State, Step
from regard.search import SearchOptions
from regard.special import END, PAD, START, UNKNOWN

DIGESTS = 101


@dataclass(frozen=True, slots=True)
class MarkovState:
    """Which table each sentence uses, and a digest of what each row has read, so that mixed-up rows are found out."""

    tables: Tensor  # (S,)
    digests: Tensor  # (S, K)

    def select(self, sentences: Tensor | None, beams: Tensor) -> "MarkovState":
        places = torch.arange(len(self.tables)) if sentences is None else sentences
        return MarkovState(tables=self.tables[places], digests=self.digests[places.unsqueeze(1), beams])

    def join(self, other: "MarkovState") -> "MarkovState":
        assert self.digests.size(1) == other.digests.size(1), "grids of different widths"
        return MarkovState(
            tables=torch.cat((self.tables, other.tables)), digests=torch.cat((self.digests, other.digests))
        )


class Markov:
    """log p(y_i | y_{<i}, x) = table[x, digest of y_{<i}, y_{i-1}, y_i]."""

    def __init__(
        self, *, vocabulary: int, seed: int = 0, tables: int = 1, spread: float = 2.0, end: float = 0.0
    ) -> None:
        generator = torch.Generator().manual_seed(seed)
        shape = (tables, DIGESTS, vocabulary, vocabulary)
        logits = torch.randn(shape, generator=generator, dtype=torch.float64) * spread
        logits[..., END] += end
        self.table = logits.log_softmax(-1)
        self.vocabulary = vocabulary
        self.longest: int | None = None
        self.steps = 0

    def start(self, sources: Sources) -> MarkovState:
        source = sources["source"]
        assert isinstance(source, Category)
        return MarkovState(tables=source.values[:, 0], digests=torch.zeros(len(source.values), 1, dtype=torch.long))

    def step(self, tokens: Tensor, state: State) -> Step:
        assert isinstance(state, MarkovState)
        assert tokens.shape == state.digests.shape, "tokens and state of different grids"
        self.steps += 1
        log_probabilities = self.table[state.tables.unsqueeze(1), state.digests, tokens]
        digests = (3 * state.digests + tokens) % DIGESTS
        return Step(logits=log_probabilities, state=MarkovState(tables=state.tables, digests=digests))

    def following(self, table: int) -> Callable[[tuple[int, ...]], list[float]]:
        """log p(· | tokens), looked up without any state."""

        def look_up(tokens: tuple[int, ...]) -> list[float]:
            read = (START, *tokens)
            digest = 0
            for token in read[:-1]:
                digest = (3 * digest + token) % DIGESTS
            return self.table[table, digest, read[-1]].tolist()

        return look_up


def which(table: int) -> Sources:
    """The source of one sentence."""
    return {"source": Category(values=torch.tensor([[table]]), mask=torch.ones(1, 1, dtype=torch.bool))}


@dataclass(frozen=True, slots=True)
class Found:
    """A hypothesis of a plain search."""

    tokens: tuple[int, ...]
    steps: tuple[float, ...]
    complete: bool

    @property
    def log_probability(self) -> float:
        return math.fsum(self.steps)

    def score(self, penalty: float) -> float:
        return self.log_probability / len(self.steps) ** penalty


def permitted(vocabulary: int, options: SearchOptions) -> list[int]:
    """Words that may come out, END apart."""
    never = {PAD, START, END} if options.unknown else {PAD, START, END, UNKNOWN}
    return [token for token in range(vocabulary) if token not in never]


def every_output(words: Sequence[int], limit: int) -> list[tuple[int, ...]]:
    """All outputs that end within `limit` tokens, END included."""
    outputs: list[tuple[int, ...]] = []
    prefixes: list[tuple[int, ...]] = [()]
    for _ in range(limit):
        outputs += prefixes
        prefixes = [(*prefix, word) for prefix in prefixes for word in words]
    return outputs


def plain_beam(
    following: Callable[[tuple[int, ...]], list[float]], vocabulary: int, options: SearchOptions, limit: int
) -> list[Found]:
    """Beam search by the book, which never stops before the limit.

    Of all continuations the K best are kept; those that end leave the beam, the others go on.
    """
    tokens = [*permitted(vocabulary, options), END]
    running = [Found(tokens=(), steps=(), complete=False)]
    done: list[Found] = []
    for _ in range(limit):
        continued: list[tuple[float, Found, int]] = []
        for row in running:
            said = following(row.tokens)
            continued += [
                (row.log_probability + said[token], Found(row.tokens, (*row.steps, said[token]), False), token)
                for token in tokens
            ]
        continued.sort(key=lambda one: -one[0])
        running = []
        for _, row, token in continued[: options.beam]:
            if token == END:
                done.append(Found(row.tokens, row.steps, True))
            else:
                running.append(Found((*row.tokens, token), row.steps, False))
    found = done or running
    return sorted(found, key=lambda one: -one.score(options.length_penalty))[: options.best]
