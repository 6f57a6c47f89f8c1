"""The pocket world: sentences with one meaning and three languages."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Final

from regard.data.pocket import english, french, german, labels
from regard.data.pocket.alignment import Links, align
from regard.data.pocket.concepts import CONCEPTS, Concepts
from regard.data.pocket.grammar import Grammar
from regard.data.pocket.phrases import Sentence
from regard.data.pocket.rendering import Renderer, Rendering
from regard.data.pocket.rules import Pair, Rules, Symbol
from regard.errors import UsageError

LANGUAGES: Final[dict[str, Renderer]] = {"en": english.render, "de": german.render, "fr": french.render}


def check_language(language: str) -> None:
    """Refuse a language the world does not speak."""
    if language not in LANGUAGES:
        raise UsageError(f"the pocket world does not speak {language!r}; choose one of {', '.join(LANGUAGES)}")


@dataclass(frozen=True, slots=True)
class Derivation:
    """A sentence's meaning with the exact logarithm of its probability.

    `combinations` are the (adjective, noun) and (verb, object noun) pairs in it. `sentence` is what tasks beyond
    translation read: names, predicates and optional parts are all there.
    """

    sentence: Sentence
    log_probability: float
    combinations: tuple[Pair, ...]

    @property
    def topic(self) -> str:
        """What the sentence is about, one of `labels.TOPICS`."""
        return labels.topic(self.sentence)

    @property
    def sentiment(self) -> str:
        """positive, negative or neutral."""
        return labels.sentiment(self.sentence)

    @property
    def rating(self) -> float:
        """How pleasant the sentence is, from -2.0 to 2.0."""
        return labels.rating(self.sentence)

    def render(self, language: str) -> Rendering:
        """The sentence in a language, with its annotations."""
        check_language(language)
        return LANGUAGES[language](self.sentence)

    def alignment(self, source_language: str, target_language: str) -> Links:
        """Word links (i, j) between two renderings, sorted."""
        return align(self.render(source_language), self.render(target_language))


class World:
    """A grammar over an inventory of concepts, from which derivations are drawn."""

    def __init__(self, concepts: Concepts = CONCEPTS) -> None:
        self.grammar = Grammar(concepts)
        self.rules = Rules()

    def sample(self, random: Random) -> Derivation:
        """Draw a derivation; its probability is exp(log_probability)."""
        drawn = self.rules.sample(self.grammar.start, random)
        return Derivation(drawn.value, drawn.log_probability, drawn.pairs)

    def count(self) -> int:
        """The exact number of derivations, which is the number of different English sentences."""
        return self.rules.count(self.grammar.start)

    def combinations(self) -> frozenset[Pair]:
        """Every (adjective, noun) and (verb, object noun) pair that can occur."""
        return self.rules.pairs(self.grammar.start)

    def log_mass(self, held_out: frozenset[Pair]) -> float:
        """log P(no held-out pair occurs): subtract it to get log-probabilities of what training is drawn from."""
        return math.log(self.rules.mass(self.grammar.start, held_out))

    def log_mass_by_topic(self, held_out: frozenset[Pair]) -> dict[str, float]:
        """log P(topic, no held-out pair occurs) of every topic there is; their masses add up to that of `log_mass`."""
        masses = self.rules.mass_by(self.grammar.start, held_out, self._topic_of_symbol)
        return {topic: math.log(masses[topic]) for topic in labels.TOPICS if topic in masses}

    def entropy(self, held_out: frozenset[Pair] = frozenset()) -> float:
        """The exact entropy in nats per sentence of what has no held-out pair: that of the English, as it is unique.

        Given the topic, which the sentence determines, it is lower by the entropy of the topics.
        """
        return self.rules.entropy(self.grammar.start, held_out)

    def _topic_of_symbol(self, symbol: Symbol) -> str | None:
        """The topic of a symbol that has the main verb fixed; a sentence with `that` has its subject first."""
        if symbol[0] in (self.grammar.verbal, self.grammar.argument):
            return labels.TOPIC_OF_VERB[symbol[1]]
        return labels.TOPIC_OF_VERB["be"] if symbol[0] == self.grammar.copular else None

    def enumerate(self, symbol: Symbol | None = None) -> Iterator[Derivation]:
        """Every derivation of a small world, or of a symbol that rewrites to sentences."""
        for drawn in self.rules.enumerate(self.grammar.start if symbol is None else symbol):
            yield Derivation(drawn.value, drawn.log_probability, drawn.pairs)
