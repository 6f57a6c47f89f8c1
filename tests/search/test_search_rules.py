"""Penalties against their closed forms, rules against filters of all outputs, draws against exact probabilities."""

import copy
import itertools
import math
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.batch import make_batch, source_ids
from regard.errors import UsageError
from regard.insight import cross_attention
from regard.models import Covering, EncoderDecoder, Scorer
from regard.search import Finished, Request, Search, SearchOptions
from regard.search.running import repeated
from regard.search.trace import Node
from regard.special import END
from tests.families import FAMILIES, family
from tests.markov import Found, Markov, every_output, permitted, which


def found_by(scorer: Scorer, requests: list[Request]) -> dict[int, Finished]:
    search = Search(scorer)
    search.add(requests)
    found: dict[int, Finished] = {}
    while search.busy:
        found.update((one.id, one) for one in search.step())
    return found


def find(scorer: Scorer, options: SearchOptions) -> Finished:
    return found_by(scorer, [Request(0, which(0), 3, options)])[0]


def everything(scorer: Markov, options: SearchOptions, limit: int) -> list[Found]:
    look_up = scorer.following(0)
    found = []
    for tokens in every_output(permitted(scorer.vocabulary, options), limit):
        steps = [look_up(tokens[:item])[token] for item, token in enumerate((*tokens, END))]
        found.append(Found(tokens=tokens, steps=tuple(steps), complete=True))
    return found


@pytest.mark.parametrize(
    ("log_probability", "length", "settings", "score"),
    [
        (-6.0, 1, {"length_formula": "gnmt"}, -6.0),
        (-6.0, 7, {"length_formula": "gnmt"}, -3.0),
        (-6.0, 19, {"length_formula": "gnmt", "length_penalty": 0.5}, -3.0),
        (-6.0, 19, {"length_formula": "gnmt", "length_penalty": 0.0}, -6.0),
        (-6.0, 3, {"coverage_penalty": 0.5}, -2.0 - 0.5 * 4.0),
    ],
)
def test_scores_have_closed_forms(
    log_probability: float, length: int, settings: dict[str, float], score: float
) -> None:
    assert SearchOptions(**settings).score(log_probability, length, -4.0) == pytest.approx(score)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    formula=st.sampled_from(["plain", "gnmt"]),
    penalty=st.sampled_from([0.0, 0.4, 1.0, 2.0]),
    shortest=st.integers(1, 4),
    block=st.integers(0, 2),
    best=st.integers(1, 4),
    end=st.sampled_from([0.0, 3.0]),
)
def test_rules_and_penalties_find_the_best_of_all_outputs(
    seed: int, formula: str, penalty: float, shortest: int, block: int, best: int, end: float
) -> None:
    """The search stops early by its bound, and nothing better is left."""
    scorer = Markov(vocabulary=6, seed=seed, end=end)
    options = SearchOptions(
        beam=500,
        best=best,
        length_penalty=penalty,
        length_formula=formula,
        min_length=shortest,
        block_ngrams=block,
        max_length=5,
    )

    def score(one: Found) -> float:
        length = len(one.steps)
        return one.log_probability / (length if formula == "plain" else (5 + length) / 6) ** penalty

    def repeats(tokens: tuple[int, ...]) -> bool:
        grams = [tokens[place : place + block] for place in range(len(tokens) - block + 1)]
        return block > 0 and len(set(grams)) < len(grams)

    good = [one for one in everything(scorer, options, 5) if len(one.steps) >= shortest and not repeats(one.tokens)]
    good.sort(key=lambda one: -score(one))
    found = find(scorer, options).hypotheses
    assert [one.tokens for one in found] == [one.tokens for one in good[:best]]
    assert [one.score for one in found] == pytest.approx([score(one) for one in good[:best]])


@pytest.mark.parametrize(
    ("history", "length", "expected"),
    [([4, 5, 4], 2, {5}), ([4, 5, 4], 1, {4, 5}), ([4, 5], 3, set()), ([4, 5, 6, 4, 5], 3, {6}), ([], 1, set())],
)
def test_tokens_that_would_repeat(history: list[int], length: int, expected: set[int]) -> None:
    assert repeated(history, length) == expected


def sources(words: list[int]) -> dict[str, object]:
    return {"source": source_ids([words])}


def attends(name: str) -> bool:
    batch = make_batch([[4, 5]], [[4]])
    return bool(cross_attention(family(name, vocabulary=7), batch)[0])


@pytest.mark.parametrize("name", FAMILIES)
def test_coverage_is_that_of_the_attention(name: str) -> None:
    """Of all outputs the best by log p / lp + β Σ_j log min(Σ_i a_ij, 1), for two sentences at once."""
    system = family(name, vocabulary=7)
    assert isinstance(system, EncoderDecoder)
    options = SearchOptions(beam=300, best=5, coverage_penalty=0.7, length_formula="gnmt", max_length=4)
    texts = [[4, 5, 6, 5, 4], [6, 4]]
    requests = [Request(number, sources(text), 5, options) for number, text in enumerate(texts)]
    if not attends(name):
        with pytest.raises(UsageError, match="coverage_penalty needs attention to the source, and this model has none"):
            found_by(Covering(system), requests)
        return
    found = found_by(Covering(system), requests)
    for number, text in enumerate(texts):
        outputs = every_output(permitted(7, options), 4)
        batch = make_batch([text] * len(outputs), outputs)
        expected = []
        with torch.no_grad():
            scores = system.token_log_probabilities(batch).sum(1).tolist()
            mask = system.memory(batch.sources).mask[0]
        for tokens, whole, layers in zip(outputs, scores, cross_attention(system, batch), strict=True):
            covered = layers[-1].mean(0).sum(0)[mask].clamp(1e-6, 1.0).log().sum()
            length = len(tokens) + 1
            expected.append((whole / ((5 + length) / 6) + 0.7 * float(covered), tokens, 0.7 * float(covered)))
        expected.sort(reverse=True)
        for one, (score, tokens, coverage) in zip(found[number].hypotheses, expected, strict=False):
            assert one.tokens == tokens
            assert one.score == pytest.approx(score, abs=1e-5)
            assert one.parts.coverage == pytest.approx(coverage, abs=1e-5)
            assert one.parts.likelihood + one.parts.coverage == pytest.approx(one.score)


def plain_diverse(scorer: Markov, options: SearchOptions, limit: int) -> list[Found]:
    """Diverse beam search by the book, one group after the other at each step."""
    look_up = scorer.following(0)
    words = [*permitted(scorer.vocabulary, options), END]
    groups = [[Found((), (), False)] for _ in range(options.groups)]
    done: dict[tuple[int, ...], Found] = {}
    for _ in range(limit):
        taken: Counter[int] = Counter()
        for number, group in enumerate(groups):
            continued = [(row, token, look_up(row.tokens)[token]) for row in group for token in words]
            continued.sort(key=lambda one: -(one[0].log_probability + one[2] - options.diversity * taken[one[1]]))
            groups[number] = []
            chosen = continued[: options.beam // options.groups]
            for row, token, said in chosen:
                longer = Found((*row.tokens, token) if token != END else row.tokens, (*row.steps, said), token == END)
                if token == END:
                    done[row.tokens] = longer
                else:
                    groups[number].append(longer)
            taken.update(token for _, token, _ in chosen)
    return sorted(done.values(), key=lambda one: -one.score(options.length_penalty))


@pytest.mark.parametrize("seed", range(15))
def test_groups_avoid_what_others_have_taken(seed: int) -> None:
    scorer = Markov(vocabulary=8, seed=seed)
    for groups, beam, diversity in ((2, 4, 0.5), (3, 6, 2.0), (4, 4, 1.0)):
        options = SearchOptions(beam=beam, best=beam, groups=groups, diversity=diversity, max_length=5, max_ratio=None)
        expected = plain_diverse(scorer, options, 5)[:beam]
        found = find(scorer, options).hypotheses
        if expected:
            assert [one.tokens for one in found] == [one.tokens for one in expected]
            assert [one.score for one in found] == pytest.approx([one.score(1.0) for one in expected])
        together = found_by(scorer, [Request(number, which(0), 3, options) for number in range(3)])
        assert all(
            [one.tokens for one in each.hypotheses] == [one.tokens for one in found] for each in together.values()
        )


def leaves(scorer: Markov, options: SearchOptions, limit: int) -> dict[tuple[int, ...], float]:
    """Every output, END included, or cut off at the limit, with its probability."""
    look_up = scorer.following(0)
    words = [*permitted(scorer.vocabulary, options), END]
    found: dict[tuple[int, ...], float] = {}
    running = {(): 1.0}
    for step in range(limit):
        longer: dict[tuple[int, ...], float] = {}
        for tokens, share in running.items():
            said = [math.exp(look_up(tokens)[word] / options.temperature) for word in words]
            for word, weight in zip(words, said, strict=True):
                place = found if word == END or step == limit - 1 else longer
                place[*tokens, word] = share * weight / math.fsum(said)
        running = longer
    return found


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_a_stochastic_beam_draws_without_replacement(temperature: float) -> None:
    """Inclusion frequencies against exact ones: all ordered draws of three, each without those before it."""
    scorer = Markov(vocabulary=6, seed=5, spread=1.0)
    options = SearchOptions(
        stochastic=True, beam=3, best=3, seed=9, temperature=temperature, max_length=3, max_ratio=None
    )
    exact = leaves(scorer, options, 3)
    assert math.fsum(exact.values()) == pytest.approx(1.0)
    included, first = Counter[tuple[int, ...]](), Counter[tuple[int, ...]]()
    for one, two, three in itertools.permutations(exact, 3):
        left = 1.0 - exact[one]
        share = exact[one] * exact[two] / left * exact[three] / (left - exact[two])
        for each in (one, two, three):
            included[each] += share
    count = 2500
    drawn = Counter[tuple[int, ...]]()
    found = found_by(scorer, [Request(number, which(0), 3, options) for number in range(count)])
    for each in found.values():
        outputs = [(*one.tokens, END) if one.complete else one.tokens for one in each.hypotheses]
        assert len(set(outputs)) == 3
        values = [one.score for one in each.hypotheses]
        assert values == sorted(values, reverse=True)
        assert [one.parts.perturbed for one in each.hypotheses] == values
        drawn.update(outputs)
        first[outputs[0]] += 1
    for output, share in exact.items():
        for seen, wanted in ((drawn[output], included[output]), (first[output], share)):
            assert abs(seen / count - wanted) < 4.5 * math.sqrt(wanted * (1 - wanted) / count) + 1e-9


def test_a_stochastic_beam_of_no_temperature_is_greedy() -> None:
    """The first output is; what comes behind it differs from it as little as possible."""
    scorer = Markov(vocabulary=7, seed=3)
    (greedy,) = find(scorer, SearchOptions(beam=1, max_length=6)).hypotheses
    for temperature in (1e-3, 1e-300, 5e-324):
        options = SearchOptions(stochastic=True, beam=3, best=3, temperature=temperature, max_length=6)
        assert find(scorer, options).hypotheses[0].tokens == greedy.tokens


def test_a_stochastic_beam_as_wide_as_the_space_has_every_output_once() -> None:
    scorer = Markov(vocabulary=6, seed=2)
    options = SearchOptions(stochastic=True, beam=40, best=40, max_length=3, max_ratio=None)
    found = find(scorer, options).hypotheses
    outputs = [(*one.tokens, END) if one.complete else one.tokens for one in found]
    assert sorted(outputs) == sorted(leaves(scorer, options, 3))
    look_up = scorer.following(0)
    for one, output in zip(found, outputs, strict=True):
        steps = [look_up(output[:place])[token] for place, token in enumerate(output)]
        assert one.token_log_probabilities == pytest.approx(steps)
        assert one.log_probability == pytest.approx(math.fsum(steps))


def taken(node: Node) -> bool:
    return node.fate != "pruned"


def test_a_trace_tells_coverage() -> None:
    options = SearchOptions(beam=3, best=3, coverage_penalty=0.7, max_length=6, trace=True)
    finished = found_by(Covering(family("bahdanau gru")), [Request(0, sources([4, 5, 6]), 4, options)])[0]
    trace = finished.trace
    assert trace is not None
    ended = {trace.path(node)[:-1]: node for node in trace.nodes if node.fate == "ended"}
    for one in finished.hypotheses:
        if one.complete:
            assert ended[one.tokens].coverage == pytest.approx(one.parts.coverage)
            assert ended[one.tokens].score == pytest.approx(one.parts.likelihood + one.parts.coverage)
    assert len({round(node.coverage, 6) for node in trace.nodes}) > 3
    assert all(node.coverage < 0 for node in trace.nodes)


def test_a_trace_tells_the_score_of_what_was_cut() -> None:
    system = copy.deepcopy(family("bahdanau gru"))
    with torch.no_grad():
        system.decoder.output.bias[END] = -math.inf
    options = SearchOptions(beam=2, best=2, coverage_penalty=0.7, max_length=3, trace=True)
    finished = found_by(Covering(system), [Request(0, sources([4, 5, 6]), 4, options)])[0]
    assert finished.trace is not None
    cut = {finished.trace.path(node): node for node in finished.trace.nodes if node.fate == "cut"}
    assert not any(one.complete for one in finished.hypotheses)
    for one in finished.hypotheses:
        assert cut[one.tokens].score == pytest.approx(one.score)
        assert one.parts.coverage < 0


@pytest.mark.parametrize("kind", ["beam", "groups", "stochastic", "sample"])
@pytest.mark.parametrize("seed", range(4))
def test_a_trace_is_the_tree_that_was_searched(kind: str, seed: int) -> None:
    scorer = Markov(vocabulary=8, seed=seed)
    rules = {
        "beam": {},
        "groups": {"groups": 2, "diversity": 0.5},
        "stochastic": {"stochastic": True},
        "sample": {"sample": True},
    }[kind]
    options = SearchOptions(beam=4, best=4, max_length=5, max_ratio=None, trace=True, **rules)
    finished = find(scorer, options)
    trace = finished.trace
    assert trace is not None
    look_up = scorer.following(0)
    for node in trace.nodes:
        path = trace.path(node)
        assert len(path) == node.step + 1
        before = trace.nodes[node.parent].total if node.parent >= 0 else 0.0
        assert node.log_probability == pytest.approx(look_up(path[:-1])[node.token])
        assert node.total == pytest.approx(before + node.log_probability)
        assert (node.token == END and node.fate != "pruned") is (node.fate == "ended")
        if node.parent >= 0:
            assert trace.nodes[node.parent].fate == "kept"
        assert (node.perturbed is not None) is (kind == "stochastic" and node.fate != "pruned")
        if node.perturbed is not None and node.parent >= 0:
            assert node.perturbed <= (trace.nodes[node.parent].perturbed or 0.0) + 1e-9
    for token in {node.token for node in trace.nodes}:
        costs = sorted(node.diversity for node in trace.nodes if node.step == 0 and node.token == token and taken(node))
        # of two groups the second pays for what the first has taken
        assert costs == ([0.0, 0.5][: len(costs)] if kind == "groups" else [0.0] * len(costs))
    for step in range(5):
        here = [node for node in trace.nodes if node.step == step]
        assert [node.rank for node in here] == list(range(len(here)))
        assert [node.total for node in here] == sorted((node.total for node in here), reverse=True)
        assert sum(node.fate != "pruned" for node in here) <= 4
        if kind == "beam" and here:
            worst = min(node.total for node in here if node.fate != "pruned")
            assert all(node.total <= worst for node in here if node.fate == "pruned")
    ended = {trace.path(node)[:-1]: node.score for node in trace.nodes if node.fate == "ended"}
    for one in finished.hypotheses:
        if one.complete and kind != "sample":
            assert ended[one.tokens] == pytest.approx(one.score)
    assert find(scorer, SearchOptions(beam=4, best=4, max_length=5, max_ratio=None, **rules)).trace is None
    cut = [node for node in trace.nodes if node.fate == "cut"]
    assert len(cut) == sum(not one.complete for one in finished.hypotheses) or kind == "stochastic"


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"min_length": 0}, "min_length must lie between 1 and max_length (256), not be 0"),
        ({"min_length": 9, "max_length": 8}, "min_length must lie between 1 and max_length (8), not be 9"),
        ({"block_ngrams": -1}, "block_ngrams must be 1 or more tokens, or 0 for none, not -1"),
        ({"length_formula": "log"}, "length_formula must be one of plain, gnmt, not 'log'"),
        ({"coverage_penalty": -1.0}, "coverage_penalty must be a number from 0 on, not -1.0"),
        ({"coverage_penalty": 1.0, "sample": True}, "coverage_penalty has no effect on samples"),
        ({"groups": 2, "diversity": 1.0}, "a beam of 5 cannot be split evenly into 2 groups"),
        ({"groups": 5, "diversity": -1.0}, "diversity must be a number from 0 on, not -1.0"),
        ({"groups": 5}, "groups (5) and diversity (0.0) have an effect only together"),
        ({"diversity": 1.0}, "groups (1) and diversity (1.0) have an effect only together"),
        ({"groups": 5, "diversity": 1.0, "stochastic": True}, "groups are of a beam that looks for the best"),
        ({"sample": True, "stochastic": True}, "sample draws with replacement and stochastic without; choose one"),
        ({"stopping": "never"}, "stopping must be one of exact, early, not 'never'"),
        ({"stopping": "early", "sample": True}, "early stopping has no effect on samples"),
        ({"stopping": "early", "stochastic": True}, "early stopping has no effect on samples"),
        ({"stochastic": True, "top_k": 3}, "top_k can only have an effect on samples"),
        ({"stochastic": True, "temperature": 0.0}, "temperature must be a number above 0, not 0.0"),
    ],
)
def test_rules_that_make_no_sense_are_refused(rules: dict[str, float], message: str) -> None:
    with pytest.raises(UsageError) as error:
        SearchOptions(**rules)
    assert str(error.value).startswith(message)
