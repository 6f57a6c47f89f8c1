"""The pocket world: sentences with one meaning and three languages."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Final

from regard.data.pocket import english, french, german
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

    def enumerate(self, symbol: Symbol | None = None) -> Iterator[Derivation]:
        """Every derivation of a small world, or of a symbol that rewrites to sentences."""
        for drawn in self.rules.enumerate(self.grammar.start if symbol is None else symbol):
            yield Derivation(drawn.value, drawn.log_probability, drawn.pairs)
