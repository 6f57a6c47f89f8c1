"""What is chosen for data of which kind and size, when nobody says: one table of rules.

The figures are those of small published systems that fit an ordinary machine: a Transformer of 4 layers and width 128
for a few hundred thousand words, character models with much dropout for a few thousand forms, wider ones for more text.
"""

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeRule:
    """A model and its training for up to this many target tokens."""

    tokens: float
    width: int
    layers: int
    heads: int
    dropout: float
    batch_tokens: int
    steps: int
    warmup: int


SIZES: tuple[SizeRule, ...] = (
    SizeRule(tokens=10_000, width=128, layers=2, heads=4, dropout=0.3, batch_tokens=1024, steps=1500, warmup=200),
    SizeRule(tokens=250_000, width=128, layers=3, heads=4, dropout=0.3, batch_tokens=3000, steps=3000, warmup=400),
    SizeRule(tokens=2e6, width=128, layers=4, heads=4, dropout=0.3, batch_tokens=4096, steps=6000, warmup=1000),
    SizeRule(tokens=2e7, width=256, layers=4, heads=4, dropout=0.2, batch_tokens=8192, steps=30_000, warmup=2000),
    SizeRule(tokens=inf, width=512, layers=6, heads=8, dropout=0.1, batch_tokens=16_384, steps=100_000, warmup=4000),
)


SENTENCES = SIZES[2]
"""For sentences in so many subwords there is a recipe that was found by trying, on Multi30k (29,000 pairs; Wu et al.
2021, docs/experiments.md): what follows takes the place of what the rule says."""

SENTENCE_SIDES = {"feedforward": 256, "feedforward_dropout": 0.0, "norm": "post"}
SENTENCE_TRAINING = {
    "steps": 16_000,
    "learning_rate": 5e-3,
    "schedule": "linear",
    "warmup": 2000,
    "clip": 25.0,
    "validate_every": 500,
    "patience": None,
    "select": "BLEU",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SubwordRule:
    """A number of subwords for up to this many words on both sides together."""

    words: float
    size: int


SUBWORDS: tuple[SubwordRule, ...] = (
    SubwordRule(words=100_000, size=1000),
    SubwordRule(words=400_000, size=2000),
    SubwordRule(words=700_000, size=6000),
    SubwordRule(words=1e7, size=10_000),
    SubwordRule(words=inf, size=16_000),
)

SHORT_CHARACTERS = 25
SHORT_WORDS = 2
"""A side whose median has fewer characters and not more words than this is spelled out in characters."""

WORD_TYPES = 5000
WORD_UNSEEN = 0.002
"""A side with at most so many different words, of which so few are new in new text, is read word by word."""

WORD_LAYERS = 2
WORD_DROPOUT = 0.1
"""Text of few, frequent words needs no more than this."""

SAME_ALPHABET = 0.75
SAME_WORDS = 0.5
"""A target with this share of characters (or words) in common with the source gets one vocabulary with it."""

WORDS_TO_SUBWORDS = 1.3
CHARACTERS_OF_A_WORD = 5
"""For text without blanks between words."""

BYTES = 256
"""Subwords that stand for single bytes; they and all characters must find room among the subwords."""

LEARNING_RATE = 1e-3
VALIDATIONS = 25
PATIENCE = 8
AVERAGE = 5
"""Checkpoints averaged where outputs are long texts."""

MEASURED = {"precision": "auto", "threads": "auto"}
"""Left to a measurement when training begins."""

FEW_EMPTY = 0.01
"""At most this share of pairs with an empty side is left out; more of them look like a mistake."""

SHORTEST_LIMIT = 64
LONGEST_LIMIT = 1024
"""Between these lies the length of sentences that are trained on and written."""


def size_rule(tokens: float) -> SizeRule:
    """The rule for so many target tokens."""
    return next(rule for rule in SIZES if tokens <= rule.tokens)


def subword_rule(words: float) -> SubwordRule:
    """The rule for so many words."""
    return next(rule for rule in SUBWORDS if words <= rule.words)
