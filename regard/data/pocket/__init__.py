"""The pocket world: a small grammar that speaks English, German and French and knows its own gold answers.

One derivation gives a sentence in three languages, word alignments, tags, trees, lemmas, its topic, sentiment and
rating, and its exact probability: an answer for every shape of model.
"""

from regard.data.pocket.concepts import CONCEPTS, Concepts
from regard.data.pocket.exact import TrainingDistribution, exact_perplexity, exact_perplexity_given_topic
from regard.data.pocket.grammar import Grammar
from regard.data.pocket.labels import SENTIMENTS, TOPICS
from regard.data.pocket.make import TASKS, Made, make
from regard.data.pocket.rendering import Rendering
from regard.data.pocket.splits import PocketExample, Splits, choose_held_out, examples
from regard.data.pocket.world import LANGUAGES, Derivation, World

__all__ = [
    "CONCEPTS",
    "LANGUAGES",
    "SENTIMENTS",
    "TASKS",
    "TOPICS",
    "Concepts",
    "Derivation",
    "Grammar",
    "Made",
    "PocketExample",
    "Rendering",
    "Splits",
    "TrainingDistribution",
    "World",
    "choose_held_out",
    "exact_perplexity",
    "exact_perplexity_given_topic",
    "examples",
    "make",
]
