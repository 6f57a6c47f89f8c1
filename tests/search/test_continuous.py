"""Sentences enter and leave while others run: what each gives depends on its own request only."""

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.batch import source_ids
from regard.models import EncoderDecoder
from regard.search import Finished, Hypothesis, Request, Search, SearchOptions
from tests.families import FAMILIES, family
from tests.markov import Markov, which

WORDS = (4, 5, 6, 7, 8)


def random_options(chance: random.Random) -> SearchOptions:
    if chance.random() < 0.4:
        return random_sampling(chance)
    beam = chance.randint(1, 6)
    return SearchOptions(
        beam=beam,
        best=chance.randint(1, beam),
        length_penalty=chance.choice([0.0, 0.6, 1.0]),
        max_length=chance.choice([1, 4, 12]),
        max_ratio=None,
        unknown=chance.random() < 0.3,
    )


def random_sampling(chance: random.Random) -> SearchOptions:
    return SearchOptions(
        sample=True,
        best=chance.randint(1, 6),
        temperature=chance.choice([0.7, 1.0]),
        top_k=chance.choice([None, 3]),
        top_p=chance.choice([None, 0.9]),
        typical=chance.choice([None, 0.9]),
        seed=chance.choice([0, 5]),
        max_length=chance.choice([1, 4, 12]),
        max_ratio=None,
    )


def random_prefix(chance: random.Random) -> tuple[int, ...]:
    return tuple(chance.choices((4, 5), k=chance.choice([0, 0, 1, 3])))


def sentences(count: int, seed: int) -> list[Request]:
    chance = random.Random(seed)
    requests = []
    for id_ in range(count):
        words = [chance.choice(WORDS) for _ in range(chance.randint(0, 9))]
        source = {"source": source_ids([words])}
        options, prefix = random_options(chance), random_prefix(chance)
        requests.append(Request(id=id_, sources=source, items=len(words) + 1, options=options, prefix=prefix))
    return requests


def alone(scorer: EncoderDecoder | Markov, request: Request) -> tuple[Hypothesis, ...]:
    return drain(Search(scorer), [request])[request.id]


def drain(search: Search, requests: list[Request]) -> dict[int, tuple[Hypothesis, ...]]:
    search.add(requests)
    found: dict[int, tuple[Hypothesis, ...]] = {}
    while search.busy:
        collect(search.step(), found)
    return found


def collect(finished: list[Finished], found: dict[int, tuple[Hypothesis, ...]]) -> None:
    for one in finished:
        assert one.id not in found
        found[one.id] = one.hypotheses


def assert_same(found: tuple[Hypothesis, ...], expected: tuple[Hypothesis, ...], tolerance: float = 1e-5) -> None:
    assert [one.tokens for one in found] == [one.tokens for one in expected]
    assert [one.complete for one in found] == [one.complete for one in expected]
    for one, other in zip(found, expected, strict=True):
        assert abs(one.log_probability - other.log_probability) <= tolerance
        assert one.token_log_probabilities == pytest.approx(other.token_log_probabilities, abs=tolerance, rel=0)


@pytest.mark.parametrize("capacity", [1, 3, 64])
@pytest.mark.parametrize("name", FAMILIES)
def test_together_and_alone_give_the_same(name: str, capacity: int) -> None:
    system = family(name, dtype=torch.float32)
    requests = sentences(14, seed=1)
    found = drain(Search(system, capacity=capacity), requests)
    assert sorted(found) == list(range(14))
    for request in requests:
        assert_same(found[request.id], alone(system, request))


@pytest.mark.parametrize("capacity", [1, 3, 64])
@pytest.mark.parametrize("name", FAMILIES)
def test_requests_may_come_while_others_run(name: str, capacity: int) -> None:
    system = family(name, dtype=torch.float32)
    requests = sentences(12, seed=2)
    chance = random.Random(3)
    search = Search(system, capacity=capacity)
    waiting = list(requests)
    found: dict[int, tuple[Hypothesis, ...]] = {}
    while waiting or search.busy:
        for _ in range(min(len(waiting), chance.randint(0, 2))):
            search.add([waiting.pop(0)])
        collect(search.step(), found)
    assert sorted(found) == list(range(12))
    for request in requests:
        assert_same(found[request.id], alone(system, request))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), capacity=st.sampled_from([1, 2, 3, 5, 64]), vocabulary=st.integers(6, 9))
def test_tables_give_exactly_the_same_together_and_alone(seed: int, capacity: int, vocabulary: int) -> None:
    """With cancelled requests and late ones; the scorer checks that rows keep their own state."""
    chance = random.Random(seed)
    scorer = Markov(vocabulary=vocabulary, seed=seed, tables=4, end=chance.choice([-2.0, 0.0, 2.0]))
    requests = [
        Request(
            id=id_,
            sources=which(chance.randrange(4)),
            items=3,
            options=random_options(chance),
            prefix=random_prefix(chance),
        )
        for id_ in range(10)
    ]
    search = Search(scorer, capacity=capacity)
    waiting = list(requests)
    cancelled: set[int] = set()
    found: dict[int, tuple[Hypothesis, ...]] = {}
    while waiting or search.busy:
        for _ in range(min(len(waiting), chance.randint(0, 3))):
            search.add([waiting.pop(0)])
        if chance.random() < 0.15:
            id_ = chance.randrange(10 - len(waiting)) if len(waiting) < 10 else 0
            if id_ not in found and id_ < 10 - len(waiting):
                cancelled.add(id_)
            search.cancel(id_)
        collect(search.step(), found)
    assert found.keys() == set(range(10)) - cancelled
    for request in requests:
        if request.id in found:
            assert_same(found[request.id], alone(scorer, request), tolerance=0.0)


@pytest.mark.parametrize("name", FAMILIES)
def test_cancelled_requests_disturb_nobody(name: str) -> None:
    system = family(name, dtype=torch.float32)
    requests = sentences(8, seed=4)
    search = Search(system, capacity=4)
    search.add(requests)
    found: dict[int, tuple[Hypothesis, ...]] = {}
    collect(search.step(), found)
    running = next(id_ for id_ in range(4) if id_ not in found)
    for id_ in (running, 6, 99):
        search.cancel(id_)
    while search.busy:
        collect(search.step(), found)
    assert sorted(found) == [id_ for id_ in range(8) if id_ not in (running, 6)]
    for id_, hypotheses in found.items():
        assert_same(hypotheses, alone(system, requests[id_]))


def test_cancelling_everything_leaves_an_idle_search() -> None:
    search = Search(Markov(vocabulary=7, end=-9.0))
    options = SearchOptions(max_length=9)
    search.add(Request(id=id_, sources=which(0), items=3, options=options) for id_ in range(3))
    search.step()
    assert search.busy
    for id_ in range(3):
        search.cancel(id_)
    assert not search.busy
    assert search.step() == []
    search.add([Request(id=5, sources=which(0), items=3, options=options)])
    assert [one.id for _ in range(9) for one in search.step()] == [5]


def test_no_more_than_capacity_runs_at_once() -> None:
    widest = 0

    class Counting(Markov):
        def step(self, tokens: torch.Tensor, state: object) -> object:
            nonlocal widest
            widest = max(widest, tokens.size(0))
            return super().step(tokens, state)

    search = Search(Counting(vocabulary=7), capacity=3)
    requests = [Request(id=id_, sources=which(0), items=3, options=SearchOptions()) for id_ in range(9)]
    assert len(drain(search, requests)) == 9
    assert widest == 3


def test_a_wide_beam_beside_one_that_finishes() -> None:
    """While a grid is still narrower than the beam, a sentence that leaves must not double the rows of the others."""
    scorer = Markov(vocabulary=6, tables=2, end=-3.0)
    wide = SearchOptions(beam=40, best=40, max_length=5, max_ratio=None)
    brief = SearchOptions(beam=1, max_length=1, max_ratio=None)
    requests = [
        Request(id=0, sources=which(0), items=1, options=brief),
        Request(id=1, sources=which(1), items=1, options=wide),
    ]
    found = drain(Search(scorer), requests)
    assert len(found[1]) == len({one.tokens for one in found[1]})
    assert_same(found[1], alone(scorer, requests[1]), tolerance=0.0)


def test_capacity_must_be_positive() -> None:
    with pytest.raises(ValueError, match="capacity must be at least 1, not 0"):
        Search(Markov(vocabulary=7), capacity=0)
