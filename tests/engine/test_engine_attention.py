"""Attention that the engine tells of outputs: that of torch in the same teacher-forced pass."""

from array import array
from concurrent.futures import CancelledError
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.data.batch import Batch, Ids, pad
from regard.engine import Attention, Engine, EngineOptions, EngineReading, EngineRequest, StopFlag
from regard.engine.library import kernels_here
from regard.engine.links import Side
from regard.engine.links import links as own_links
from regard.errors import ModelError, ResourceError, UsageError
from regard.insight import Reading, by_words, in_reading_order, links
from regard.insight.alignment import of_tokens
from regard.metrics import format_pharaoh
from regard.models import EncoderDecoder
from regard.run.alignment import source_attention
from regard.run.native import NativeEngine
from regard.special import END, START
from regard.text.encoding import Encoding
from regard.text.words import word_spans
from tests.engine.searching import VARIANTS, VOCABULARY, opened, sentences, system_named, variant
from tests.families import luong_decoder, recurrent_encoder

pytestmark = pytest.mark.usefixtures("library")
ATTENDING = (
    *VARIANTS,
    "elman, luong without feeding",
    "deep two-way lstm, at the output",
    "gru, at the output, projected",
    "gru, luong",
    "gru_cho, luong, scaled dot",
    "two-way elman, deep bahdanau lstm",
    "transformer rotary",
    "transformer post",
    "transformer pre",
    "bahdanau gru_cho",
    "rnn to transformer",
    "transformer to bahdanau",
    "luong lstm",
)
MEAN = EngineReading()


def some_pairs(count: int, *, seed: int = 1) -> list[tuple[list[int], list[int]]]:
    """Sources with END and outputs without it, one of them empty."""
    targets = [ids[:-1] for ids in sentences(count, seed=seed + 100)]
    return [*zip(sentences(count, seed=seed), targets, strict=True), ([9, END], [])]


def torch_attention(system: EncoderDecoder, pairs: list[tuple[list[int], list[int]]]) -> list[list[torch.Tensor]]:
    ids, mask = pad([source for source, _ in pairs])
    inputs, real = pad([target for _, target in pairs], before=START)
    outputs, _ = pad([target for _, target in pairs], after=END)
    sources = {"source": Ids(ids=ids.unsqueeze(-1), mask=mask)}
    return source_attention(system, Batch(sources=sources, inputs=inputs, outputs=outputs, mask=real))


def matrix(attention: Attention) -> np.ndarray:
    return np.array(attention.values, dtype=np.float64).reshape(-1, attention.items)


def assert_those_of_torch(system: EncoderDecoder, engine: Engine) -> None:
    pairs = some_pairs(7)
    expected = torch_attention(system, pairs)
    assert engine.attention_heads == tuple(layer.size(0) for layer in expected[0])
    for layer, heads in enumerate(engine.attention_heads):
        for head in (None, *range(heads)):
            told = engine.attention(pairs, reading=EngineReading(layer=layer, head=head), workers=1, capacity=3)
            for (source, target), ours, layers in zip(pairs, told, expected, strict=True):
                theirs = layers[layer].mean(0) if head is None else layers[layer][head]
                assert matrix(ours).shape == (len(target) + 1, len(source))
                assert matrix(ours) == pytest.approx(theirs.double().numpy(), abs=1e-4)


@pytest.mark.parametrize("name", ATTENDING)
def test_every_layer_and_head_tells_what_torch_tells(name, tmp_path):
    system = system_named(name)
    engine = opened(system, tmp_path)
    assert_those_of_torch(system, engine)
    last, first = (engine.attention(some_pairs(2), reading=EngineReading(layer=layer)) for layer in (-1, 0))
    assert last == engine.attention(some_pairs(2), reading=MEAN)
    assert first == engine.attention(some_pairs(2), reading=EngineReading(layer=-len(engine.attention_heads)))


def test_a_source_that_is_read_backwards_is_told_forwards(tmp_path):
    torch.manual_seed(1)
    encoder = recurrent_encoder(VOCABULARY, "gru", two_way=False, width=6, backwards=True)
    decoder = luong_decoder(VOCABULARY, encoder, "gru")
    system = EncoderDecoder(encoder=encoder, decoder=decoder, vocabulary=VOCABULARY).eval()
    with torch.no_grad():
        for parameter in system.parameters():
            parameter.normal_(std=0.5)
    assert_those_of_torch(system, opened(system, tmp_path))


@pytest.mark.parametrize("kernels", ["amx_int8", "avx512_vnni", "avx_vnni", "avx2", "portable"])
@pytest.mark.parametrize("name", ["t5", "bahdanau gru_cho", "luong lstm"])
def test_all_kernels_tell_it(kernels, name, tmp_path):
    if kernels not in kernels_here():
        pytest.skip(f"this processor has no {kernels}")
    system = system_named(name)
    assert_those_of_torch(system, opened(system, tmp_path, kernels=kernels))


@pytest.mark.parametrize("int8", [False, True], ids=["float", "int8"])
@pytest.mark.parametrize("name", ["transformer post", "bahdanau gru_cho", "luong lstm"])
def test_nothing_depends_on_batch_or_workers(name, int8, tmp_path):
    engine = opened(system_named(name), tmp_path, int8=int8)
    pairs = some_pairs(23, seed=5)
    alone = [engine.attention([pair], reading=MEAN)[0] for pair in pairs]
    for workers, capacity in ((1, 1), (1, 7), (3, 4), (2, 64)):
        assert engine.attention(pairs, reading=MEAN, workers=workers, capacity=capacity) == alone
    for one in alone:
        assert matrix(one).sum(1) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("int8", [False, True], ids=["float", "int8"])
@pytest.mark.parametrize("name", ["transformer post", "bahdanau gru_cho", "luong lstm"])
def test_a_search_gives_its_outputs_with_their_attention(name, int8, tmp_path):
    engine = opened(system_named(name), tmp_path, int8=int8)
    requests = [EngineRequest(ids=ids, limit=9) for ids in sentences(6)]
    requests.insert(2, EngineRequest(ids=[], limit=9))
    plain = EngineOptions(beam=3, best=2)
    bare = engine.answer(requests, options=plain)
    asked = engine.answer(requests, options=EngineOptions(beam=3, best=2, attention=MEAN), workers=2, capacity=2)
    assert asked[2] == bare[2]
    assert asked[2].fault == "request 2 has an empty source"
    for request, one, other in zip(requests, asked, bare, strict=True):
        assert [found.tokens for found in one.found] == [found.tokens for found in other.found]
        assert all(found.attention is None for found in other.found)
        for found in one.found:
            assert found.attention is not None
            steps = len(found.token_log_probabilities)
            (whole,) = engine.attention([(request.ids, found.tokens)], reading=MEAN)
            assert found.attention.steps == whole.steps[:steps]
            assert len(found.attention.steps) == steps


def test_outputs_that_fill_all_positions_have_attention_too(tmp_path):
    system = variant("learned, gelu")
    with torch.no_grad():
        system.decoder.output.weight[END] *= 0
    engine = opened(system, tmp_path)
    options = EngineOptions(beam=1, min_length=40, attention=MEAN)
    ((found,),) = engine.search([EngineRequest(ids=[7, END], limit=200)], options=options)
    assert found.attention is not None
    assert (len(found.tokens), found.complete, len(found.attention.steps)) == (30, False, 30)
    with pytest.raises(ModelError, match="a sequence of 31 tokens is longer than the 30 learned positions of this mod"):
        engine.attention([([7, END], found.tokens)], reading=MEAN)


@pytest.mark.parametrize(
    ("pair", "reading", "message"),
    [
        (([], [7]), MEAN, "pair 1 has an empty source"),
        (([VOCABULARY, END], [7]), MEAN, "pair 1 has a source id that the vocabulary does not have"),
        (([9, END], [VOCABULARY]), MEAN, "pair 1 has a target id that the vocabulary does not have"),
        (([9, END], [-1]), MEAN, "pair 1 has a target id that the vocabulary does not have"),
        (([9, END], [2**70]), MEAN, "pair 1 has a target id that the vocabulary does not have"),
        (([9, END], [7] * 65535), MEAN, "pair 1 has an output that is not of 0 to 65534 tokens"),
        (([9, END], [7]), EngineReading(layer=2), "there is no layer 2: the decoder has 2, counted from 0; -1 is"),
        (([9, END], [7]), EngineReading(layer=-3), "there is no layer -3: the decoder has 2"),
        (([9, END], [7]), EngineReading(layer=2**70), f"there is no layer {2**70}: the decoder has 2"),
        (([9, END], [7]), EngineReading(head=2), "there is no head 2: the layer has 2, counted from 0"),
        (([9, END], [7]), EngineReading(head=-1), "there is no head -1: the layer has 2"),
        (([9, END], [7]), EngineReading(head=2**70), f"there is no head {2**70}: the layer has 2"),
    ],
)
def test_what_is_wrong_is_refused(pair, reading, message, tmp_path):
    engine = opened(system_named("transformer post"), tmp_path)
    with pytest.raises(ModelError, match=message):
        engine.attention([([9, END], [7]), pair], reading=reading)


@pytest.mark.parametrize(("workers", "capacity", "message"), [(0, 1, "1 to 1024 workers"), (1, 0, "capacity must be")])
def test_settings_that_are_refused(workers, capacity, message, tmp_path):
    engine = opened(system_named("luong lstm"), tmp_path)
    with pytest.raises(UsageError, match=message):
        engine.attention([([9, END], [7])], reading=MEAN, workers=workers, capacity=capacity)
    assert engine.attention([], reading=MEAN) == []


@pytest.mark.parametrize("name", ["sutskever", "every step"])
def test_a_model_without_attention_has_none_to_tell(name, tmp_path):
    engine = opened(system_named(name), tmp_path)
    assert engine.attention_heads == ()
    with pytest.raises(ModelError, match="this model attends to no source"):
        engine.attention([([9, END], [7])], reading=MEAN)
    with pytest.raises(ModelError, match="this model attends to no source"):
        engine.search([EngineRequest(ids=[9, END], limit=3)], options=EngineOptions(attention=MEAN))


def test_nothing_is_written_beyond_the_room(tmp_path):
    engine = opened(system_named("transformer post"), tmp_path)
    native = engine.library

    class Narrow:
        def __getattr__(self, name: str) -> object:
            return getattr(native, name)

        def regard_attention(self, handle: object, asked: object, weights: int, room: int, message: object) -> int:
            return int(native.regard_attention(handle, asked, weights, room - 1, message))

    engine.library = Narrow()  # type: ignore[assignment]
    with pytest.raises(ModelError, match="there is no room for the weights of pair 1"):
        engine.attention([([9, END], [7]), ([9, END], [])], reading=MEAN)


def test_it_can_be_ended(tmp_path):
    engine = opened(system_named("luong lstm"), tmp_path)
    stop = StopFlag()
    stop.stop()
    with pytest.raises(CancelledError, match="the search was ended"):
        engine.attention([([9, END], [7] * 5000)], reading=MEAN, stop=stop)


def test_too_little_memory_is_an_error(tmp_path):
    import resource

    engine = opened(system_named("luong lstm"), tmp_path)
    pairs = [([7] * 60000, [7] * 6000)]
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), limits[1]))
    try:
        with pytest.raises(ResourceError, match="there is not enough memory for 360,060,000 weights of attention; ask"):
            engine.attention(pairs, reading=MEAN)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


WORDS = st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=5)


def encoded(data: st.DataObject) -> tuple[str, Encoding]:
    """A text in tokens of a character or two; a few of them stand for space alone."""
    text = " ".join(data.draw(WORDS))
    cuts = sorted(data.draw(st.sets(st.integers(1, len(text)), max_size=len(text))) | {0, len(text)})
    spans = tuple(pairwise(cuts))
    return text, Encoding(ids=tuple(range(len(spans))), spans=spans)


@given(st.data(), st.integers(0, 2**32 - 1), st.integers(0, 1), st.booleans())
def test_links_are_those_of_insight(data, seed, shift, backwards):
    (source, from_), (target, to) = encoded(data), encoded(data)
    if backwards:
        to = Encoding(ids=to.ids[::-1], spans=to.spans[::-1])
    weights = np.random.default_rng(seed).random((len(to) + 1, len(from_) + 1)).astype(np.float32)
    told = Attention(items=len(from_) + 1, values=array("f", weights.flatten().tolist()))
    tokens = of_tokens(weights.astype(np.float64), shift)
    expected = format_pharaoh(links(by_words(tokens, source, from_, target, to)))
    sides = Side.of_words(source, from_), Side.of_words(target, to)
    assert own_links(told, *sides, shift=shift) == expected
    assert len(expected.split()) == len(word_spans(target))
    ordered, _ = in_reading_order(tokens, to)
    sides = Side.of_source_tokens(from_), Side.of_target_tokens(to)
    assert own_links(told, *sides, shift=shift) == format_pharaoh(links(ordered))


def test_a_reading_that_cannot_be_is_refused_in_the_words_of_insight(trained, tmp_path):
    system = system_named("transformer post")
    opened(system, tmp_path)
    engine = NativeEngine(tmp_path / "float.bin")
    batch = trained.model.batch([("a b", "A B")])
    with pytest.raises(UsageError, match="there is no layer 2: the decoder has 2, counted from 0; -1 is the last"):
        engine.attention(batch, Reading(layer=2))
    with pytest.raises(UsageError, match="there is no head 2: the layer has 2, counted from 0"):
        engine.attention(batch, Reading(head=2))
