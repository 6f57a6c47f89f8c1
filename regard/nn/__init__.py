"""The parts that models are built of."""

from regard.nn.attention import Attention, Keys, additive_attention, masked_softmax
from regard.nn.cells import Cell, CellName, StepResult, build_cell, candidate_weights
from regard.nn.dropout import dropout
from regard.nn.embedding import Embedding, FactoredEmbedding, embedding_table
from regard.nn.feedforward import FeedForward
from regard.nn.loss import Projection, projected_cross_entropy
from regard.nn.maxout import Maxout
from regard.nn.positions import LearnedPositions, Positions, SinusoidalPositions, sinusoids
from regard.nn.recurrent import Recurrent, RecurrentLayer, StateSize, reverse
from regard.nn.relations import Relations
from regard.nn.sites import Site, Watcher, visit, watched, watching
from regard.nn.transformer import TransformerDecoderLayer, TransformerEncoderLayer, Variant

__all__ = [
    "Attention",
    "Cell",
    "CellName",
    "Embedding",
    "FactoredEmbedding",
    "FeedForward",
    "Keys",
    "LearnedPositions",
    "Maxout",
    "Positions",
    "Projection",
    "Recurrent",
    "RecurrentLayer",
    "Relations",
    "SinusoidalPositions",
    "Site",
    "StateSize",
    "StepResult",
    "TransformerDecoderLayer",
    "TransformerEncoderLayer",
    "Variant",
    "Watcher",
    "additive_attention",
    "build_cell",
    "candidate_weights",
    "dropout",
    "embedding_table",
    "masked_softmax",
    "projected_cross_entropy",
    "reverse",
    "sinusoids",
    "visit",
    "watched",
    "watching",
]
