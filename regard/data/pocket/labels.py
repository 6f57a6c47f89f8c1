"""What a sentence is about, and whether what it says is pleasant: topic, rating and sentiment of a meaning.

**Topic** is the semantic field of the verb of the main clause (`be` has its own). Of two joined clauses the main one is
the one without the link; a sentence with `that` is about thinking, saying or hoping, not about what is thought.

**Rating** is a sum over the sentence, cut to -2 ... 2, from the values of `VERB_VALUES` and `ADJECTIVE_VALUES`:

    rating = Σ_clauses n · value(verb or predicate) + Σ_attributive adjectives value / 2      n = -1 if negated, else 1

Clauses are all of them: main, joined, after `that`, and relative. `not` and `never` turn only the verb or predicate of
their own clause: `the happy man does not love dogs` is 2/2 - 2 = -1. A question counts like its statement.

**Sentiment** is the sign of the rating: positive, negative or neutral.

Each of them depends only on what every language says in words, so it can be read off the English, the German and the
French alike. Some senses of one English word differ in value (a hard question is unpleasant, a hard bed is not); as
everywhere in the pocket world, the noun tells which is meant.
"""

from collections.abc import Iterator
from typing import Final

from regard.data.pocket.phrases import Clause, Coordination, Name, NounPhrase, Pronoun, Sentence

TOPIC_VERBS: Final[dict[str, str]] = {
    "being": "be",
    "feeling": "laugh love like hate fear hope",
    "thinking": "think know_that believe know learn forget",
    "speaking": "say call thank invite sing bark",
    "moving": "go come arrive run swim fly follow visit carry",
    "seeing": "see look_at look_for wait_for find lose",
    "giving": "give show send lend buy sell",
    "working": "work write paint repair wash open close light water",
    "eating": "eat_person eat_animal feed hunt catch",
    "living": "live sleep play win help",
}
"""The verbs of each topic."""

TOPICS: Final = tuple(TOPIC_VERBS)
SENTIMENTS: Final = ("positive", "negative", "neutral")
TOPIC_OF_VERB: Final = {verb: topic for topic, verbs in TOPIC_VERBS.items() for verb in verbs.split()}

VERB_VALUES: Final[dict[str, float]] = {
    "love": 2.0,
    "win": 2.0,
    "like": 1.0,
    "laugh": 1.0,
    "sing": 1.0,
    "play": 1.0,
    "help": 1.0,
    "thank": 1.0,
    "invite": 1.0,
    "give": 1.0,
    "hope": 1.0,
    "forget": -1.0,
    "lose": -1.0,
    "fear": -1.0,
    "hunt": -1.0,
    "hate": -2.0,
}
"""Verbs that are not neutral."""

ADJECTIVE_VALUES: Final[dict[str, float]] = {
    "happy": 2.0,
    "beautiful": 1.0,
    "good": 1.0,
    "clever": 1.0,
    "tired": -1.0,
    "hungry": -1.0,
    "dark": -1.0,
    "hard_difficult": -1.0,
    "broken": -2.0,
}
"""Adjectives that are not neutral; they count half before or after their noun."""

LARGEST_RATING: Final = 2.0


def topic(sentence: Sentence) -> str:
    """The semantic field of the main verb."""
    return TOPIC_OF_VERB[sentence.main.verb]


def rating(sentence: Sentence) -> float:
    """How pleasant the sentence is, from -2.0 to 2.0 in steps of a half."""
    clauses = [clause for clause in (sentence.main, sentence.second) if clause is not None]
    total = sum(value for clause in clauses for value in _clause_values(clause))
    return max(-LARGEST_RATING, min(LARGEST_RATING, total)) + 0.0  # never -0.0


def sentiment(sentence: Sentence) -> str:
    """The sign of the rating, in a word."""
    value = rating(sentence)
    return "neutral" if value == 0 else "positive" if value > 0 else "negative"


def _clause_values(clause: Clause) -> Iterator[float]:
    said = VERB_VALUES.get(clause.verb, 0.0)
    if clause.predicate is not None:
        said = ADJECTIVE_VALUES.get(clause.predicate, 0.0)
    yield -said if clause.manner in ("not", "never") else said
    place = clause.place.phrase if clause.place is not None else None
    for participant in (clause.subject, clause.object, clause.recipient, place):
        yield from _phrase_values(participant)
    if clause.complement is not None:
        yield from _clause_values(clause.complement)


def _phrase_values(phrase: NounPhrase | Name | Pronoun | Coordination | None) -> Iterator[float]:
    match phrase:
        case NounPhrase():
            for adjective in phrase.adjectives:
                yield ADJECTIVE_VALUES.get(adjective, 0.0) / 2
            yield from _phrase_values(phrase.possessor)
            yield from _phrase_values(phrase.attire)
            if phrase.relative is not None:
                yield from _clause_values(phrase.relative.clause)
        case Coordination(first, second):
            yield from _phrase_values(first)
            yield from _phrase_values(second)
        case _:
            return
