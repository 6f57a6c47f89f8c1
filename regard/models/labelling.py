"""Shapes that read a source and write no sequence: the acceptor, the transducer and the masked language model.

Shapes: B rows, N source items, M places that can be asked about, R of them that are, V vocabulary, D width.
"""

import math
from abc import abstractmethod
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.data.batch import Batch, Sources
from regard.models.contracts import Encoder, Joining, Loss, System
from regard.models.likelihood import chosen_log_probabilities, likelihood_loss
from regard.models.memory import Memory
from regard.nn import Projection, dropout
from regard.special import FIRST_FREE

HALF_LOG_2_PI = 0.5 * math.log(2 * math.pi)


class Labelling(System):
    """An encoder, and a distribution over the items of a vocabulary at each place.

    The reserved ids are no items: nothing is ever answered with them, so they have no part in the distribution. Their
    rows of the output stay where they are, so that an id is the number of its row.
    """

    @abstractmethod
    def places(self, memory: Memory) -> Tensor:
        """What can be asked about: (B, M, D)."""

    @abstractmethod
    def projection(self, hidden: Tensor) -> Projection:
        """(..., D) → logits (..., V) to be made."""

    def of_items(self, hidden: Tensor) -> Projection:
        """Of items alone: (..., D) → logits (..., V - FIRST_FREE) to be made."""
        whole = self.projection(hidden)
        bias = None if whole.bias is None else whole.bias[FIRST_FREE:]
        return Projection(whole.features, whole.weight[FIRST_FREE:], bias)

    def asked(self, batch: Batch) -> Batch:
        """A batch whose outputs are counted from the first item; no place is asked for what is no item."""
        return replace(batch, outputs=batch.outputs - FIRST_FREE, mask=batch.mask & (batch.outputs >= FIRST_FREE))

    def loss(self, batch: Batch, *, smoothing: float = 0.0) -> Loss:
        return likelihood_loss(self.places(self.memory(batch.sources)), self.of_items, self.asked(batch), smoothing)

    def token_log_probabilities(self, batch: Batch) -> Tensor:
        return chosen_log_probabilities(self.places(self.memory(batch.sources)), self.of_items, self.asked(batch))

    def distribution(self, batch: Batch) -> Projection:
        return self.of_items(self.places(self.memory(batch.sources))[self.asked(batch).mask])

    def labels(self, batch: Batch) -> Tensor:
        asked = self.asked(batch)
        return asked.outputs[asked.mask]

    def log_probabilities(self, sources: Sources) -> Tensor:
        """What is said at every place: (B, M, V); of reserved ids that they cannot be."""
        said = self.of_items(self.places(self.memory(sources))).logits().log_softmax(-1)
        return functional.pad(said, (FIRST_FREE, 0), value=-math.inf)


class Acceptor(Labelling):
    """n → 1: one answer, p(y | x) ∝ exp(W · summary + b).

    The summary is the final state of a recurrent encoder, the mean of the states of a Transformer.
    """

    def __init__(
        self,
        *,
        encoder: Encoder,
        summary_width: int,
        answers: int,
        dropout: float,
        attributes: Joining | None = None,
    ) -> None:
        super().__init__(encoder=encoder, attributes=attributes)
        self.dropout = dropout
        self.head = nn.Linear(summary_width, answers)

    def places(self, memory: Memory) -> Tensor:
        return dropout(memory.summary, self.dropout, self.training).unsqueeze(1)

    def projection(self, hidden: Tensor) -> Projection:
        return Projection(hidden, self.head.weight, self.head.bias)


class Rater(Acceptor):
    """n → 1, the answer being a number: y = w · summary + b, learned by its squared error.

    Its likelihood is that of a normal distribution around y with a variance of 1.
    """

    def __init__(
        self, *, encoder: Encoder, summary_width: int, dropout: float, attributes: Joining | None = None
    ) -> None:
        super().__init__(
            encoder=encoder, summary_width=summary_width, answers=1, dropout=dropout, attributes=attributes
        )

    def numbers(self, sources: Sources) -> Tensor:
        """An answer for each row: (B, 1)."""
        return self.projection(self.places(self.memory(sources))).logits().squeeze(-1)

    def loss(self, batch: Batch, *, smoothing: float = 0.0) -> Loss:  # noqa: ARG002
        total = 0.5 * (self.numbers(batch.sources) - batch.outputs).square().sum()
        return Loss(sum=total, count=batch.rows, parts={"likelihood": total.detach() + batch.rows * HALF_LOG_2_PI})

    def token_log_probabilities(self, batch: Batch) -> Tensor:
        return -0.5 * (self.numbers(batch.sources) - batch.outputs).square() - HALF_LOG_2_PI

    def distribution(self, batch: Batch) -> Projection:
        return System.distribution(self, batch)

    def labels(self, batch: Batch) -> Tensor:
        return System.labels(self, batch)


class Transducer(Labelling):
    """n → n: an answer at each item, p(y_i | x) ∝ exp(W h_i + b). Of a one-way encoder h_i has read x_1 … x_i only."""

    def __init__(self, *, encoder: Encoder, answers: int, dropout: float) -> None:
        super().__init__(encoder=encoder)
        self.dropout = dropout
        self.head = nn.Linear(encoder.memory_width, answers)

    def places(self, memory: Memory) -> Tensor:
        return dropout(in_source_order(memory), self.dropout, self.training)

    def projection(self, hidden: Tensor) -> Projection:
        return Projection(hidden, self.head.weight, self.head.bias)


class MaskedLanguageModel(Labelling):
    """Says what stood where an item is hidden, from both sides of it (Devlin et al. 2019).

    p(x_i | x̂) ∝ exp(E · LayerNorm(GELU(W h_i + b)) + c), E being the embeddings unless they are kept apart.
    """

    def __init__(self, *, encoder: Encoder, output: nn.Linear, norm_epsilon: float = 1e-5) -> None:
        super().__init__(encoder=encoder)
        self.dense = nn.Linear(encoder.memory_width, output.in_features)
        self.norm = nn.LayerNorm(output.in_features, eps=norm_epsilon)
        self.output = output
        self.bias = nn.Parameter(torch.zeros(output.out_features))

    def places(self, memory: Memory) -> Tensor:
        return in_source_order(memory)

    def projection(self, hidden: Tensor) -> Projection:
        return Projection(self.norm(functional.gelu(self.dense(hidden))), self.output.weight, self.bias)


def in_source_order(memory: Memory) -> Tensor:
    """The states of a memory with a position for each item, in the order of the source, whichever way it was read."""
    order = memory.spans[..., 0].argsort(1)  # (B, N)
    return memory.states.gather(1, order.unsqueeze(-1).expand_as(memory.states))
