"""Samples against exact probabilities, truncation against plain loops, and draws that depend on nothing else."""

import itertools
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.data.batch import make_batch, source_ids
from regard.errors import ModelError
from regard.models import Scorer
from regard.search import Hypothesis, Request, Search, SearchOptions
from regard.search.sampling import candidates, truncate
from regard.special import END, PAD, START, UNKNOWN
from tests.families import FAMILIES, family
from tests.markov import Markov, permitted, which

RULES: list[dict[str, float]] = [
    {},
    {"temperature": 0.5},
    {"temperature": 2.5},
    {"top_k": 2},
    {"top_p": 0.7},
    {"min_p": 0.4},
    {"typical": 0.5},
    {"temperature": 1.5, "top_k": 3, "top_p": 0.9, "min_p": 0.1, "typical": 0.8},
]


def sampled(scorer: Scorer, requests: list[Request]) -> dict[int, tuple[Hypothesis, ...]]:
    search = Search(scorer)
    search.add(requests)
    found: dict[int, tuple[Hypothesis, ...]] = {}
    while search.busy:
        found.update((one.id, one.hypotheses) for one in search.step())
    return found


def sample_markov(scorer: Markov, options: SearchOptions, *, id_: int = 0) -> tuple[Hypothesis, ...]:
    return sampled(scorer, [Request(id=id_, sources=which(0), items=3, options=options)])[id_]


def sentence(words: list[int], options: SearchOptions, *, id_: int = 0) -> Request:
    return Request(id=id_, sources={"source": source_ids([words])}, items=len(words) + 1, options=options)


def plain_distribution(said: list[float], options: SearchOptions) -> dict[int, float]:
    """What one row may draw, with its probability: temperature, then rule after rule, by the book."""
    tokens = [token for token in (*permitted(len(said), options), END) if said[token] > -math.inf]
    left = {token: math.exp(said[token] / options.temperature) for token in tokens}

    def normal() -> dict[int, float]:
        whole = math.fsum(left.values())
        return {token: weight / whole for token, weight in left.items()}

    def until(ordered: list[int], mass: float) -> dict[int, float]:
        chosen: dict[int, float] = {}
        for token in ordered:
            if math.fsum(chosen.values()) < mass:
                chosen[token] = left[token]
        return chosen

    left = normal()
    if options.top_k is not None:
        left = {token: left[token] for token in sorted(left, key=lambda token: -left[token])[: options.top_k]}
        left = normal()
    if options.top_p is not None:
        left = until(sorted(left, key=lambda token: -left[token]), options.top_p)
        left = normal()
    if options.min_p is not None:
        least = options.min_p * max(left.values())
        left = {token: share for token, share in left.items() if share >= least}
        left = normal()
    if options.typical is not None:
        entropy = -math.fsum(share * math.log(share) for share in left.values())
        left = until(sorted(left, key=lambda token: abs(-math.log(left[token]) - entropy)), options.typical)
    return normal()


@pytest.mark.parametrize("rules", RULES, ids=str)
@pytest.mark.parametrize("vocabulary", [6, 40])
def test_what_is_left_to_draw_from_equals_a_plain_loop(rules: dict[str, float], vocabulary: int) -> None:
    for seed, spread in itertools.product(range(10), (0.2, 1.0, 4.0)):
        generator = torch.Generator().manual_seed(seed)
        said = (torch.randn(2, 3, vocabulary, generator=generator, dtype=torch.float64) * spread).log_softmax(-1)
        said[1, 1, 4] = -math.inf
        options = SearchOptions(sample=True, unknown=seed % 2 == 0, **rules)
        forbidden = (PAD, START) if options.unknown else (PAD, START, UNKNOWN)
        found = truncate(candidates(said, temperature=options.temperature, forbidden=forbidden), options)
        shares = torch.zeros_like(said).scatter(-1, found.tokens, found.weights)
        shares /= shares.sum(-1, keepdim=True)
        for row, column in itertools.product(range(2), range(3)):
            expected = plain_distribution(said[row, column].tolist(), options)
            drawn = {token: share for token, share in enumerate(shares[row, column].tolist()) if share}
            assert drawn == pytest.approx(expected, rel=1e-9, abs=0)


@pytest.mark.parametrize(
    ("rules", "left"),
    [
        ({"top_k": 2}, {4, 5}),
        ({"top_k": 99}, {3, 4, 5, 6}),
        ({"top_p": 0.5}, {4}),
        ({"top_p": 0.51}, {4, 5}),
        ({"top_p": 1.0}, {3, 4, 5, 6}),
        ({"min_p": 0.5}, {4, 5}),
        ({"min_p": 1.0}, {4}),
        ({"typical": 0.2}, {5}),  # its surprise of 2 bits is closest to the entropy, 1.75 bits
        ({"typical": 0.26}, {4, 5}),
        ({"typical": 1.0}, {3, 4, 5, 6}),
        ({"temperature": 1e308}, {3, 4, 5, 6}),
        ({"temperature": 5e-324}, {4}),
        ({"top_p": 5e-324}, {4}),
        ({"min_p": 5e-324}, {3, 4, 5, 6}),
        ({"typical": 5e-324}, {5}),
    ],
)
def test_by_hand(rules: dict[str, float], left: set[int]) -> None:
    """END has 1/8, then 1/2, 1/4, 1/8."""
    said = torch.tensor([0.0, 0.0, 0.0, 0.125, 0.5, 0.25, 0.125], dtype=torch.float64).log()
    options = SearchOptions(sample=True, **rules)
    found = truncate(candidates(said, temperature=options.temperature, forbidden=()), options)
    assert set(found.tokens[found.weights > 0].tolist()) == left


@pytest.mark.parametrize("chance", [0.0, 0.1, 0.5, 1 - 2**-53])
def test_only_what_has_weight_is_drawn(chance: float) -> None:
    """At the ends of the range, too."""
    generator = torch.Generator().manual_seed(3)
    said = torch.randn(500, 12, generator=generator, dtype=torch.float64).log_softmax(-1)
    tokens = candidates(said, temperature=1.0, forbidden=(0, 1, 2, 11)).draw(torch.full((500,), chance).double())
    assert set(tokens.tolist()) <= set(range(3, 11))


def exact(scorer: Markov, options: SearchOptions, limit: int) -> dict[tuple[int, ...], float]:
    """The probability of every output; one that was cut off has no END."""
    following = scorer.following(0)
    running: dict[tuple[int, ...], float] = {(): 1.0}
    done: dict[tuple[int, ...], float] = {}
    for _ in range(limit):
        longer: dict[tuple[int, ...], float] = {}
        for tokens, probability in running.items():
            for token, share in plain_distribution(following(tokens), options).items():
                (done if token == END else longer)[(*tokens, token)] = probability * share
        running = longer
    return done | running


def misfit(counts: Counter[tuple[int, ...]], expected: dict[tuple[int, ...], float]) -> float:
    """Pearson's chi-square as a standard normal deviate (Wilson & Hilferty 1931); rare outputs are taken together."""
    draws = sum(counts.values())
    rare = [output for output, probability in expected.items() if probability * draws < 10]
    cells = [(counts[output], expected[output] * draws) for output in expected.keys() - set(rare)]
    if rare:
        cells.append((sum(counts[output] for output in rare), sum(expected[output] for output in rare) * draws))
    statistic = sum((seen - wanted) ** 2 / wanted for seen, wanted in cells)
    free = len(cells) - 1
    return float(((statistic / free) ** (1 / 3) - (1 - 2 / (9 * free))) / math.sqrt(2 / (9 * free)))


def counted(scorer: Markov, options: SearchOptions) -> Counter[tuple[int, ...]]:
    counts: Counter[tuple[int, ...]] = Counter()
    requests = [Request(id=id_, sources=which(0), items=3, options=options) for id_ in range(40)]
    for hypotheses in sampled(scorer, requests).values():
        counts.update((*one.tokens, END) if one.complete else one.tokens for one in hypotheses)
    return counts


@pytest.mark.parametrize("rules", RULES, ids=str)
def test_outputs_come_as_often_as_their_probability_says(rules: dict[str, float]) -> None:
    scorer = Markov(vocabulary=7, seed=5, spread=1.0)
    options = SearchOptions(sample=True, best=500, max_length=4, max_ratio=None, **rules)
    counts = counted(scorer, options)
    expected = exact(scorer, options, 4)
    assert sum(counts.values()) == 20_000
    assert counts.keys() <= expected.keys()
    assert math.fsum(expected.values()) == pytest.approx(1)
    assert misfit(counts, expected) < 3.1


def test_the_misfit_of_another_temperature_is_found_out() -> None:
    scorer = Markov(vocabulary=7, seed=5, spread=1.0)
    options = SearchOptions(sample=True, best=500, max_length=4, max_ratio=None)
    assert misfit(counted(scorer, options), exact(scorer, replace(options, temperature=1.1), 4)) > 6


def test_samples_of_a_request_are_independent_draws() -> None:
    """Neighbouring samples, and the same sample of neighbouring requests, know nothing of each other."""
    scorer = Markov(vocabulary=6, seed=1, spread=0.5)
    options = SearchOptions(sample=True, best=100, max_length=1, max_ratio=None)
    single = exact(scorer, options, 1)
    requests = [Request(id=id_, sources=which(0), items=3, options=options) for id_ in range(60)]
    found = sampled(scorer, requests)
    drawn = [[one.tokens or (END,) for one in found[id_]] for id_ in range(60)]
    square = {one + other: p * q for (one, p), (other, q) in itertools.product(single.items(), repeat=2)}
    beside = Counter(one + other for row in drawn for one, other in itertools.pairwise(row))
    below = Counter(
        one + other for row, rest in itertools.pairwise(drawn) for one, other in zip(row, rest, strict=True)
    )
    assert misfit(beside, square) < 3.1
    assert misfit(below, square) < 3.1


@pytest.mark.parametrize("name", FAMILIES)
def test_a_temperature_near_zero_is_greedy(name: str) -> None:
    system = family(name)
    words = [4, 7, 5]
    greedy = SearchOptions(beam=1, max_length=12)
    cold = SearchOptions(sample=True, best=3, temperature=1e-9, max_length=12)
    found = sampled(system, [sentence(words, greedy), sentence(words, cold, id_=1)])
    for one in found[1]:
        assert one.tokens == found[0][0].tokens
        assert one.log_probability == pytest.approx(found[0][0].log_probability, abs=1e-9)


@pytest.mark.parametrize("rules", [RULES[0], RULES[-1]], ids=str)
@pytest.mark.parametrize("name", FAMILIES)
def test_the_log_probability_is_the_models_own(name: str, rules: dict[str, float]) -> None:
    system = family(name)
    words = [8, 4, 4, 6]
    options = SearchOptions(sample=True, best=8, max_length=15, **rules)
    found = sampled(system, [sentence(words, options)])[0]
    assert len(found) == 8
    with torch.no_grad():
        scores = system.token_log_probabilities(make_batch([words] * 8, [one.tokens for one in found]))
    for one, row in zip(found, scores, strict=True):
        length = len(one.tokens) + one.complete
        assert one.token_log_probabilities == pytest.approx(row[:length].tolist(), abs=1e-9)
        assert one.score == one.log_probability == pytest.approx(math.fsum(one.token_log_probabilities))


def test_samples_stand_in_the_order_of_their_numbers_whatever_their_length() -> None:
    """Fewer samples are the first of more; those that were cut off stand among those that ended."""
    scorer = Markov(vocabulary=7, seed=2)
    many = sample_markov(scorer, SearchOptions(sample=True, best=40, max_length=3, max_ratio=None))
    assert {one.complete for one in many} == {True, False}
    assert all(len(one.tokens) == 3 for one in many if not one.complete)
    assert len({one.tokens for one in many}) > 5
    for count in (1, 7):
        assert (
            sample_markov(scorer, SearchOptions(sample=True, best=count, max_length=3, max_ratio=None)) == many[:count]
        )


def test_seeds_and_requests_draw_their_own() -> None:
    scorer = Markov(vocabulary=9)
    options = SearchOptions(sample=True, best=20)
    found = [sample_markov(scorer, replace(options, seed=seed), id_=id_) for seed in (0, 1, 2**63) for id_ in (0, 1)]
    assert found[0] == sample_markov(scorer, options)
    for one, other in itertools.combinations(found, 2):
        assert sum(a.tokens == b.tokens for a, b in zip(one, other, strict=True)) < 10


def test_rows_that_end_are_no_longer_computed() -> None:
    widths: list[int] = []

    class Watched(Markov):
        def step(self, tokens: torch.Tensor, state: object) -> object:
            widths.append(tokens.size(1))
            return super().step(tokens, state)

    found = sample_markov(Watched(vocabulary=7, end=1.0), SearchOptions(sample=True, best=50, max_ratio=None))
    lengths = np.array([len(one.token_log_probabilities) for one in found])
    assert widths == [int((lengths > step).sum()) for step in range(lengths.max())]


def test_a_scorer_that_permits_nothing_gives_no_samples() -> None:
    scorer = Markov(vocabulary=7)
    scorer.table[..., 4:] = -math.inf
    scorer.table[..., END] = -math.inf
    for rules in RULES:
        assert sample_markov(scorer, SearchOptions(sample=True, best=2, max_length=5, **rules)) == ()


def test_nan_is_an_error_for_samples_too() -> None:
    scorer = Markov(vocabulary=7)
    scorer.table[:] = math.nan
    with pytest.raises(ModelError, match="the model says NaN instead of probabilities"):
        sample_markov(scorer, SearchOptions(sample=True))
