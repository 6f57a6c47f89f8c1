"""Ensembles and fusion against plain loops over what their members say, and against search over one table."""

import itertools
import math
import random
from typing import Any

import pytest
import torch

from regard.data.batch import Sources, make_batch, source_ids
from regard.data.joint import own_sources, pack_sources
from regard.errors import UsageError
from regard.models import COMBINES, Covering, EncoderDecoder, Ensemble, Fusion, Scorer
from regard.models.ensemble import Combine
from regard.search import Finished, Hypothesis, Request, Search, SearchOptions
from regard.special import END
from tests.families import family
from tests.markov import Markov, every_output, permitted, plain_beam, which

SOURCE = [4, 5, 6, 5]
OTHER = [6, 4]
WRONG: Any = "mean"
PAIRS = (("bahdanau gru", "transformer post"), ("rnn to transformer", "luong lstm"))


def run(scorer: Scorer, requests: list[Request], *, capacity: int = 64) -> dict[int, Finished]:
    search = Search(scorer, capacity=capacity)
    search.add(requests)
    found: dict[int, Finished] = {}
    while search.busy:
        found.update((one.id, one) for one in search.step())
    return found


def find(scorer: Scorer, sources: Sources, options: SearchOptions) -> tuple[Hypothesis, ...]:
    return run(scorer, [Request(id=3, sources=sources, items=5, options=options)])[3].hypotheses


def text(source: list[int]) -> Sources:
    return {"source": source_ids([source])}


def forced(system: EncoderDecoder, source: list[int], outputs: list[tuple[int, ...]]) -> list[list[list[float]]]:
    """log p of the whole vocabulary at each place of each output, teacher-forced."""
    with torch.no_grad():
        rows = iter(system.log_distribution(make_batch([source] * len(outputs), outputs)).tolist())
    return [[next(rows) for _ in range(len(tokens) + 1)] for tokens in outputs]


def together(said: list[list[float]], combine: Combine, weights: tuple[float, ...]) -> list[float]:
    """What members say of a vocabulary as one, from the equations."""
    columns = list(zip(*said, strict=True))
    if combine == "linear":
        return [math.log(sum(w * math.exp(x) for w, x in zip(weights, one, strict=True))) for one in columns]
    raw = [sum(w * x for w, x in zip(weights, one, strict=True)) for one in columns]
    whole = math.log(sum(map(math.exp, raw))) if combine == "loglinear" else 0.0
    return [one - whole for one in raw]


def loop(
    members: list[EncoderDecoder], sources: list[list[int]], combine: Combine, weights: tuple[float, ...], limit: int
) -> dict[tuple[int, ...], list[float]]:
    """log p of every token of every output of an ensemble."""
    outputs = every_output(permitted(members[0].vocabulary, SearchOptions()), limit)
    each = [forced(system, source, outputs) for system, source in zip(members, sources, strict=True)]
    found: dict[tuple[int, ...], list[float]] = {}
    for tokens, *said in zip(outputs, *each, strict=True):
        places = zip((*tokens, END), *said, strict=True)
        found[tokens] = [together(list(here), combine, weights)[token] for token, *here in places]
    return found


@pytest.mark.parametrize("combine", COMBINES)
@pytest.mark.parametrize("name", ["bahdanau gru", "transformer pre"])
def test_a_model_with_itself_is_the_model(name: str, combine: Combine) -> None:
    system = family(name, vocabulary=8)
    options = SearchOptions(beam=4, best=4, max_length=8)
    for weights in (None, (2.0, 1.0, 5.0)):
        both = Ensemble([system] * 3, combine=combine, weights=weights)
        found = find(both, pack_sources([text(SOURCE)] * 3), options)
        alone = find(system, text(SOURCE), options)
        assert [one.tokens for one in found] == [one.tokens for one in alone]
        for one, other in zip(found, alone, strict=True):
            assert one.log_probability == pytest.approx(other.log_probability, abs=1e-6)
            assert one.token_log_probabilities == pytest.approx(other.token_log_probabilities, abs=1e-6)


@pytest.mark.parametrize(("combine", "weights"), [*((one, None) for one in COMBINES), ("loglinear", (3.0, 1.0))])
@pytest.mark.parametrize("names", PAIRS)
def test_a_full_beam_over_an_ensemble_is_exhaustive(
    names: tuple[str, str], combine: Combine, weights: tuple[float, float] | None
) -> None:
    """The members read the source with other tokens, which is what makes an ensemble of different runs."""
    members = [family(name, vocabulary=7, seed=seed) for seed, name in enumerate(names)]
    every = loop(members, [SOURCE, OTHER], combine, (0.75, 0.25) if weights else (0.5, 0.5), 4)
    options = SearchOptions(beam=400, best=12, length_penalty=0.6, max_length=4)
    ensemble = Ensemble(members, combine=combine, weights=weights)
    found = find(ensemble, pack_sources([text(SOURCE), text(OTHER)]), options)
    expected = sorted(every, key=lambda tokens: -sum(every[tokens]) / len(every[tokens]) ** 0.6)
    assert [one.tokens for one in found] == expected[:12]
    for one in found:
        assert one.token_log_probabilities == pytest.approx(every[one.tokens], abs=1e-9)
        assert one.log_probability == pytest.approx(sum(every[one.tokens]), abs=1e-9)


@pytest.mark.parametrize("combine", COMBINES)
def test_given_targets_have_the_probabilities_of_search(combine: Combine) -> None:
    members = [family(name, vocabulary=7) for name in PAIRS[0]]
    weights = (0.75, 0.25)
    every = loop(members, [SOURCE, OTHER], combine, weights, 4)
    targets = [(4, 6), (), (5, 5, 4)]
    batches = [make_batch([source] * 3, targets) for source in (SOURCE, OTHER)]
    joint = make_batch([SOURCE] * 3, targets)
    packed = type(joint)(pack_sources([one.sources for one in batches]), joint.inputs, joint.outputs, joint.mask)
    with torch.no_grad():
        scores = Ensemble(members, combine=combine, weights=weights).token_log_probabilities(packed)
    for tokens, row in zip(targets, scores.tolist(), strict=True):
        assert row == pytest.approx([*every[tokens], 0.0, 0.0, 0.0][: len(row)], abs=1e-9)


@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_a_full_beam_with_fusion_is_exhaustive(penalty: float) -> None:
    members = [family(name, vocabulary=7) for name in PAIRS[0]]
    language, weight = Markov(vocabulary=7, seed=5), 0.7
    own = loop(members, [SOURCE, OTHER], "linear", (0.5, 0.5), 4)
    says = language.following(0)
    added = {
        tokens: [weight * says(tokens[:place])[token] for place, token in enumerate((*tokens, END))] for tokens in own
    }
    score = {tokens: sum(own[tokens] + added[tokens]) / len(own[tokens]) ** penalty for tokens in own}
    options = SearchOptions(beam=400, best=12, length_penalty=penalty, max_length=4)
    fused = Fusion(Ensemble(members), language, weight=weight)
    found = find(fused, pack_sources([pack_sources([text(SOURCE), text(OTHER)]), which(0)]), options)
    assert [one.tokens for one in found] == sorted(own, key=lambda tokens: -score[tokens])[:12]
    for one in found:
        length = len(own[one.tokens]) ** penalty
        assert one.log_probability == pytest.approx(sum(own[one.tokens]), abs=1e-9)
        assert one.token_log_probabilities == pytest.approx(own[one.tokens], abs=1e-9)
        assert one.score == pytest.approx(score[one.tokens], abs=1e-9)
        assert one.parts.fusion == pytest.approx(sum(added[one.tokens]) / length, abs=1e-9)
        assert one.parts.likelihood + one.parts.fusion == pytest.approx(one.score, abs=1e-9)


@pytest.mark.parametrize("seed", range(12))
def test_fusion_never_stops_too_early(seed: int) -> None:
    """Against a beam that runs to the limit: its bound must hold with what the language model adds."""
    chance = random.Random(seed)
    model, language = Markov(vocabulary=7, seed=seed, end=-1.0), Markov(vocabulary=7, seed=seed + 99, spread=3.0)
    weight, beam = chance.choice([0.1, 1.0, 4.0]), chance.choice([1, 2, 5])
    options = SearchOptions(beam=beam, length_penalty=chance.choice([0.0, 0.6, 1.0, 2.0]), max_length=9, max_ratio=None)
    says, adds = model.following(0), language.following(0)

    def fused(tokens: tuple[int, ...]) -> list[float]:
        return [one + weight * other for one, other in zip(says(tokens), adds(tokens), strict=True)]

    expected = plain_beam(fused, 7, options, 9)[0]
    (found,) = find(Fusion(model, language, weight=weight), pack_sources([which(0), which(0)]), options)
    assert found.tokens == expected.tokens
    assert found.score == pytest.approx(expected.score(options.length_penalty), abs=1e-9)


class Renormalised(Markov):
    """One table that says what a model and a language model say together."""

    def __init__(self, one: Markov, other: Markov, weight: float) -> None:
        super().__init__(vocabulary=one.vocabulary)
        self.table = (one.table + weight * other.table).log_softmax(-1)


@pytest.mark.parametrize(
    "options",
    [
        SearchOptions(sample=True, best=20, top_p=0.9, max_length=8),
        SearchOptions(stochastic=True, beam=6, best=6, max_length=8),
    ],
)
def test_samples_are_drawn_from_what_both_say(options: SearchOptions) -> None:
    model, language = Markov(vocabulary=8, seed=1), Markov(vocabulary=8, seed=2)
    fused = find(Fusion(model, language, weight=0.5), pack_sources([which(0), which(0)]), options)
    table = find(Renormalised(model, language, 0.5), which(0), options)
    assert [one.tokens for one in fused] == [one.tokens for one in table]
    assert len({one.tokens for one in fused}) > 3
    says = model.following(0)
    for one in fused:
        steps = [says(one.tokens[:place])[token] for place, token in enumerate((*one.tokens, END))]
        assert one.log_probability == pytest.approx(sum(steps[: len(one.token_log_probabilities)]), abs=1e-9)


def test_fusion_with_no_weight_is_none() -> None:
    system, language = family("bahdanau gru", vocabulary=8), Markov(vocabulary=8)
    for options in (SearchOptions(beam=4, best=4, max_length=8), SearchOptions(sample=True, best=4, max_length=8)):
        fused = find(Fusion(system, language, weight=0.0), pack_sources([text(SOURCE), which(0)]), options)
        assert fused == find(system, text(SOURCE), options)


def test_a_trace_tells_what_the_language_model_adds() -> None:
    model, language, weight = Markov(vocabulary=7, seed=3), Markov(vocabulary=7, seed=4), 0.5
    options = SearchOptions(beam=3, max_length=6, trace=True)
    sources = pack_sources([which(0), which(0)])
    done = run(Fusion(model, language, weight=weight), [Request(0, sources, 3, options)])[0]
    assert done.trace is not None
    for node in done.trace.nodes:
        path = done.trace.path(node)
        assert node.log_probability == pytest.approx(model.following(0)(path[:-1])[path[-1]], abs=1e-9)
        assert node.fusion == pytest.approx(weight * language.following(0)(path[:-1])[path[-1]], abs=1e-9)
        before = done.trace.nodes[node.parent].total if node.parent >= 0 else 0.0
        assert node.total == pytest.approx(before + node.log_probability + node.fusion, abs=1e-9)


def requests(count: int) -> list[Request]:
    """Sentences of many lengths and options for an ensemble of two with a language model."""
    chance = random.Random(8)
    made = []
    for id_ in range(count):
        one, other = ([chance.choice((4, 5, 6, 7)) for _ in range(chance.randint(0, 9))] for _ in range(2))
        sources = pack_sources([pack_sources([text(one), text(other)]), which(chance.randrange(3))])
        options = chance.choice(
            [
                SearchOptions(beam=chance.randint(1, 5), max_length=chance.choice([3, 10])),
                SearchOptions(sample=True, best=3, seed=5, max_length=9),
                SearchOptions(stochastic=True, beam=3, best=3, max_length=9),
                SearchOptions(beam=4, best=2, groups=2, diversity=0.5, block_ngrams=2, max_length=9),
            ]
        )
        made.append(Request(id_, sources, len(one) + 1, options, prefix=chance.choice([(), (5,), (4, 4)])))
    return made


@pytest.mark.parametrize(("names", "combine"), list(zip(PAIRS, ("linear", "loglinear"), strict=True)))
def test_the_same_alone_and_in_company(names: tuple[str, str], combine: Combine) -> None:
    members = [family(name, vocabulary=8, dtype=torch.float32) for name in names]
    scorer = Fusion(Ensemble(members, combine=combine), Markov(vocabulary=8, tables=3), weight=0.3)
    some = requests(14)
    company = run(scorer, some, capacity=5)
    for request in some:
        alone = run(scorer, [request])[request.id].hypotheses
        assert [one.tokens for one in alone] == [one.tokens for one in company[request.id].hypotheses]
        for one, other in zip(alone, company[request.id].hypotheses, strict=True):
            assert one.log_probability == pytest.approx(other.log_probability, abs=1e-5)
            assert one.score == pytest.approx(other.score, abs=1e-5)
            assert one.parts.fusion == pytest.approx(other.parts.fusion, abs=1e-5)


def test_coverage_is_that_of_the_first_member() -> None:
    first, second = (family(name, vocabulary=8) for name in PAIRS[0])
    covering, tokens = Covering(first), torch.tensor([[1]])
    scorer = Fusion(Ensemble([covering, second]), Markov(vocabulary=8), weight=0.3)
    with torch.no_grad():
        sources = pack_sources([pack_sources([text(SOURCE), text(OTHER)]), which(0)])
        told = scorer.step(tokens, scorer.start(sources)).coverage
        expected = covering.step(tokens, covering.start(text(SOURCE))).coverage
    assert told is not None
    assert expected is not None
    torch.testing.assert_close(told, expected)


def test_the_shortest_limit_of_reading_is_that_of_all() -> None:
    unbounded, short, long = Markov(vocabulary=7), Markov(vocabulary=7), Markov(vocabulary=7)
    short.longest, long.longest = 4, 9
    assert Ensemble([unbounded, unbounded]).longest is None
    for order in itertools.permutations((unbounded, short, long)):
        assert Ensemble(order).longest == 4
    assert Fusion(unbounded, short, weight=1.0).longest == 4
    assert Fusion(long, unbounded, weight=1.0).longest == 9
    assert Fusion(unbounded, unbounded, weight=1.0).longest is None


def test_sources_are_packed_and_unpacked() -> None:
    one, other = text(SOURCE), {**text(OTHER), "attributes": which(1)["source"]}
    packed = pack_sources([one] * 11 + [other])
    assert own_sources(packed, 1) == one
    assert own_sources(packed, 12) == other
    assert own_sources(packed, 13) == {}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda one, other: Ensemble([]), "an ensemble has at least one member, and none was given"),
        (lambda one, other: Ensemble([one], combine=WRONG), "combine must be one of linear, loglinear, loglinear_raw"),
        (lambda one, other: Ensemble([one, other]), r"share a vocabulary, and these have \[7, 8\] ids"),
        (lambda one, other: Ensemble([one], weights=(1, 2)), "2 weights were given for 1 members; give one for each"),
        (lambda one, other: Ensemble([one] * 2, weights=(1, 0)), "a weight must be a number above 0, not 0; leave out"),
        (lambda one, other: Ensemble([one], weights=[math.inf]), "a weight must be a number above 0, not inf"),
        (lambda one, other: Fusion(one, one, weight=-0.1), "must be a number from 0 on, not -0.1; 0 is none"),
        (lambda one, other: Fusion(one, one, weight=math.nan), "must be a number from 0 on, not nan"),
        (lambda one, other: Fusion(one, other, weight=1), "of its own vocabulary, and these have 7 and 8 ids"),
    ],
)
def test_what_cannot_be_combined_is_refused(make, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UsageError, match=message):
        make(Markov(vocabulary=7), Markov(vocabulary=8))
