"""Coverage in the native search: the attention, the formula and the bound of the torch search."""

from dataclasses import replace

import pytest
import torch

from regard.engine import EngineOptions, EngineRequest
from regard.errors import UsageError
from regard.models import EncoderDecoder, NoSource
from regard.run.native_scorer import NativeScorer
from regard.search import Request, Search, SearchOptions
from regard.special import END
from tests.engine.searching import (
    LIMIT,
    VOCABULARY,
    as_source,
    assert_same,
    engine_search,
    opened,
    sentences,
    system_named,
    torch_search,
)
from tests.families import transformer_decoder

pytestmark = pytest.mark.usefixtures("library")

COVERED = SearchOptions(beam=4, best=3, length_penalty=0.7, coverage_penalty=0.4, max_length=LIMIT, max_ratio=None)
REFUSAL = "coverage_penalty needs attention to the source, and this model has none; leave it out"


@pytest.mark.parametrize(
    "name",
    [
        "transformer post",
        "transformer rotary",
        "t5",
        "relative bias, swiglu",
        "bahdanau gru",
        "bahdanau gru_cho",
        "luong lstm",
        "transformer to bahdanau",
        "rnn to transformer",
        "elman, luong without feeding",
        "gru, at the output, projected",
        "two-way elman, deep bahdanau lstm",
    ],
)
def test_every_family_gives_the_scores_of_torch(name, tmp_path):
    system, sources = system_named(name), sentences(9, seed=3)
    found = engine_search(opened(system, tmp_path), sources, COVERED)
    assert_same(found, torch_search(system, sources, COVERED))
    assert any(one.coverage < -0.1 for outcome in found for one in outcome)


@pytest.mark.parametrize(
    "further",
    [
        {"coverage_penalty": 5.0},
        {"length_penalty": 0.0},
        {"length_formula": "gnmt", "length_penalty": 1.5},
        {"stopping": "early"},
        {"best": 1},
        {"beam": 1, "best": 1},
        {"beam": 30, "best": 12},
        {"min_length": 6, "block_ngrams": 2},
        {"max_length": 3},
    ],
    ids=["heavy", "no penalty", "gnmt", "early", "one", "greedy", "wide", "rules", "cut"],
)
@pytest.mark.parametrize("prefix", [(), (7, 9, 11)], ids=["free", "prefix"])
@pytest.mark.parametrize("name", ["transformer pre", "bahdanau gru"])
def test_every_option_means_the_same(name, further, prefix, tmp_path):
    system, sources, options = system_named(name), sentences(7, seed=3), replace(COVERED, **further)
    expected = torch_search(system, sources, options, prefix)
    found = engine_search(opened(system, tmp_path), sources, options, prefix=prefix)
    assert_same(found, expected, tolerance=1e-4 * max(1.0, options.coverage_penalty))


def test_coverage_changes_what_is_found(tmp_path):
    system, sources = system_named("bahdanau gru"), sentences(9, seed=3)
    engine = opened(system, tmp_path)
    plain = engine_search(engine, sources, replace(COVERED, coverage_penalty=0.0))
    covered = engine_search(engine, sources, replace(COVERED, coverage_penalty=3.0))
    assert [outcome[0].tokens for outcome in plain] != [outcome[0].tokens for outcome in covered]
    assert plain == engine_search(engine, sources, replace(COVERED, coverage_penalty=0.0))
    assert {one.coverage for outcome in plain for one in outcome} == {0.0}


@pytest.mark.parametrize("int8", [False, True], ids=["float", "int8"])
@pytest.mark.parametrize("name", ["transformer post", "bahdanau gru_cho", "luong lstm"])
def test_scores_depend_on_nothing_but_the_request(name, int8, tmp_path):
    engine = opened(system_named(name), tmp_path, int8=int8)
    sources = sentences(23, seed=5)
    alone = [engine_search(engine, [source], COVERED)[0] for source in sources]
    for workers, capacity in ((1, 1), (1, 7), (3, 4), (2, 64)):
        assert engine_search(engine, sources, COVERED, workers=workers, capacity=capacity) == alone


@pytest.mark.parametrize("name", ["sutskever", "every step", "language model"])
def test_without_attention_it_is_refused_in_the_words_of_torch(name, tmp_path):
    if name == "language model":
        decoder = transformer_decoder(VOCABULARY, None, norm_first=True)
        system = EncoderDecoder(encoder=NoSource(width=8), decoder=decoder, vocabulary=VOCABULARY).eval()
    else:
        system = system_named(name)
    source = [] if name == "language model" else [7, 8, END]
    engine = opened(system, tmp_path)
    with pytest.raises(UsageError, match=REFUSAL):
        torch_search(system, [source], COVERED)
    with pytest.raises(UsageError, match=REFUSAL):
        engine_search(engine, [source], COVERED)
    search = Search(NativeScorer(engine, options=COVERED, capacity=2), capacity=2)
    search.add([Request(id=0, sources=as_source(source), items=len(source), options=COVERED)])
    with pytest.raises(UsageError, match=REFUSAL):
        search.step()


@pytest.mark.parametrize("penalty", [-0.5, float("nan"), float("inf")])
def test_a_penalty_that_cannot_be_is_refused(penalty, tmp_path):
    engine = opened(system_named("transformer pre"), tmp_path)
    told = f"coverage_penalty must be a number from 0 on, not {penalty}; 0 is none"
    with pytest.raises(UsageError, match=told):
        engine.search([EngineRequest(ids=[5], limit=3)], options=EngineOptions(coverage_penalty=penalty))


def test_nothing_is_missed_that_torch_finds_when_rows_are_given_up(tmp_path):
    """Rows that cannot enter the best any more are dropped one by one; torch keeps them."""
    for seed in range(4):
        system = system_named("luong lstm")
        with torch.no_grad():
            system.decoder.output.bias[END] += 2.0
        sources, options = sentences(12, seed=seed), replace(COVERED, beam=8, best=2, coverage_penalty=0.05)
        found = engine_search(opened(system, tmp_path), sources, options)
        assert_same(found, torch_search(system, sources, options))
