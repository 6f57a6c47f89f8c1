"""Beam search against exhaustive search, against greedy search, and against a plain search that never stops early."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.batch import make_batch, source_ids
from regard.errors import ModelError
from regard.models import EncoderDecoder
from regard.search import Finished, Hypothesis, Request, Search, SearchOptions
from regard.search.beam import best_alone, best_continuations
from regard.search.options import normalised
from regard.special import END, PAD, START, UNKNOWN
from tests.families import FAMILIES, family
from tests.markov import Found, Markov, every_output, permitted, plain_beam, which

PENALTIES = (0.0, 0.6, 1.0)


def run(search: Search) -> dict[int, Finished]:
    finished: dict[int, Finished] = {}
    while search.busy:
        for one in search.step():
            assert one.id not in finished
            finished[one.id] = one
    return finished


def search_markov(scorer: Markov, options: SearchOptions, *, table: int = 0) -> tuple[Hypothesis, ...]:
    search = Search(scorer)
    search.add([Request(id=7, sources=which(table), items=3, options=options)])
    return run(search)[7].hypotheses


def search_system(system: EncoderDecoder, source: list[int], options: SearchOptions) -> tuple[Hypothesis, ...]:
    search = Search(system)
    request = Request(id=0, sources={"source": source_ids([source])}, items=len(source) + 1, options=options)
    search.add([request])
    return run(search)[0].hypotheses


def forced(system: EncoderDecoder, source: list[int], outputs: list[tuple[int, ...]]) -> list[Found]:
    """Outputs scored by teacher forcing, END included."""
    with torch.no_grad():
        scores = system.token_log_probabilities(make_batch([source] * len(outputs), outputs))
    return [
        Found(tokens=tokens, steps=tuple(row[: len(tokens) + 1].tolist()), complete=True)
        for tokens, row in zip(outputs, scores, strict=True)
    ]


def assert_same(found: tuple[Hypothesis, ...], expected: list[Found], penalty: float, tolerance: float = 1e-9) -> None:
    assert [one.tokens for one in found] == [one.tokens for one in expected]
    for one, other in zip(found, expected, strict=True):
        assert one.complete is other.complete
        assert one.log_probability == pytest.approx(other.log_probability, abs=tolerance, rel=0)
        assert one.score == pytest.approx(other.score(penalty), abs=tolerance, rel=0)
        assert one.token_log_probabilities == pytest.approx(other.steps, abs=tolerance, rel=0)


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("unknown", [False, True])
@pytest.mark.parametrize("name", FAMILIES)
def test_a_beam_as_wide_as_the_space_is_exhaustive_for_every_family(name: str, unknown: bool, penalty: float) -> None:
    system = family(name, vocabulary=7)
    options = SearchOptions(beam=400, best=12, length_penalty=penalty, max_length=4, unknown=unknown)
    source = [4, 5, 6, 5]
    expected = forced(system, source, every_output(permitted(7, options), 4))
    assert len(expected) == (85 if unknown else 40)
    expected.sort(key=lambda one: -one.score(penalty))
    assert_same(search_system(system, source, options), expected[:12], penalty)


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("seed", range(4))
def test_a_beam_as_wide_as_the_space_is_exhaustive_for_tables(seed: int, penalty: float) -> None:
    scorer = Markov(vocabulary=6, seed=seed)
    options = SearchOptions(beam=500, best=40, length_penalty=penalty, max_length=5)
    look_up = scorer.following(0)
    expected = []
    for tokens in every_output(permitted(6, options), 5):
        steps = [look_up(tokens[:item])[token] for item, token in enumerate((*tokens, END))]
        expected.append(Found(tokens=tokens, steps=tuple(steps), complete=True))
    expected.sort(key=lambda one: -one.score(penalty))
    assert len(expected) == 31
    assert_same(search_markov(scorer, options), expected, penalty)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("seed", range(3))
def test_beam_one_is_greedy(name: str, penalty: float, seed: int) -> None:
    system = family(name, vocabulary=8, seed=seed)
    source = [4, 7, 5]
    options = SearchOptions(beam=1, length_penalty=penalty, max_length=12)
    tokens: list[int] = []
    with torch.no_grad():
        state = system.start({"source": source_ids([source])})
        token = START
        while token != END and len(tokens) < 12:
            step = system.step(torch.tensor([[token]]), state)
            state = step.state
            said = step.log_probabilities[0, 0]
            said[[PAD, START, UNKNOWN]] = -math.inf
            token = int(said.argmax())
            tokens.append(token)
    complete = tokens[-1] == END
    (found,) = search_system(system, source, options)
    assert found.tokens == tuple(tokens[:-1] if complete else tokens)
    assert found.complete is complete


@pytest.mark.parametrize("beam", [1, 2, 5])
@pytest.mark.parametrize("name", FAMILIES)
def test_search_and_forced_scoring_say_the_same(name: str, beam: int) -> None:
    system = family(name)
    source = [8, 4, 4, 6]
    found = search_system(system, source, SearchOptions(beam=beam, best=beam, max_length=15))
    assert 1 <= len(found) <= beam
    for one in found:
        assert one.log_probability == pytest.approx(math.fsum(one.token_log_probabilities), abs=1e-9)
        assert one.score == pytest.approx(one.log_probability / len(one.token_log_probabilities))
    complete = [one for one in found if one.complete]
    expected = forced(system, source, [one.tokens for one in complete]) if complete else []
    assert_same(tuple(complete), expected, 1.0)


@pytest.mark.parametrize("name", FAMILIES)
def test_in_single_precision_a_long_output_has_exact_token_scores(name: str) -> None:
    """Sums run in double precision, so no token's score drowns in the sum of those before it."""
    system = family(name, dtype=torch.float32)
    with torch.no_grad():
        for parameter in system.decoder.output.parameters():
            parameter.mul_(0.2)
    (found,) = search_system(system, [4, 5, 6], SearchOptions(beam=1, max_length=300, max_ratio=None))
    tokens = found.tokens if found.complete else found.tokens[:-1]
    (expected,) = forced(system, [4, 5, 6], [tokens])
    length = len(tokens) + found.complete
    assert found.token_log_probabilities[:length] == pytest.approx(expected.steps[:length], abs=1e-5, rel=0)
    assert found.log_probability == pytest.approx(math.fsum(found.token_log_probabilities), abs=1e-9, rel=0)


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    vocabulary=st.integers(5, 9),
    beam=st.integers(1, 7),
    best=st.integers(1, 7),
    penalty=st.sampled_from([0.0, 0.3, 0.6, 1.0, 1.7]),
    limit=st.integers(1, 9),
    spread=st.sampled_from([0.3, 1.0, 3.0]),
    end=st.sampled_from([-3.0, 0.0, 2.0]),
    unknown=st.booleans(),
)
def test_search_equals_a_plain_search_that_never_stops_early(
    seed: int,
    vocabulary: int,
    beam: int,
    best: int,
    penalty: float,
    limit: int,
    spread: float,
    end: float,
    unknown: bool,
) -> None:
    scorer = Markov(vocabulary=vocabulary, seed=seed, spread=spread, end=end)
    options = SearchOptions(
        beam=beam, best=min(best, beam), length_penalty=penalty, max_length=limit, max_ratio=None, unknown=unknown
    )
    expected = plain_beam(scorer.following(0), vocabulary, options, limit)
    found = search_markov(scorer, options)
    assert_same(found, expected, penalty)
    assert all(found[place].score >= found[place + 1].score for place in range(len(found) - 1))
    assert scorer.steps <= limit


def test_a_sentence_stops_as_soon_as_nothing_can_improve_it() -> None:
    """One output of probability 0.9 or so at the first step: no other can reach it."""
    scorer = Markov(vocabulary=8, spread=0.1, end=5.0)
    search_markov(scorer, SearchOptions(beam=4, length_penalty=0.0, max_length=200, max_ratio=None))
    assert scorer.steps == 1


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("limit", [1, 2, 7])
def test_what_the_limit_cuts_off_is_not_complete(beam: int, limit: int) -> None:
    scorer = Markov(vocabulary=7, end=-math.inf)
    options = SearchOptions(beam=beam, best=beam, max_length=limit, max_ratio=None)
    found = search_markov(scorer, options)
    assert len(found) == min(beam, 3**limit)
    for one in found:
        assert not one.complete
        assert len(one.tokens) == len(one.token_log_probabilities) == limit
        assert one.score == pytest.approx(normalised(one.log_probability, limit, 1.0))
    assert scorer.steps == limit


def test_the_limit_follows_the_source() -> None:
    found = search_markov(Markov(vocabulary=7, end=-math.inf), SearchOptions(max_ratio=2.0))
    assert len(found[0].tokens) == 10 + 2 * 3


@pytest.mark.parametrize("unknown", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_reserved_ids_never_come_out(unknown: bool, seed: int) -> None:
    """The scorer loves PAD, START and UNKNOWN."""
    scorer = Markov(vocabulary=7, seed=seed, end=-9.0)
    scorer.table[..., [PAD, START, UNKNOWN]] += 5.0
    scorer.table = scorer.table.log_softmax(-1)
    options = SearchOptions(beam=4, best=4, max_length=8, unknown=unknown)
    tokens = {token for one in search_markov(scorer, options) for token in one.tokens}
    assert not tokens & {PAD, START, END}
    assert (UNKNOWN in tokens) is unknown


def test_search_leaves_what_the_scorer_says_as_it_is() -> None:
    """A scorer may hand out its own tables; forbidding a token is the business of the search alone."""

    class Constant(Markov):
        def step(self, tokens: torch.Tensor, state: object) -> object:
            step = super().step(tokens, state)
            said = self.table[0, 0, 0].expand(*tokens.shape, -1)
            return type(step)(logits=said, state=step.state)

    scorer = Constant(vocabulary=7)
    before = scorer.table.clone()
    search_markov(scorer, SearchOptions(beam=3, max_length=5))
    assert torch.equal(scorer.table, before)


def test_a_scorer_that_permits_nothing_finds_nothing() -> None:
    scorer = Markov(vocabulary=7)
    scorer.table[..., 4:] = -math.inf
    scorer.table[..., END] = -math.inf
    assert search_markov(scorer, SearchOptions(beam=2, max_length=5)) == ()


@pytest.mark.parametrize("forbidden", [(), (0,), (0, 2, 5)])
@pytest.mark.parametrize("count", [1, 5, 24, 100])
def test_best_continuations_equal_sorting_them_all(count: int, forbidden: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(count)
    scores, said = torch.randn(3, 4, generator=generator), torch.randn(3, 4, 6, generator=generator)
    scores[1, 2:] = -math.inf
    before = said.clone()
    found = best_continuations(scores, said, count=count, forbidden=forbidden)
    assert torch.equal(said, before)
    permitted_ones = said.clone()
    permitted_ones[:, :, list(forbidden)] = -math.inf
    total = (scores.unsqueeze(2) + permitted_ones).flatten(1).sort(dim=1, descending=True)
    width = found.values.size(1)
    assert width == min(count, 24) or width == 4 * (count + len(forbidden))
    torch.testing.assert_close(found.values, total.values[:, :width])
    for sentence in range(3):
        real = found.values[sentence].isfinite()
        places = (found.rows * 6 + found.tokens)[sentence][real]
        assert places.tolist() == total.indices[sentence, :width][real].tolist()


@pytest.mark.parametrize("vocabulary", [33, 95, 96, 97, 160, 1000])
@pytest.mark.parametrize("count", [1, 5, 12, 300, 700])
def test_the_best_of_a_large_vocabulary_equal_sorting_them_all(vocabulary: int, count: int) -> None:
    generator = torch.Generator().manual_seed(vocabulary + count)
    scores = torch.randn(3, 4, generator=generator, dtype=torch.float64)
    logits = torch.randn(3, 4, vocabulary, generator=generator) * 3
    logits[0, 0, :4] += 20.0  # what must not come out would be the best
    scores[1, 2:] = -math.inf
    early = torch.tensor([True, False, False])
    normaliser = logits.logsumexp(-1)
    found = best_continuations(scores, logits, count=count, forbidden=(0, 1, 2), normaliser=normaliser, early=early)
    every = (logits - normaliser.unsqueeze(2)) + scores.unsqueeze(2)
    every[:, :, :3] = -math.inf
    every[0, :, END] = -math.inf
    total = every.flatten(1).sort(dim=1, descending=True)
    width = found.values.size(1)
    assert width == min(count, 4 * vocabulary)
    assert torch.equal(found.values, total.values[:, :width])
    for sentence in range(3):
        real = found.values[sentence].isfinite()
        places = (found.rows * vocabulary + found.tokens)[sentence][real]
        assert places.tolist() == total.indices[sentence, :width][real].tolist()


@pytest.mark.parametrize("vocabulary", [6, 33, 95, 96, 97, 160, 1000])
@pytest.mark.parametrize("count", [1, 5, 12, 300, 700])
@pytest.mark.parametrize("early", [False, True])
def test_one_sentence_alone_chooses_as_among_others(vocabulary: int, count: int, early: bool) -> None:
    """To the bit: values are made in the same order, whatever makes them."""
    generator = torch.Generator().manual_seed(vocabulary + count)
    scores = torch.randn(1, 4, generator=generator, dtype=torch.float64)
    logits = torch.randn(1, 4, vocabulary, generator=generator) * 3
    logits[0, 0, :4] += 20.0
    normaliser = logits.logsumexp(-1)
    for shift in (normaliser, None):
        given = {"count": count, "forbidden": (0, 1, 2)}
        together = best_continuations(scores, logits, normaliser=shift, early=torch.tensor([early]), **given)
        alone = best_alone(
            scores[0].tolist(), logits[0], normaliser=None if shift is None else shift[0], early=early, **given
        )
        known = [one for one in together.listed()[0] if one[0] > -math.inf]
        assert [one for one in alone if one[0] > -math.inf] == known
        assert len(alone) == together.values.size(1)


def test_rows_that_cannot_win_leave_and_nothing_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    widths: list[int] = []

    class Counting(Markov):
        def step(self, tokens: torch.Tensor, state: object) -> object:
            widths.append(tokens.size(1))
            return super().step(tokens, state)

    scorer = Counting(vocabulary=9, spread=2.0, end=2.0)
    options = SearchOptions(beam=7, best=2, length_penalty=0.6, max_length=9, max_ratio=None)
    found = search_markov(scorer, options)
    rows = sum(widths)
    widths.clear()
    monkeypatch.setattr("regard.search.running.Running.drop_hopeless", lambda self, going: None)
    assert search_markov(scorer, options) == found
    assert rows < sum(widths)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("best", [1, 3])
def test_early_stopping_ends_when_no_row_is_better_than_what_ended(seed: int, best: int) -> None:
    """By hand: the plain beam up to the first step after which the best row, ended at once for sure, is no better."""
    scorer = Markov(vocabulary=8, seed=seed, spread=1.0, end=1.0)
    options = SearchOptions(beam=4, best=best, max_length=30, max_ratio=None, stopping="early")
    found = search_markov(scorer, options)
    stopped = scorer.steps
    for steps in range(1, stopped + 1):
        done, running = beam_after(scorer, options, steps)
        finished = sorted(done, key=lambda one: -one.score(1.0))[:best]
        likely = max((one.log_probability / (steps + 1) for one in running), default=-math.inf)
        over = not running or (len(finished) == best and likely <= finished[-1].score(1.0))
        assert over is (steps == stopped) or steps == 30
    assert_same(found, finished, 1.0)


def beam_after(scorer: Markov, options: SearchOptions, steps: int) -> tuple[list[Found], list[Found]]:
    """What has ended and what runs in a plain beam after so many steps."""
    look_up, words = scorer.following(0), [*permitted(scorer.vocabulary, options), END]
    done, running = list[Found](), [Found(tokens=(), steps=(), complete=False)]
    for _ in range(steps):
        continued = [
            (Found(row.tokens, (*row.steps, look_up(row.tokens)[word]), word == END), word)
            for row in running
            for word in words
        ]
        continued.sort(key=lambda one: -one[0].log_probability)
        chosen = continued[: options.beam]
        done += [one for one, word in chosen if word == END]
        running = [Found((*one.tokens, word), one.steps, False) for one, word in chosen if word != END]
    return done, running


def test_nan_is_an_error_and_not_an_empty_output() -> None:
    scorer = Markov(vocabulary=7)
    scorer.table[:] = math.nan
    search = Search(scorer)
    search.add([Request(id=0, sources=which(0), items=3, options=SearchOptions(beam=2))])
    with pytest.raises(ModelError, match="the model says NaN instead of probabilities"):
        search.step()


def test_nan_of_one_sentence_changes_nothing_in_others() -> None:
    """The error comes before any sentence has moved: without the bad one, the others go on as if alone."""
    options = SearchOptions(beam=3, best=3)
    scorer = Markov(vocabulary=7, tables=2, end=1.0)
    expected = search_markov(scorer, options)
    scorer.table[1] = math.nan
    search = Search(scorer)
    search.add([Request(id=number, sources=which(number), items=3, options=options) for number in range(2)])
    for _ in range(2):
        with pytest.raises(ModelError, match="the model says NaN instead of probabilities"):
            search.step()
    search.cancel(1)
    found: list[Finished] = []
    while search.busy:
        found += search.step()
    assert [one.hypotheses for one in found] == [expected]
