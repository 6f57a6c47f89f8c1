"""Outputs that are forced to begin with given tokens, against all outputs that do."""

import math

import pytest
import torch
from torch import nn

from regard.data.batch import make_batch, source_ids
from regard.errors import UsageError
from regard.models import EncoderDecoder, Scorer
from regard.nn.transformer import Variant
from regard.search import Hypothesis, Request, Search, SearchOptions
from regard.special import END, PAD, START, UNKNOWN
from tests.families import FAMILIES, WIDTH, family, transformer_decoder, transformer_encoder
from tests.markov import Found, Markov, every_output, permitted, which

PREFIXES = [(), (5,), (4, 6), (6, UNKNOWN, 4)]


def found_by(scorer: Scorer, request: Request) -> tuple[Hypothesis, ...]:
    search = Search(scorer)
    search.add([request])
    while search.busy:
        for one in search.step():
            assert not search.busy
            return one.hypotheses
    raise AssertionError("nothing came out")


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("penalty", [0.0, 1.0])
@pytest.mark.parametrize("name", FAMILIES)
def test_a_wide_beam_finds_the_best_of_all_outputs_that_begin_so(
    name: str, penalty: float, prefix: tuple[int, ...]
) -> None:
    """The limit of length is on what comes after the prefix."""
    system = family(name, vocabulary=7)
    source = [4, 5, 6, 5]
    options = SearchOptions(beam=100, best=9, length_penalty=penalty, max_length=3)
    outputs = [(*prefix, *rest) for rest in every_output(permitted(7, options), 3)]
    with torch.no_grad():
        scores = system.token_log_probabilities(make_batch([source] * len(outputs), outputs))
    expected = [
        Found(tokens=tokens, steps=tuple(row[: len(tokens) + 1].tolist()), complete=True)
        for tokens, row in zip(outputs, scores, strict=True)
    ]
    expected.sort(key=lambda one: -one.score(penalty))
    request = Request(id=0, sources={"source": source_ids([source])}, items=5, options=options, prefix=prefix)
    found = found_by(system, request)
    assert [one.tokens for one in found] == [one.tokens for one in expected[:9]]
    for one, other in zip(found, expected, strict=False):
        assert one.complete
        assert one.score == pytest.approx(other.score(penalty), abs=1e-9, rel=0)
        assert one.log_probability == pytest.approx(other.log_probability, abs=1e-9, rel=0)
        assert one.token_log_probabilities == pytest.approx(other.steps, abs=1e-9, rel=0)


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("sample", [False, True])
def test_the_limit_grows_by_the_prefix(prefix: tuple[int, ...], sample: bool) -> None:
    """The scorer would end at once if it could, and then never does."""
    options = SearchOptions(sample=sample, max_length=4, best=2, max_ratio=None)
    scorer = Markov(vocabulary=7, end=-math.inf)
    request = Request(id=0, sources=which(0), items=3, options=options, prefix=prefix)
    for one in found_by(scorer, request):
        assert one.tokens[: len(prefix)] == prefix
        assert len(one.tokens) == len(prefix) + 4
        assert not one.complete
    eager = Markov(vocabulary=7, end=50.0)
    assert {one.tokens for one in found_by(eager, request)} >= {prefix}


@pytest.mark.parametrize("prefix", PREFIXES)
def test_samples_go_on_from_the_prefix_as_often_as_the_model_says(prefix: tuple[int, ...]) -> None:
    scorer = Markov(vocabulary=7, seed=3, spread=1.0)
    options = SearchOptions(sample=True, best=8000, max_length=1, max_ratio=None)
    found = found_by(scorer, Request(id=0, sources=which(0), items=3, options=options, prefix=prefix))
    following = scorer.following(0)
    forced = [following(prefix[:place])[token] for place, token in enumerate(prefix)]
    said = following(prefix)
    tokens = [*permitted(7, options), END]
    whole = math.fsum(math.exp(said[token]) for token in tokens)
    for token in tokens:
        wanted = math.exp(said[token]) / whole
        ones = [one for one in found if (*one.tokens, *([END] * one.complete)) == (*prefix, token)]
        assert abs(len(ones) / 8000 - wanted) < 4 * math.sqrt(wanted * (1 - wanted) / 8000)
        assert all(one.token_log_probabilities == pytest.approx((*forced, said[token])) for one in ones)


def test_a_prefix_the_model_holds_for_impossible_finds_nothing() -> None:
    scorer = Markov(vocabulary=7)
    scorer.table[..., 5] = -math.inf
    for options in (SearchOptions(), SearchOptions(sample=True, best=3)):
        assert found_by(scorer, Request(id=0, sources=which(0), items=3, options=options, prefix=(4, 5))) == ()


@pytest.mark.parametrize(("token", "name"), [(PAD, "<pad> (id 0)"), (START, "<s> (id 2)"), (END, "</s> (id 3)")])
def test_reserved_ids_are_no_prefix(token: int, name: str) -> None:
    with pytest.raises(UsageError) as error:
        Request(id=0, sources=which(0), items=3, options=SearchOptions(), prefix=(4, token))
    assert str(error.value) == f"a prefix is made of words, and {name} is none; leave it out"


@pytest.mark.parametrize("token", [7, -1])
def test_ids_that_the_model_does_not_have_are_no_prefix(token: int) -> None:
    search = Search(Markov(vocabulary=7))
    request = Request(id=12, sources=which(0), items=3, options=SearchOptions(), prefix=(4, token))
    message = f"the prefix of request 12 has the id {token}, but the model's vocabulary has 7 ids"
    with pytest.raises(UsageError, match=message):
        search.add([request])
    assert not search.busy


@pytest.mark.parametrize("prefix", [(), (5,), (4, 6, 5, 4), (4, 6, 5, 4, 5, 6)])
@pytest.mark.parametrize("sample", [False, True])
def test_nothing_goes_beyond_what_the_scorer_can_read(prefix: tuple[int, ...], sample: bool) -> None:
    """A decoder of 5 learned positions reads START and 4 tokens, so the fifth is the last, forced or not."""
    torch.manual_seed(1)
    encoder = transformer_encoder(7, norm_first=True)
    decoder = transformer_decoder(7, WIDTH, norm_first=True, variant=Variant(positions="learned", longest=5))
    decoder.output = nn.Linear(WIDTH, 7)
    with torch.no_grad():
        decoder.output.bias[END] = -math.inf
    system = EncoderDecoder(encoder=encoder, decoder=decoder, vocabulary=7).eval()
    assert system.longest == 5
    options = SearchOptions(sample=sample, max_length=9, max_ratio=None)
    sources = {"source": source_ids([[4, 5]])}
    for one in found_by(system, Request(id=0, sources=sources, items=3, options=options, prefix=prefix)):
        assert one.tokens[: len(prefix)] == prefix[:5]
        assert len(one.tokens) == 5
        assert not one.complete


@pytest.mark.parametrize("name", FAMILIES)
def test_only_learned_positions_come_to_an_end(name: str) -> None:
    assert (family(name, vocabulary=7).longest is None) == (name != "transformer learned")
