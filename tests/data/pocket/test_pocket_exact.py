"""Masses by topic, entropy and exact perplexity of the pocket world, against enumeration and samples."""

import json
import math
from collections import Counter, defaultdict
from pathlib import Path
from random import Random
from typing import Any

import pytest

from regard.data.pocket import (
    CONCEPTS,
    TrainingDistribution,
    World,
    choose_held_out,
    exact_perplexity,
    exact_perplexity_given_topic,
    make,
)
from regard.data.pocket.grammar import ALL_KINDS
from regard.data.pocket.phrases import Clause, Sentence
from regard.data.pocket.rules import Pair, Rule, Symbol
from regard.errors import DataError, UsageError

NOTHING: frozenset[Pair] = frozenset()


def small_world(words: str) -> World:
    return World(CONCEPTS.restricted_to(frozenset(words.split())))


def _statement(clause: object) -> Sentence:
    assert isinstance(clause, Clause)
    return Sentence(clause)


CLAUSES = "man bat_animal bat_club feed sell black broken"
HELD_OUT = [
    (NOTHING, {"being", "eating", "giving"}),
    (frozenset({("black", "bat_animal")}), {"being", "eating", "giving"}),
    (frozenset({("sell", "bat_club"), ("black", "bat_animal")}), {"being", "eating"}),
]


@pytest.mark.parametrize(("held_out", "topics"), HELD_OUT)
def test_topics_and_entropy_of_clauses_enumerated(held_out: frozenset[Pair], topics: set[str]) -> None:
    """All clauses of a world with three topics, with pairs held out, one of which takes a whole topic away."""
    world = small_world(CLAUSES)
    clause: Symbol = (world.grammar.clause, "past", "question", ALL_KINDS)
    world.grammar.start = (lambda: [Rule(1.0, (clause,), _statement)],)
    left = [found for found in world.enumerate() if held_out.isdisjoint(found.combinations)]
    probabilities: dict[str, list[float]] = defaultdict(list)
    for found in left:
        probabilities[found.topic].append(math.exp(found.log_probability))
    masses = {topic: math.fsum(parts) for topic, parts in probabilities.items()}
    total = math.fsum(masses.values())
    entropy = -math.fsum(p / total * math.log(p / total) for parts in probabilities.values() for p in parts)
    assert {topic: math.exp(value) for topic, value in world.log_mass_by_topic(held_out).items()} == pytest.approx(
        masses, abs=1e-12
    )
    assert world.entropy(held_out) == pytest.approx(entropy, abs=1e-9)
    assert set(masses) == topics


@pytest.mark.parametrize("words", ["dog bark", "bus arrive"])
def test_entropy_of_small_worlds_enumerated(words: str) -> None:
    world = small_world(words)
    found = [derivation.log_probability for derivation in world.enumerate()]
    assert world.entropy() == pytest.approx(-math.fsum(math.exp(value) * value for value in found), abs=1e-9)


@pytest.mark.parametrize("seed", [1, 2])
def test_masses_of_topics_add_up(seed: int) -> None:
    world = World()
    held_out = choose_held_out(world, seed)
    for excluded in (NOTHING, held_out):
        masses = [math.exp(value) for value in world.log_mass_by_topic(excluded).values()]
        assert math.fsum(masses) == pytest.approx(math.exp(world.log_mass(excluded)), abs=1e-12)
        assert min(masses) > 0.03


def test_topics_and_entropy_against_samples() -> None:
    world, random, draws = World(), Random(8), 20000
    held_out = choose_held_out(world, 1)
    topics = Counter[str]()
    surprises = []
    for _ in range(draws):
        derivation = world.sample(random)
        if held_out.isdisjoint(derivation.combinations):
            topics[derivation.topic] += 1
            surprises.append(-derivation.log_probability)
    for topic, value in world.log_mass_by_topic(held_out).items():
        probability = math.exp(value)
        assert abs(topics[topic] - draws * probability) < 4 * math.sqrt(draws * probability * (1 - probability))
    mean = math.fsum(surprises) / len(surprises)
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in surprises) / len(surprises))
    assert abs(mean + world.log_mass(held_out) - world.entropy(held_out)) < 4 * spread / math.sqrt(len(surprises))
    assert 25 < world.entropy(held_out) < world.entropy() < 28


RECORDS: list[dict[str, Any]] = [
    {"log_probability": math.log(0.3), "topic": "being"},
    {"log_probability": math.log(0.1), "topic": "eating"},
]
HALVES = TrainingDistribution("en", math.log(0.8), {"being": math.log(0.6), "eating": math.log(0.2)})


def test_perplexity_by_hand() -> None:
    """0.3/0.8 · 0.1/0.8 over five tokens; given the topic each sentence has one half."""
    expected = (0.375 * 0.125) ** (-1 / 5)
    assert exact_perplexity(RECORDS, tokens=[2, 3], distribution=HALVES) == pytest.approx(expected)
    given_topic = exact_perplexity_given_topic(RECORDS, tokens=[2, 3], distribution=HALVES)
    assert given_topic == pytest.approx(0.25 ** (-1 / 5))


def test_perplexity_of_written_files(tmp_path: Path) -> None:
    """Near the entropy, the difference being the topics'; every set is of distinct sentences."""
    make(tmp_path, size=3000)
    distribution = TrainingDistribution.read(tmp_path)
    records = [json.loads(line) for line in (tmp_path / "train.jsonl").read_text(encoding="utf-8").splitlines()]
    tokens = [len(record["source"].split()) + 1 for record in records]
    each = sum(tokens) / len(tokens)
    world = World()
    entropy = world.entropy(choose_held_out(world, 1))
    shares = [value - distribution.log_mass for value in distribution.log_mass_by_topic.values()]
    of_topics = -math.fsum(math.exp(share) * share for share in shares)
    whole = math.log(exact_perplexity(records, tokens=tokens, distribution=distribution)) * each
    given_topic = math.log(exact_perplexity_given_topic(records, tokens=tokens, distribution=distribution)) * each
    assert whole == pytest.approx(entropy, abs=0.6)
    assert whole - given_topic == pytest.approx(of_topics, abs=0.04)


@pytest.mark.parametrize("perplexity", [exact_perplexity, exact_perplexity_given_topic])
def test_refusals(perplexity: Any) -> None:
    german = TrainingDistribution("de", 0.0, {})
    with pytest.raises(UsageError, match="source language is 'de', where several derivations may share a sentence"):
        perplexity(RECORDS, tokens=[1, 1], distribution=german)
    with pytest.raises(UsageError, match="there are no records"):
        perplexity([], tokens=[], distribution=HALVES)
    with pytest.raises(UsageError, match="2 records have 1 token counts; give one for each"):
        perplexity(RECORDS, tokens=[1], distribution=HALVES)
    with pytest.raises(UsageError, match="record 2 has 0 tokens; with its end every sentence has at least 1"):
        perplexity(RECORDS, tokens=[1, 0], distribution=HALVES)
    with pytest.raises(DataError, match=r"record 1 has no log_probability; give lines of the \.jsonl files"):
        perplexity([{"topic": "being"}], tokens=[1], distribution=HALVES)


def test_topics_refused() -> None:
    with pytest.raises(DataError, match="record 1 has no topic"):
        exact_perplexity_given_topic([{"log_probability": -1.0}], tokens=[1], distribution=HALVES)
    with pytest.raises(DataError, match=r"the topic 'chess'; pocket\.json has the mass of being, eating"):
        exact_perplexity_given_topic([{"log_probability": -1.0, "topic": "chess"}], tokens=[1], distribution=HALVES)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"pocket\.json: cannot be read \(No such file or directory\); write the folder again with: regard data"),
        ('{"source": "en", "log_mass": -0.1}', r"pocket\.json: has no log_mass_by_topic; write the folder again"),
        ("[1]", r"pocket\.json: is not as it was written .*; write the folder again"),
        ("{", r"pocket\.json: is not as it was written .*; write the folder again"),
    ],
)
def test_folders_refused(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / "pocket.json").write_text(content)
    with pytest.raises(DataError, match=message):
        TrainingDistribution.read(tmp_path)
