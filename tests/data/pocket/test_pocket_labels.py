"""Topic, rating and sentiment of pocket sentences: hand-made cases, shares, and that every language tells them."""

import math
from collections import Counter, defaultdict
from random import Random

import pytest

from regard.data.pocket import CONCEPTS, LANGUAGES, SENTIMENTS, TOPICS, Derivation, World, examples
from regard.data.pocket.labels import ADJECTIVE_VALUES, TOPIC_OF_VERB, VERB_VALUES
from regard.data.pocket.phrases import Clause, Coordination, Name, NounPhrase, Participant, Place, Relative, Sentence
from regard.data.pocket.rules import Rules, Symbol, _Table

ANNA = Name("Anna")
DOGS = NounPhrase("dog", "the", True)
HAPPY_MAN = NounPhrase("man", "the", False, ("happy",))
TIRED_CHILD = NounPhrase("child", "the", False, ("tired",))
HARD_QUESTION = NounPhrase("question", "the", False, ("hard_difficult",))


def said(verb: str, manner: str = "plain", subject: Participant = ANNA, target: Participant | None = None) -> Clause:
    return Clause(verb, "present", manner, subject, target)


def being(predicate: str, manner: str = "plain") -> Clause:
    return Clause("be", "present", manner, ANNA, predicate=predicate)


WHO_LAUGHS = Relative("subject", Clause("laugh", "present", "plain", None))
CASES = [
    (Sentence(said("love", target=DOGS)), "Anna loves the dogs .", "feeling", 2.0),
    (Sentence(said("love", "not", target=DOGS)), "Anna does not love the dogs .", "feeling", -2.0),
    (Sentence(said("hate", "not", target=DOGS)), "Anna does not hate the dogs .", "feeling", 2.0),
    (Sentence(said("sing", "never")), "Anna never sings .", "speaking", -1.0),
    (Sentence(said("sing", "often")), "Anna often sings .", "speaking", 1.0),
    (Sentence(said("sleep", "not")), "Anna does not sleep .", "living", 0.0),
    (Sentence(said("love", target=DOGS), question=True), "does Anna love the dogs ?", "feeling", 2.0),
    (Sentence(being("broken", "not")), "Anna is not broken .", "being", 2.0),
    (Sentence(being("big")), "Anna is big .", "being", 0.0),
    (
        Sentence(said("love", "not", subject=HAPPY_MAN, target=DOGS)),
        "the happy man does not love the dogs .",
        "feeling",
        -1.0,
    ),
    (
        Sentence(said("see", target=Coordination(HAPPY_MAN, TIRED_CHILD))),
        "Anna sees the happy man and the tired child .",
        "seeing",
        0.5,
    ),
    (
        Sentence(said("forget", "not", target=HARD_QUESTION)),
        "Anna does not forget the hard question .",
        "thinking",
        0.5,
    ),
    (
        Sentence(said("say"), link="because", second=said("lose")),
        "Anna says because Anna loses .",
        "speaking",
        -1.0,
    ),
    (
        Sentence(said("go"), link="if", second=said("win", "not"), second_first=True),
        "if Anna does not win , Anna goes .",
        "moving",
        -2.0,
    ),
    (
        Sentence(Clause("hope", "present", "plain", ANNA, complement=said("hate", target=DOGS))),
        "Anna hopes that Anna hates the dogs .",
        "feeling",
        -1.0,
    ),
    (
        Sentence(said("hunt", "not", target=NounPhrase("man", "the", False, ("good",), relative=WHO_LAUGHS))),
        "Anna does not hunt the good man who laughs .",
        "eating",
        2.0,
    ),
    (
        Sentence(
            Clause(
                "give",
                "present",
                "plain",
                NounPhrase("friend", "the", False, possessor=TIRED_CHILD),
                NounPhrase("book", "the", False, ("hard_difficult",)),
                HAPPY_MAN,
                place=Place("in", NounPhrase("kitchen", "the", False, ("dark",))),
            )
        ),
        "the friend of the tired child gives the hard book to the happy man in the dark kitchen .",
        "giving",
        0.5,
    ),
]


@pytest.mark.parametrize(("sentence", "english", "topic", "rating"), CASES)
def test_by_hand(sentence: Sentence, english: str, topic: str, rating: float) -> None:
    derivation = Derivation(sentence, 0.0, ())
    assert derivation.render("en").text == english
    assert (derivation.topic, derivation.rating) == (topic, rating)
    assert math.copysign(1.0, derivation.rating) == (-1.0 if rating < 0 else 1.0)
    expected = {-1: "negative", 0: "neutral", 1: "positive"}[(rating > 0) - (rating < 0)]
    assert derivation.sentiment == expected


def test_every_verb_has_a_topic_and_every_value_a_concept() -> None:
    assert set(TOPIC_OF_VERB) == {verb.name for verb in CONCEPTS.verbs} | {"be"}
    assert set(TOPIC_OF_VERB.values()) == set(TOPICS)
    assert set(VERB_VALUES) <= {verb.name for verb in CONCEPTS.verbs}
    assert set(ADJECTIVE_VALUES) <= {adjective.name for adjective in CONCEPTS.adjectives}


def test_no_label_is_rare() -> None:
    train = examples(size=8000, seed=2).train
    topics, sentiments = Counter(pair.topic for pair in train), Counter(pair.sentiment for pair in train)
    assert set(topics) == set(TOPICS)
    assert set(sentiments) == set(SENTIMENTS)
    assert min(topics.values()) > 0.05 * len(train)
    assert min(sentiments.values()) > 0.18 * len(train)
    assert {pair.rating for pair in train} == {half / 2 for half in range(-4, 5)}


class FlatRules(Rules):
    """Every rule of a symbol equally likely, so that rare shapes are drawn often."""

    def table(self, symbol: Symbol) -> _Table:
        rules = super().table(symbol).rules
        share = 1 / len(rules)
        cumulative = tuple((index + 1) * share for index in range(len(rules)))
        self._tables[symbol] = _Table(rules, cumulative, (math.log(share),) * len(rules))
        return self._tables[symbol]


@pytest.mark.parametrize(
    ("words", "shared"),
    [
        ("Anna woman know know_that like love see", {"de", "fr"}),
        ("man question bed hard_solid hard_difficult forget", {"fr"}),
        ("Anna man happy think hope laugh hate dog tired", {"fr"}),
    ],
)
def test_sentences_that_are_the_same_have_the_same_labels(words: str, shared: set[str]) -> None:
    """In every language; and English, unlike the others, has one derivation for a sentence."""
    world = World(CONCEPTS.restricted_to(frozenset(words.split())))
    world.rules = FlatRules()
    random = Random(5)
    meanings = {language: defaultdict[str, set[Sentence]](set) for language in LANGUAGES}
    for _ in range(3000):
        derivation = world.sample(random)
        for language in LANGUAGES:
            meanings[language][derivation.render(language).text].add(derivation.sentence)
    several = {language for language, found in meanings.items() if max(map(len, found.values())) > 1}
    assert shared <= several <= {"de", "fr"}
    for found in meanings.values():
        for sentences in found.values():
            derivations = [Derivation(sentence, 0.0, ()) for sentence in sentences]
            assert len({(derivation.topic, derivation.rating) for derivation in derivations}) == 1
