"""Counts, probabilities and lengths of the pocket grammar, and that English determines everything."""

import math
import re
from collections import Counter
from random import Random

import pytest

from regard.data.pocket import CONCEPTS, LANGUAGES, World
from regard.data.pocket.grammar import ALL_KINDS
from regard.data.pocket.phrases import Clause, Sentence
from regard.data.pocket.rules import Rule, Rules, Symbol, _Table
from regard.errors import RegardError

AMBIGUOUS = [
    "man bank_money bank_river river paint visit go work steep old green",
    "man letter_mail letter_sign word write forget open long first",
    "man bat_animal bat_club feed sell black broken",
    "man match_fire match_game light win good",
    "man plant_green plant_factory buy water visit work new green",
    "man question bed house bag hard_solid hard_difficult light_bright light_weight forget",
    "man cat eat_person eat_animal apple",
    "Anna woman know know_that like cat",
]


class FlatRules(Rules):
    """Every rule of a symbol equally likely, so that rare shapes are drawn often."""

    def table(self, symbol: Symbol) -> _Table:
        rules = super().table(symbol).rules
        share = 1 / len(rules)
        cumulative = tuple((index + 1) * share for index in range(len(rules)))
        self._tables[symbol] = _Table(rules, cumulative, (math.log(share),) * len(rules))
        return self._tables[symbol]


def small_world(words: str) -> World:
    return World(CONCEPTS.restricted_to(frozenset(words.split())))


def test_there_are_more_than_a_billion_sentences() -> None:
    assert World().count() > 10**9


@pytest.mark.parametrize("words", ["dog bark", "bus arrive"])
def test_small_worlds_enumerated(words: str) -> None:
    """Counted = enumerated = distinct English, and the probabilities sum to one."""
    world = small_world(words)
    found = list(world.enumerate())
    assert world.count() == len(found) == len({derivation.render("en").text for derivation in found})
    assert math.fsum(math.exp(derivation.log_probability) for derivation in found) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("words", AMBIGUOUS)
@pytest.mark.parametrize("setting", ["question", "light"])
def test_english_determines_the_meaning_of_a_clause(words: str, setting: str) -> None:
    """All clauses of a world with both senses of a word: no two have the same English."""
    world = small_world(words)
    symbol: Symbol = (world.grammar.clause, "past", setting, ALL_KINDS)
    statement: Symbol = (lambda: [Rule(1.0, (symbol,), _statement)],)
    assert world.rules.count(statement) < 60000
    found = [derivation.render("en").text for derivation in world.enumerate(statement)]
    assert len(found) == len(set(found)) > 1000


def _statement(clause: object) -> object:
    assert isinstance(clause, Clause)
    return Sentence(clause)


@pytest.mark.parametrize("words", AMBIGUOUS)
def test_english_determines_german_and_french(words: str) -> None:
    """Whole sentences of small worlds, drawn until many repeat."""
    world = small_world(words)
    world.rules = FlatRules()
    random = Random(5)
    meanings = {}
    for _ in range(2500):
        derivation = world.sample(random)
        found = (derivation.sentence, round(derivation.log_probability, 6))
        assert meanings.setdefault(derivation.render("en").text, found) == found


def test_every_sentence_has_3_to_25_words() -> None:
    world = World()
    world.rules = FlatRules()
    random = Random(2)
    lengths = {language: Counter[int]() for language in LANGUAGES}
    for _ in range(8000):
        derivation = world.sample(random)
        for language in LANGUAGES:
            lengths[language][len(derivation.render(language).words)] += 1
    for language, counted in lengths.items():
        assert min(counted) >= 3, language
        assert 18 <= max(counted) <= 25, language


def test_every_language_has_at_least_300_words() -> None:
    world, random = World(), Random(1)
    derivations = [world.sample(random) for _ in range(8000)]
    for language in LANGUAGES:
        words = Counter(word for derivation in derivations for word in derivation.render(language).words)
        assert 300 <= len(words) <= 750, language
        assert sum(count == 1 for count in words.values()) < 0.04 * len(words), language


def test_every_concept_is_met_thirty_times_in_20000_sentences() -> None:
    world, random = World(), Random(1)
    met = Counter()
    for _ in range(20000):
        met.update(re.findall(r"'(\w+)'", str(world.sample(random).sentence)))
    for concept in (*CONCEPTS.nouns, *CONCEPTS.adjectives, *CONCEPTS.verbs):
        assert met[concept.name] >= 30, concept.name


def test_frequencies_follow_the_probabilities() -> None:
    """Drawn frequencies of the commonest sentences of a small world against their exact probabilities."""
    world = small_world("dog bark")
    exact = {derivation.sentence: derivation.log_probability for derivation in world.enumerate()}
    random, draws = Random(11), 20000
    drawn = Counter()
    for _ in range(draws):
        derivation = world.sample(random)
        assert derivation.log_probability == pytest.approx(exact[derivation.sentence], abs=1e-9)
        drawn[derivation.sentence] += 1
    for sentence in sorted(exact, key=lambda found: -exact[found])[:25]:
        probability = math.exp(exact[sentence])
        deviation = math.sqrt(draws * probability * (1 - probability))
        assert abs(drawn[sentence] - draws * probability) < 4.5 * deviation


def test_mass_is_what_enumeration_leaves() -> None:
    world = small_world("man bat_animal bat_club feed sell black broken")
    symbol: Symbol = (world.grammar.clause, "past", "question", ALL_KINDS)
    for held_out in (frozenset({("black", "bat_animal")}), frozenset({("sell", "bat_club"), ("black", "bat_animal")})):
        found = list(world.rules.enumerate(symbol))
        left = [drawn for drawn in found if held_out.isdisjoint(drawn.pairs)]
        assert 0 < len(left) < len(found)
        expected = math.fsum(math.exp(drawn.log_probability) for drawn in left)
        assert world.rules.mass(symbol, held_out) == pytest.approx(expected, abs=1e-9)
    assert world.log_mass(frozenset()) == pytest.approx(0.0, abs=1e-9)
    assert world.log_mass(frozenset({("feed", "bat_animal")})) < 0


def test_combinations_are_those_in_the_sentences() -> None:
    world, random = World(), Random(4)
    known = world.combinations()
    for _ in range(500):
        derivation = world.sample(random)
        assert known.issuperset(derivation.combinations)
        meaning = str(derivation.sentence)
        for first, second in derivation.combinations:
            assert f"'{first}'" in meaning
            assert f"'{second}'" in meaning


@pytest.mark.parametrize("target", ["de", "fr"])
def test_alignments_cover_the_target(target: str) -> None:
    world, random = World(), Random(3)
    linked = total = 0
    for _ in range(2000):
        derivation = world.sample(random)
        source_words, target_words = derivation.render("en").words, derivation.render(target).words
        links = derivation.alignment("en", target)
        assert links
        assert all(0 <= i < len(source_words) and 0 <= j < len(target_words) for i, j in links)
        linked += len({j for _, j in links})
        total += len(target_words)
    assert linked / total >= 0.95


def test_unknown_language_is_refused() -> None:
    derivation = World().sample(Random(1))
    with pytest.raises(RegardError, match="does not speak 'it'; choose one of en, de, fr"):
        derivation.render("it")
