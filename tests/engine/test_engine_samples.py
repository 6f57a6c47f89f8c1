"""The native search draws what the torch search draws: the rules are those of `regard.search.sampling`."""

import threading
import time
from collections import Counter
from concurrent.futures import CancelledError

import pytest
import torch

from regard.engine import EngineOptions, EngineRequest, StopFlag
from regard.engine.library import kernels_here
from regard.errors import ModelError, UsageError
from regard.models import EncoderDecoder, NoSource
from regard.run.native import engine_options
from regard.search import Request, Search, SearchOptions
from regard.search.running import never
from regard.search.sampling import candidates, truncate
from regard.special import END, PAD, START, UNKNOWN
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
from tests.families import family, transformer_decoder

pytestmark = pytest.mark.usefixtures("library")

RULES: dict[str, dict[str, float]] = {
    "plain": {},
    "sharp": {"temperature": 0.3},
    "flat": {"temperature": 2.5},
    "few": {"top_k": 2},
    "more than there are": {"top_k": 1000},
    "nucleus": {"top_p": 0.7},
    "whole nucleus": {"top_p": 1.0},
    "tiny nucleus": {"top_p": 1e-9},
    "least": {"min_p": 0.4},
    "typical": {"typical": 0.5},
    "few, nucleus": {"top_k": 30, "top_p": 0.8},
    "nucleus, least": {"top_p": 0.95, "min_p": 0.02},
    "least, typical": {"min_p": 0.01, "typical": 0.9},
    "all": {"temperature": 1.5, "top_k": 40, "top_p": 0.9, "min_p": 0.1, "typical": 0.8},
}
ALL = tuple(RULES)[-1]


def drawn(rules: str = "plain", *, best: int = 4, seed: int = 1, **further: int) -> SearchOptions:
    settings = {"max_length": LIMIT, **RULES[rules], **further}
    return SearchOptions(sample=True, best=best, seed=seed, max_ratio=None, **settings)


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("name", ["transformer post", "bahdanau gru", "luong lstm", "transformer rotary"])
def test_every_rule_draws_the_tokens_of_torch(name, rules, tmp_path):
    system = system_named(name)
    engine, sources = opened(system, tmp_path), sentences(7)
    for seed in (1, 2, 2**64 - 1):
        options = drawn(rules, seed=seed)
        found = engine_search(engine, sources, options)
        assert_same(found, torch_search(system, sources, options))
        assert {len(outcome) for outcome in found} == {4}


@pytest.mark.parametrize("name", ["every step", "sutskever", "t5", "gru, luong", "transformer to bahdanau"])
def test_other_families_draw_the_tokens_of_torch(name, tmp_path):
    system, sources = system_named(name), sentences(7, seed=4)
    for options in (drawn(seed=5), drawn(ALL, seed=6)):
        assert_same(engine_search(opened(system, tmp_path), sources, options), torch_search(system, sources, options))


@pytest.mark.parametrize(
    "further",
    [
        {"min_length": 6},
        {"block_ngrams": 1},
        {"block_ngrams": 2, "min_length": 9},
        {"unknown": True},
        {"max_length": 1},
        {"max_length": 3, "best": 300},
    ],
    ids=["minimum", "words", "bigrams", "unknown", "one", "many"],
)
@pytest.mark.parametrize("prefix", [(), (7, 9, 11)], ids=["free", "prefix"])
def test_every_other_option_means_the_same(further, prefix, tmp_path):
    system, sources = system_named("transformer pre"), sentences(5, seed=3)
    options = drawn(seed=3, **further)
    expected = torch_search(system, sources, options, prefix)
    assert_same(engine_search(opened(system, tmp_path), sources, options, prefix=prefix), expected)


@pytest.mark.parametrize("rules", RULES)
def test_wide_vocabularies(rules, tmp_path):
    """Of many panels, where not all of them are looked at."""
    system = family("luong lstm", vocabulary=5003, dtype=torch.float32)
    engine, sources = opened(system, tmp_path), sentences(4)
    for settings in ({}, {"temperature": 4.0}):
        if RULES[rules].get("temperature") is None or not settings:
            options = drawn(rules, max_length=6, **settings)
            assert_same(engine_search(engine, sources, options), torch_search(system, sources, options))


@pytest.mark.parametrize("kernels", ["amx_int8", "avx512_vnni", "avx_vnni", "avx2", "portable"])
@pytest.mark.parametrize("rules", ["plain", "nucleus", ALL])
def test_all_kernels_draw_alike(kernels, rules, tmp_path):
    if kernels not in kernels_here():
        pytest.skip(f"this processor has no {kernels}")
    system, sources = system_named("transformer post"), sentences(5)
    engine = opened(system, tmp_path, kernels=kernels)
    assert_same(engine_search(engine, sources, drawn(rules)), torch_search(system, sources, drawn(rules)))


def test_language_models_are_sampled_from_their_beginning(tmp_path):
    torch.manual_seed(1)
    decoder = transformer_decoder(VOCABULARY, None, norm_first=True)
    system = EncoderDecoder(encoder=NoSource(width=8), decoder=decoder, vocabulary=VOCABULARY).eval()
    with torch.no_grad():
        for parameter in system.parameters():
            parameter.normal_(std=0.5)
    engine = opened(system, tmp_path)
    for prefix in ((), (9, 30, 12)):
        for rules in ("plain", ALL):
            found = engine_search(engine, [[], []], drawn(rules), prefix=prefix)
            assert_same(found, torch_search(system, [[], []], drawn(rules), prefix))
            assert found[0] != found[1]


@pytest.mark.parametrize("rules", ["plain", "flat", "few", "nucleus", "least", "typical", ALL])
def test_tokens_come_as_often_as_they_should(rules, tmp_path):
    system, ids = system_named("luong lstm"), [7, 9, 8, END]
    count = 20_000
    options = drawn(rules, best=count, max_length=1)
    (found,) = engine_search(opened(system, tmp_path), [ids], options)
    drawn_tokens = Counter(one.tokens[0] if one.tokens else END for one in found)
    with torch.no_grad():
        step = system.step(torch.tensor([[START]]), system.start(as_source(ids)))
    left = truncate(
        candidates(step.log_probabilities[0, 0], temperature=options.temperature, forbidden=never(options)), options
    )
    shares = dict(zip(left.tokens.tolist(), (left.weights / left.weights.sum()).tolist(), strict=True))
    assert drawn_tokens.keys() <= {token for token, share in shares.items() if share > 0}
    for token, share in shares.items():
        deviation = (share * (1 - share) / count) ** 0.5
        assert abs(drawn_tokens[token] / count - share) < 4.5 * deviation + 1e-9


@pytest.mark.parametrize("int8", [False, True], ids=["float", "int8"])
@pytest.mark.parametrize("name", ["transformer post", "bahdanau gru_cho", "luong lstm"])
def test_draws_depend_on_nothing_but_the_request(name, int8, tmp_path):
    engine = opened(system_named(name), tmp_path, int8=int8)
    options, sources = drawn(ALL, best=3), sentences(23, seed=5)
    requests = [EngineRequest(ids=ids, limit=LIMIT, number=number) for number, ids in enumerate(sources)]

    def searched(asked: list[EngineRequest], **sharing: int) -> list[object]:
        return list(engine.search(asked, options=engine_options(options), **sharing))

    alone = [searched([request], workers=1)[0] for request in requests]
    for workers, capacity in ((1, 1), (1, 7), (3, 4), (2, 64)):
        assert searched(requests, workers=workers, capacity=capacity) == alone
    assert searched(requests[::-1]) == alone[::-1]
    wide = SearchOptions(**{name: getattr(options, name) for name in options.__slots__} | {"best": 40})
    many = engine.search(requests, options=engine_options(wide))
    assert [outcome[:3] for outcome in many] == alone
    other = [EngineRequest(ids=ids, limit=LIMIT, number=1000 + number) for number, ids in enumerate(sources)]
    assert searched(other) != alone
    assert searched([EngineRequest(ids=ids, limit=LIMIT) for ids in sources]) == alone


def test_samples_of_which_none_may_come(tmp_path):
    """The model holds nothing for possible but what must not come out."""
    system = system_named("luong lstm")
    with torch.no_grad():
        system.decoder.output.weight.zero_()
        system.decoder.output.bias.fill_(-torch.inf)
        system.decoder.output.bias[[PAD, UNKNOWN]] = 0.0
    sources = sentences(2)
    for further in ({}, {"unknown": True, "max_length": 2}):
        options = drawn(**further)
        expected = torch_search(system, sources, options)
        assert_same(engine_search(opened(system, tmp_path), sources, options), expected)
        assert bool(expected[0].hypotheses) is bool(further)


@pytest.mark.parametrize("int8", [False, True], ids=["float", "int8"])
def test_a_damaged_model_draws_nothing(int8, tmp_path):
    system = system_named("transformer post")
    with torch.no_grad():
        system.decoder.embedding.weight[END].fill_(float("nan"))
    for rules in ("plain", ALL):
        with pytest.raises(ModelError, match="the model says NaN instead of probabilities"):
            engine_search(opened(system, tmp_path, int8=int8), sentences(2), drawn(rules))


def test_drawing_can_be_ended(tmp_path):
    engine = opened(system_named("luong lstm"), tmp_path)
    stop = StopFlag()
    timer = threading.Timer(0.3, stop.stop)
    timer.start()
    began = time.monotonic()
    requests = [EngineRequest(ids=[7, 8, 9, END], limit=60000)] * 64
    with pytest.raises(CancelledError, match="the search was ended"):
        engine.answer(requests, options=EngineOptions(sample=True, min_length=60001), workers=2, stop=stop)
    assert time.monotonic() - began < 20
    timer.join()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (EngineOptions(sample=True, temperature=0.0), "temperature must be a number above 0, not 0; for the most prob"),
        (EngineOptions(sample=True, temperature=float("nan")), "temperature must be a number above 0, not nan"),
        (EngineOptions(sample=True, temperature=float("inf")), "temperature must be a number above 0, not inf"),
        (EngineOptions(sample=True, top_k=0), "top_k must be at least 1, or None for all tokens, not 0"),
        (
            EngineOptions(sample=True, top_k=-(2**70)),
            "top_k must be at least 1, or None for all tokens, not -2147483647",
        ),
        (EngineOptions(sample=True, top_p=0.0), "top_p must be above 0 and at most 1, or None for all tokens, not 0"),
        (EngineOptions(sample=True, min_p=1.5), "min_p must be above 0 and at most 1, or None for all tokens, not 1.5"),
        (EngineOptions(sample=True, typical=float("nan")), "typical must be above 0 and at most 1, or .*, not nan"),
        (EngineOptions(sample=True, seed=-1), r"seed must be a number from 0 to 2\^64 - 1, not -1"),
        (
            EngineOptions(sample=True, seed=2**64),
            r"seed must be a number from 0 to 2\^64 - 1, not 18446744073709551616",
        ),
        (EngineOptions(sample=True, best=0), "best is the number of samples and must be from 1 to 65536, not 0"),
        (
            EngineOptions(sample=True, best=65537),
            "best is the number of samples and must be from 1 to 65536, not 65537",
        ),
        (
            EngineOptions(sample=True, coverage_penalty=0.1),
            "coverage_penalty has no effect on samples, which are not r",
        ),
        (
            EngineOptions(sample=True, stopping="early"),
            "early stopping has no effect on samples, which run to their ow",
        ),
        (
            EngineOptions(seed=1),
            "top_k, top_p, min_p, typical and seed can only have an effect on samples; ask for sam",
        ),
        (EngineOptions(temperature=0.5), "can only have an effect on samples; ask for sample as well"),
        (EngineOptions(top_k=5), "can only have an effect on samples; ask for sample as well"),
    ],
)
def test_draws_that_cannot_be_are_refused(options, message, tmp_path):
    engine = opened(system_named("transformer pre"), tmp_path)
    with pytest.raises(UsageError, match=message):
        engine.search([EngineRequest(ids=[5], limit=3)], options=options)


def test_a_wrong_request_does_not_hinder_samples_of_others(tmp_path):
    engine = opened(system_named("transformer post"), tmp_path)
    good, wrong = EngineRequest(ids=[7, 8, END], limit=9, number=4), EngineRequest(ids=[], limit=9)
    options = EngineOptions(sample=True, best=2)
    answers = engine.answer([wrong, good], options=options)
    assert (answers[0].fault, answers[0].found) == ("request 0 has an empty source", ())
    assert [answers[1].found] == engine.search([good], options=options)


def test_ids_of_requests_are_those_of_torch(tmp_path):
    """Negative ones and those beyond 64 bits, too."""
    system, ids = system_named("bahdanau gru"), [7, 9, END]
    engine, options = opened(system, tmp_path), drawn(best=2)
    for number in (-3, 12345678901, 2**64 + 5):
        search = Search(system)
        search.add([Request(id=number, sources=as_source(ids), items=len(ids), options=options)])
        expected = []
        while search.busy:
            expected += search.step()
        request = EngineRequest(ids=ids, limit=options.limit(len(ids)), number=number)
        assert_same(engine.search([request], options=engine_options(options)), expected)
