"""The parts that models are built of."""

from regard.nn.attention import AdditiveAttention, Keys, MultiHeadAttention, masked_softmax
from regard.nn.dropout import dropout
from regard.nn.embedding import Embedding, embedding_table
from regard.nn.feedforward import FeedForward
from regard.nn.loss import smoothed_cross_entropy
from regard.nn.positions import SinusoidalPositions, sinusoids
from regard.nn.recurrent import GRUCell, Recurrent
from regard.nn.sites import Site, Watcher, visit, watched, watching
from regard.nn.transformer import TransformerDecoderLayer, TransformerEncoderLayer

__all__ = [
    "AdditiveAttention",
    "Embedding",
    "FeedForward",
    "GRUCell",
    "Keys",
    "MultiHeadAttention",
    "Recurrent",
    "SinusoidalPositions",
    "Site",
    "TransformerDecoderLayer",
    "TransformerEncoderLayer",
    "Watcher",
    "dropout",
    "embedding_table",
    "masked_softmax",
    "sinusoids",
    "smoothed_cross_entropy",
    "visit",
    "watched",
    "watching",
]
