"""The interfaces between encoders, decoders, whole systems and search.

Encode, attend, predict: every system is a choice of parts behind these few types. What training sees of a model is
`System.loss`; what search sees of it is a `Scorer`.

Shapes: B rows, S sentences, K beams, M target items, N source items, V vocabulary, D width.
Rows under search form a grid (S, K): memory is kept once per sentence, everything else once per row.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, Self

import torch
from torch import Tensor, nn

from regard.data.batch import Batch, Source, Sources
from regard.errors import ModelError
from regard.models.memory import Memory
from regard.nn import Projection, StateSize
from regard.nn.kept import Kept, Product, is_fixed
from regard.nn.packed import Packed, packs
from regard.nn.plain import is_plain, is_whole

FEW: Final = 512
"""Rows up to which the output is made faster by weights that are laid out anew."""


class State(Protocol):
    """Where the rows of a grid stand. States are values: `select` and `join` give new ones."""

    def select(self, sentences: Tensor | None, beams: Tensor) -> Self:
        """The grid whose row (s, k) continues row (sentences[s], beams[s, k]) of this one.

        `sentences` (S',) may be left out when all stay in place; `beams` is (S', K').
        """
        ...

    def join(self, other: Self) -> Self:
        """The sentences of both grids, which must have the same number of beams."""
        ...


@dataclass(frozen=True, slots=True)
class Step:
    """What a scorer says after reading one more token in each row: log p = logits - normaliser.

    The difference is made for all tokens only where somebody needs it: a beam looks at a few of them.
    """

    logits: Tensor  # (S, K, V)
    state: State
    normaliser: Tensor | None = None  # (S, K); None where the logits are log-probabilities
    largest: Tensor | None = None  # (S, K, blocks) the largest logits in blocks of the vocabulary, where they are known
    coverage: Tensor | None = None  # (S, K) log-coverage of the source so far, where a scorer tells it; at most 0
    fusion: Tensor | None = None  # (S, K, V) what a language model adds to the choice, weighted; at most 0

    @property
    def log_probabilities(self) -> Tensor:
        """(S, K, V)."""
        return self.logits if self.normaliser is None else self.logits - self.normaliser.unsqueeze(2)


class Scorer(Protocol):
    """All that search sees of a model. Search never renormalises what it says."""

    @property
    def vocabulary(self) -> int: ...

    @property
    def longest(self) -> int | None:
        """The most tokens a row may read, START included; None where there is no such limit."""
        ...

    def start(self, sources: Sources) -> State:
        """One row for each sentence, before the first token."""
        ...

    def step(self, tokens: Tensor, state: State) -> Step:
        """Read one token in each row (S, K) and say what may come next."""
        ...


class Encoder(nn.Module, ABC):
    """Reads a source."""

    memory_width: int
    summary_width: int
    finals: StateSize | None = None  # of `Memory.layers`, where there are final states

    @abstractmethod
    def encode(self, source: Source) -> Memory: ...


class Decoder(nn.Module, ABC):
    """Writes a target, given a memory."""

    parallel = False
    """Whether no step waits for the one before it when the inputs are given: the inputs of training are mixed with own
    outputs in two passes where it is so, and step by step where it is not."""

    output: nn.Linear

    def __init__(self) -> None:
        super().__init__()
        self._turned: Kept[Product] = Kept()
        self._packed: Kept[Packed] = Kept()

    @property
    def longest(self) -> int | None:
        """The most tokens it can read, START included; None where there is no such limit."""
        return None

    @abstractmethod
    def hidden(self, memory: Memory, inputs: Tensor) -> Tensor:
        """All steps at once, teacher-forced: (B, M) → (B, M, D)."""

    def projection(self, hidden: Tensor) -> Projection:
        """(..., D) → logits (..., V) to be made, apart from `hidden` so that loss and search can work in chunks."""
        return Projection(hidden, self.output.weight, self.output.bias)

    def logits(self, hidden: Tensor) -> Tensor:
        """(..., D) → (..., V)."""
        return self.projection(hidden).logits()

    def said(self, hidden: Tensor) -> Tensor:
        """The logits of a step under search: (S, K, D) → (S, K, V)."""
        sentences, beams, width = hidden.shape
        if not is_fixed(self) or not is_plain(self.output, nn.Linear) or not is_whole(self.output):
            return self.logits(hidden)
        product: Product | Packed
        if hidden.dtype is torch.float32 and packs(self.output.weight):
            product = self._packed.get(self.output, lambda: Packed.of(self.output.weight, self.output.bias))
        elif sentences * beams <= FEW and hidden.dtype.itemsize >= torch.float32.itemsize:
            product = self._turned.get(self.output, lambda: Product.of(self.output))
        else:
            return self.logits(hidden)
        return product(hidden.reshape(-1, width)).view(sentences, beams, -1)

    def train(self, mode: bool = True) -> Self:
        """Forgets what was laid out for search."""
        self._turned.forget()
        self._packed.forget()
        return super().train(mode)

    @abstractmethod
    def start(self, memory: Memory) -> State:
        """A grid of one row per sentence."""

    @abstractmethod
    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """One more token in each row: (S, K) → hidden (S, K, D)."""


@dataclass(frozen=True, slots=True)
class Loss:
    """A sum over target tokens, with the count it is to be divided by."""

    sum: Tensor
    count: int
    parts: Mapping[str, Tensor] = field(default_factory=dict)


class Joining(Protocol):
    """Puts attributes of the rows into a memory."""

    def __call__(self, memory: Memory, attributes: Source) -> Memory: ...


class System(nn.Module, ABC):
    """The object with weights. A shape of model is a loss, and a scorer or answers."""

    def __init__(self, *, encoder: Encoder, attributes: Joining | None = None) -> None:
        super().__init__()
        self.encoder = encoder
        self.attributes = attributes

    def memory(self, sources: Sources) -> Memory:
        """What is known of the sources: what the encoder reads, and attributes beside it where there are any."""
        memory = self.encoder.encode(sources["source"])
        return memory if self.attributes is None else self.attributes(memory, sources["attributes"])

    @abstractmethod
    def loss(self, batch: Batch, *, smoothing: float = 0.0) -> Loss:
        """All that the training loop sees. `parts["likelihood"]` is the negative log-likelihood in nats."""

    @abstractmethod
    def token_log_probabilities(self, batch: Batch) -> Tensor:
        """log p of what is to be predicted, given all before it: (B, M), 0 at padding."""

    def distribution(self, batch: Batch) -> Projection:  # noqa: ARG002
        """Logits to be made of everything that could stand at the R places that are asked about: (R, V), row by row."""
        raise ModelError(
            f"{type(self).__name__} gives no distribution over a vocabulary, so there are none to compare: leave "
            "`training.objective.rdrop` out"
        )

    def log_distribution(self, batch: Batch) -> Tensor:
        """log p of the same, all of it: (R, V)."""
        return self.distribution(batch).logits().log_softmax(-1)

    def labels(self, batch: Batch) -> Tensor:
        """What stands at these places, as columns of that: (R,)."""
        return batch.outputs[batch.mask]
