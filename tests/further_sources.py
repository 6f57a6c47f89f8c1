"""Small systems over sources that are not plain text, for the tests of models and search.

Each kind of source has five rows of different sizes; every decoder that fits a kind is built on it.
"""

from collections.abc import Sequence

import torch
from torch import nn

from regard.data.batch import Category, Ids, Image, Source, Sources, join_sources
from regard.models import (
    AttributeJoin,
    BagEncoder,
    CategoryEncoder,
    ConvolutionEncoder,
    Decoder,
    Encoder,
    Memory,
    NoSource,
    RecurrentEncoder,
    TransformerEncoder,
)
from regard.nn import Embedding, FactoredEmbedding, Recurrent, embedding_table
from tests.families import (
    bahdanau_decoder,
    every_step_decoder,
    initial_decoder,
    luong_decoder,
    transformer_decoder,
)

VOCABULARY = 9
ROWS = 5
KINDS = (
    "category",
    "nothing",
    "image",
    "normed image",
    "text and category",
    "text and wide category",
    "factors to rnn",
    "factors to transformer",
    "factors to bag",
)
DECODERS = ("bahdanau", "luong", "luong local", "transformer", "handed", "transformed", "every step")
HANDED = ("category", "text and category", "factors to rnn", "factors to bag")  # kinds with final states
CASES = tuple((kind, decoder) for kind in KINDS for decoder in DECODERS if decoder != "handed" or kind in HANDED)


class Reading(Encoder):
    """Any encoder, and attributes beside it where the source has them; all that differs between the kinds."""

    def __init__(self, encoder: Encoder, join: AttributeJoin | None) -> None:
        super().__init__()
        self.encoder = encoder
        self.join = join
        self.memory_width = encoder.memory_width
        self.summary_width = encoder.summary_width if join is None else join.summary_width(encoder.summary_width)
        self.finals = encoder.finals

    def encode(self, source: Source) -> Memory:
        return self.encoder.encode(source)

    def read(self, sources: Sources) -> Memory:
        memory = self.encode(sources["source"])
        if self.join is None:
            return memory
        attributes = sources["attributes"]
        assert isinstance(attributes, Category)
        joined = self.join(memory, attributes)
        assert isinstance(joined, Memory)
        return joined


class Reader(nn.Module):
    """An encoder and a decoder, with their weights."""

    def __init__(self, *, encoder: Reading, decoder: Decoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder


def encoder_of(kind: str, dropout: float) -> Reading:
    tables = [embedding_table(6, 6) for _ in range(3)]
    factored = FactoredEmbedding(
        weight=embedding_table(VOCABULARY, 3),
        factors=[embedding_table(5, 2), embedding_table(4, 1)],
        combine="concat",
        scaled=False,
    )
    match kind:
        case "category":
            return Reading(CategoryEncoder(tables=tables, dropout=dropout), None)
        case "nothing":
            return Reading(NoSource(width=5), None)
        case "image" | "normed image":
            groups = 2 if kind == "normed image" else None
            return Reading(
                ConvolutionEncoder(channels=2, width=6, layers=3, dropout=dropout, halvings=2, groups=groups), None
            )
        case "text and category" | "text and wide category":
            plain = Embedding(weight=embedding_table(VOCABULARY, 5), scaled=False)
            network = Recurrent(part="encoder", input_width=5, width=6, layers=1, cell="gru")
            encoder = RecurrentEncoder(embedding=plain, network=network, dropout=dropout)
            if kind == "text and wide category":
                tables = [embedding_table(6, 7) for _ in range(3)]
            return Reading(encoder, AttributeJoin(CategoryEncoder(tables=tables, dropout=dropout), 6))
        case "factors to rnn":
            network = Recurrent(part="encoder", input_width=6, width=6, layers=1, cell="multiplicative")
            return Reading(RecurrentEncoder(embedding=factored, network=network, dropout=dropout, backwards=True), None)
        case "factors to transformer":
            summed = FactoredEmbedding(
                weight=embedding_table(VOCABULARY, 8),
                factors=[embedding_table(5, 8), embedding_table(4, 8)],
                combine="sum",
                scaled=True,
            )
            return Reading(
                TransformerEncoder(embedding=summed, layers=1, heads=2, inner=12, norm_first=True, dropout=dropout),
                None,
            )
        case "factors to bag":
            return Reading(BagEncoder(embedding=factored, dropout=dropout), None)
        case _:
            raise AssertionError(kind)


def decoder_of(name: str, encoder: Encoder, dropout: float) -> Decoder:
    match name:
        case "bahdanau":
            return bahdanau_decoder(VOCABULARY, encoder, "gru_cho", dropout=dropout)
        case "luong":
            return luong_decoder(VOCABULARY, encoder, "lstm", dropout=dropout)
        case "luong local":
            return luong_decoder(VOCABULARY, encoder, "elman", feeding=False, window=2, dropout=dropout)
        case "transformer":
            return transformer_decoder(VOCABULARY, encoder.memory_width, norm_first=True, dropout=dropout)
        case "handed":
            return initial_decoder(VOCABULARY, encoder, "multiplicative", handed=True, dropout=dropout)
        case "transformed":
            return initial_decoder(VOCABULARY, encoder, "lstm", handed=False, dropout=dropout)
        case "every step":
            return every_step_decoder(VOCABULARY, encoder, "multiplicative", dropout=dropout)
        case _:
            raise AssertionError(name)


def reader(kind: str, decoder: str, *, seed: int = 1, dropout: float = 0.0) -> Reader:
    """A system in evaluation mode with wildly drawn weights, in double precision."""
    torch.manual_seed(seed)
    encoder = encoder_of(kind, dropout)
    system = Reader(encoder=encoder, decoder=decoder_of(decoder, encoder, dropout)).double()
    with torch.no_grad():
        for parameter in system.parameters():
            parameter.normal_(std=0.7)
    return system.eval()


SIZES = ((5, 7), (8, 4), (1, 1), (6, 6), (3, 9))
ITEMS = (4, 1, 7, 2, 3)
UNKNOWN = ((), (1,), (0, 1, 2), (2,), (0, 1))  # which attributes of each row are not known


def one_row(kind: str, row: int) -> Sources:
    """A row on its own, without any padding; always the same."""
    chance = torch.Generator().manual_seed(row)
    known = torch.tensor([[index not in UNKNOWN[row] for index in range(3)]])
    category = Category(values=torch.randint(1, 6, (1, 3), generator=chance), mask=known)
    items = torch.ones(1, ITEMS[row], dtype=torch.bool)
    words = torch.randint(4, VOCABULARY, (1, ITEMS[row], 1), generator=chance)
    if kind == "category":
        return {"source": category}
    if kind == "nothing":
        return {"source": Category(values=torch.zeros(1, 0).long(), mask=torch.zeros(1, 0).bool())}
    if kind.endswith("image"):
        pixels = torch.randn(1, 2, *SIZES[row], generator=chance, dtype=torch.float64)
        return {"source": Image(pixels=pixels, mask=torch.ones(1, *SIZES[row], dtype=torch.bool))}
    if kind.endswith("category"):
        return {"source": Ids(ids=words, mask=items), "attributes": category}
    further = torch.randint(1, 4, (1, ITEMS[row], 2), generator=chance)
    return {"source": Ids(ids=torch.cat((words, further), dim=-1), mask=items)}


def rows_of(kind: str, rows: Sequence[int]) -> Sources:
    """Some rows as one padded batch."""
    return join_sources([one_row(kind, row) for row in rows])


def spoil(source: Source) -> None:
    """Write something else wherever nothing real stands."""
    match source:
        case Ids():
            source.ids[~source.mask] = 3
        case Category():
            source.values[~source.mask] = 5
        case Image():
            source.pixels.movedim(1, -1)[~source.mask] = 7.0
        case _:
            raise AssertionError(type(source).__name__)
