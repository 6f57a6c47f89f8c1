"""What is not a sequence: attributes (a topic, a speaker, a sentiment), attributes beside a text, and nothing at all.

Shapes: B rows, F attributes, N positions of a memory, D width of an attribute, C memory width, S summary width.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.data.batch import Category, Source
from regard.models.contracts import Encoder
from regard.models.memory import Memory, unit_spans
from regard.nn import Site, StateSize, dropout, visit


class CategoryEncoder(Encoder):
    """Attributes as vectors, one position of the memory for each; unknown ones are masked.

    The summary is the sum of the known attributes' vectors, so it is one vector of one width whichever are known.
    """

    def __init__(self, *, tables: Sequence[nn.Parameter], dropout: float) -> None:
        super().__init__()
        widths = [table.size(1) for table in tables]
        if not widths:
            raise ValueError("there are no attributes to encode; what reads nothing is NoSource")
        if len(set(widths)) > 1:
            raise ValueError(f"the tables of all attributes must have one width, and these have {widths}")
        self.tables = nn.ParameterList(tables)
        self.dropout = dropout
        self.memory_width = self.summary_width = width = widths[0]
        self.finals = StateSize(layers=1, parts=1, width=width)

    def encode(self, source: Source) -> Memory:
        assert isinstance(source, Category)
        return self.read(source, Site("encoder", "embedding"))

    def read(self, source: Category, site: Site) -> Memory:
        """The same, with the vectors shown at a site of the caller's choice."""
        assert source.values.size(1) == len(self.tables), "a source with more or fewer attributes than tables"
        vectors = [functional.embedding(source.values[:, index], table) for index, table in enumerate(self.tables)]
        embedded = visit(site, torch.stack(vectors, dim=1))  # (B, F, D)
        states = dropout(embedded, self.dropout, self.training)
        summary = states.masked_fill(~source.mask.unsqueeze(-1), 0.0).sum(1)  # (B, D)
        return Memory(
            states=states,
            mask=source.mask,
            summary=summary,
            spans=unit_spans(source.mask),
            layers=(summary.unsqueeze(1),),
        )


class NoSource(Encoder):
    """What a plain language model reads: a memory without positions.

    There are no final states. The summary is the number 1 in every row: something of a width, that says nothing.
    """

    one: Tensor

    def __init__(self, *, width: int) -> None:
        super().__init__()
        self.memory_width = width
        self.summary_width = 1
        self.register_buffer("one", torch.ones(1), persistent=False)

    def encode(self, source: Source) -> Memory:
        assert isinstance(source, Category)
        assert source.values.size(1) == 0, "a source with attributes for a model that reads none"
        return Memory(
            states=self.one.new_zeros(*source.values.shape, self.memory_width),  # (B, 0, C)
            mask=source.mask,
            summary=self.one.expand(len(source.values), 1),
            spans=unit_spans(source.mask),
        )


class AttributeJoin(nn.Module):
    """Puts the attributes of a row in front of the memory of its text, so that a decoder can attend to both.

    Attributes of another width than the memory are projected, and so is their sum. They are shown at
    `encoder.embedding` of layer 1; layer 0 is the text.
    """

    def __init__(self, category: CategoryEncoder, memory_width: int) -> None:
        super().__init__()
        self.category = category
        self.memory_width = memory_width
        same = category.memory_width == memory_width
        self.project = nn.Identity() if same else nn.Linear(category.memory_width, memory_width, bias=False)

    def summary_width(self, text: int) -> int:
        """Of the joined memory, for a text whose summary is so wide."""
        return text + self.memory_width

    def forward(self, memory: Memory, source: Category) -> Memory:
        own = self.category.read(source, Site("encoder", "embedding", 1))
        return join_attributes(memory, replace(own, states=self.project(own.states), summary=self.project(own.summary)))


def join_attributes(memory: Memory, attributes: Memory) -> Memory:
    """One memory of two of the same width, attributes first; their summaries stand side by side, the text's first.

    An attribute stands for no item of the text, so its span is empty. Final states are those of the text.
    """
    return Memory(
        states=torch.cat((attributes.states, memory.states), dim=1),
        mask=torch.cat((attributes.mask, memory.mask), dim=1),
        summary=torch.cat((memory.summary, attributes.summary), dim=-1),
        spans=torch.cat((torch.zeros_like(attributes.spans), memory.spans), dim=1),
        layers=memory.layers,
    )
