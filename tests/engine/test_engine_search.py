"""The native search gives what the torch search gives: the definitions are those of `regard.search`."""

import subprocess
import sys

import pytest
import torch
from torch import nn

from regard.engine import Engine, EngineOptions, EngineRequest
from regard.engine.library import kernels_here
from regard.engine.preparation import prepare
from regard.errors import ModelError, UsageError
from regard.models import EncoderDecoder, FromNothing, InitialStateDecoder, NoSource
from regard.nn.cells import ElmanCell, GRUCell
from regard.search import SearchOptions
from regard.special import END
from tests.engine.searching import (
    LIMIT,
    RECURRENT,
    VARIANTS,
    VOCABULARY,
    assert_same,
    engine_search,
    opened,
    rounding_to_bytes,
    sentences,
    system_named,
    torch_search,
    variant,
)
from tests.families import decoder_network, family, target_embedding, transformer_decoder

pytestmark = pytest.mark.usefixtures("library")

KNOWN = (
    *VARIANTS,
    *RECURRENT,
    "transformer none",
    "transformer rotary",
    "transformer post",
    "transformer pre",
    "bahdanau gru",
    "bahdanau gru_cho",
    "rnn to transformer",
    "transformer to bahdanau",
    "luong lstm",
    "sutskever",
    "every step",
)
BEAM = SearchOptions(beam=3, best=2, length_penalty=0.7, max_length=LIMIT, max_ratio=None)


@pytest.mark.parametrize("name", KNOWN)
def test_every_family_gives_the_tokens_and_numbers_of_torch(name, tmp_path):
    system = system_named(name)
    sources = sentences(9)
    assert_same(engine_search(opened(system, tmp_path), sources, BEAM), torch_search(system, sources, BEAM))


@pytest.mark.parametrize(
    "options",
    [
        SearchOptions(beam=1, length_penalty=0.0, max_length=LIMIT, max_ratio=None),
        SearchOptions(beam=5, best=5, length_penalty=1.0, max_length=LIMIT, max_ratio=None),
        SearchOptions(beam=4, best=2, length_formula="gnmt", length_penalty=1.5, max_length=LIMIT, max_ratio=None),
        SearchOptions(beam=3, min_length=6, max_length=LIMIT, max_ratio=None),
        SearchOptions(beam=3, block_ngrams=2, max_length=LIMIT, max_ratio=None),
        SearchOptions(beam=3, block_ngrams=1, max_length=LIMIT, max_ratio=None),
        SearchOptions(beam=3, unknown=True, max_length=LIMIT, max_ratio=None),
        SearchOptions(beam=3, max_length=2, max_ratio=None),
        SearchOptions(beam=2, max_length=LIMIT, max_ratio=0.1),
        SearchOptions(beam=64, best=10, max_length=6, max_ratio=None),
        SearchOptions(beam=4, best=2, stopping="early", max_length=LIMIT, max_ratio=None),
    ],
    ids=["greedy", "n-best", "gnmt", "minimum", "bigrams", "words", "unknown", "cut", "ratio", "wide", "early"],
)
@pytest.mark.parametrize("prefix", [(), (7, 9, 11)], ids=["free", "prefix"])
def test_every_option_means_the_same(options, prefix, tmp_path):
    system = system_named("transformer pre")
    sources = sentences(7, seed=3)
    expected = torch_search(system, sources, options, prefix)
    assert_same(engine_search(opened(system, tmp_path), sources, options, prefix=prefix), expected)


@pytest.mark.parametrize("kind", ["transformer", "recurrent"])
def test_language_models_read_nothing_and_go_on_from_a_prefix(kind, tmp_path):
    torch.manual_seed(1)
    if kind == "transformer":
        decoder = transformer_decoder(VOCABULARY, None, norm_first=True)
    else:
        network = decoder_network("lstm", layers=2)
        decoder = InitialStateDecoder(
            embedding=target_embedding(VOCABULARY),
            output=nn.Linear(network.width, VOCABULARY),
            network=network,
            bridge=FromNothing(wanted=network.size),
            dropout=0.0,
        )
    system = EncoderDecoder(encoder=NoSource(width=8), decoder=decoder, vocabulary=VOCABULARY).eval()
    with torch.no_grad():
        for parameter in system.parameters():
            parameter.normal_(std=0.5)
    engine = opened(system, tmp_path)
    assert engine.source_vocabulary == 0
    for prefix in ((), (9, 30, 12)):
        assert_same(engine_search(engine, [[], []], BEAM, prefix=prefix), torch_search(system, [[], []], BEAM, prefix))


def test_a_model_that_ends_soon_and_one_that_never_does(tmp_path):
    for bias in (4.0, -50.0):
        system = family("bahdanau gru", vocabulary=VOCABULARY, dtype=torch.float32)
        with torch.no_grad():
            system.decoder.output.bias[END] = bias
        sources = sentences(6)
        found = engine_search(opened(system, tmp_path), sources, BEAM)
        assert_same(found, torch_search(system, sources, BEAM))
        assert {one.complete for outcome in found for one in outcome} == {bias > 0}


@pytest.mark.parametrize("int8", [False, True], ids=["float", "int8"])
@pytest.mark.parametrize("name", ["transformer post", "bahdanau gru_cho", "luong lstm"])
def test_nothing_depends_on_batch_or_workers(name, int8, tmp_path):
    engine = opened(system_named(name), tmp_path, int8=int8)
    sources = sentences(23, seed=5)
    alone = [engine_search(engine, [source], BEAM)[0] for source in sources]
    for workers, capacity in ((1, 1), (1, 7), (3, 4), (2, 64)):
        assert engine_search(engine, sources, BEAM, workers=workers, capacity=capacity) == alone


@pytest.mark.parametrize("kernels", ["amx_int8", "avx512_vnni", "avx_vnni", "avx2", "portable"])
@pytest.mark.parametrize("name", ["t5", "transformer rotary", "bahdanau gru_cho", "luong lstm", "gru, luong"])
def test_all_kernels_search_alike(kernels, name, tmp_path):
    if kernels not in kernels_here():
        pytest.skip(f"this processor has no {kernels}")
    system = system_named(name)
    sources = sentences(5)
    engine = opened(system, tmp_path, kernels=kernels)
    assert engine.kernels == kernels
    assert_same(engine_search(engine, sources, BEAM), torch_search(system, sources, BEAM))


@pytest.mark.parametrize("name", ["transformer post", "transformer pre", "relative bias, swiglu"])
def test_bytes_are_those_of_torch_with_rounded_maps(name, tmp_path):
    """The first token of each output, as later ones differ where a number fell on the edge between two bytes.

    Not for bilinear scores: the engine multiplies their maps with those of the keys before it rounds. Nor for the
    usual draw of a variant: there what is said of START, which all outputs begin with, falls on such an edge.
    """
    system = variant(name, seed=2) if name in VARIANTS else system_named(name)
    sources = sentences(36, longest=6)
    options = SearchOptions(beam=2, best=1, length_penalty=0.0, max_length=1, max_ratio=None)
    with rounding_to_bytes():
        expected = torch_search(system, sources, options)
    found = engine_search(opened(system, tmp_path, int8=True), sources, options)
    pairs = [(one[0], other.hypotheses[0]) for one, other in zip(found, expected, strict=True)]
    same = [
        abs(one.log_probability - other.log_probability) < 1e-4 and one.tokens == other.tokens for one, other in pairs
    ]
    assert sum(same) >= 34
    exact = torch_search(system, sources, options)
    pairs = [(one[0], other.hypotheses[0]) for one, other in zip(found, exact, strict=True)]
    apart = [abs(one.log_probability - other.log_probability) for one, other in pairs]
    assert max(apart) > 1e-3  # bytes are not floats: the comparison above says something


def test_sources_beyond_the_tables_of_positions(tmp_path):
    system = family("transformer pre", vocabulary=VOCABULARY, dtype=torch.float32)
    sources = [*sentences(1, longest=1), sentences(1, seed=2)[0][:-1] * 300 + [END]]
    options = SearchOptions(beam=1, length_penalty=0.0, max_length=4, max_ratio=None)
    assert len(sources[1]) > 512
    assert_same(engine_search(opened(system, tmp_path), sources, options), torch_search(system, sources, options))


def test_learned_positions_limit_source_and_output(tmp_path):
    system = variant("learned, gelu")
    with torch.no_grad():
        system.decoder.output.weight[END] *= 0
    engine = opened(system, tmp_path)
    assert (engine.longest_source, engine.longest) == (40, 30)
    options = SearchOptions(beam=1, length_penalty=0.0, max_length=200, max_ratio=None)
    sources = sentences(2)
    assert_same(engine_search(engine, sources, options), torch_search(system, sources, options))
    with pytest.raises(ModelError, match="a sequence of 41 tokens is longer than the 40 learned positions"):
        engine.search([EngineRequest(ids=[5] * 41, limit=3)], options=EngineOptions())


def test_what_is_said_of_an_engine(tmp_path):
    engine = opened(system_named("bahdanau gru"), tmp_path, int8=True)
    assert engine.quantised
    assert (engine.source_vocabulary, engine.target_vocabulary) == (VOCABULARY, VOCABULARY)
    assert (engine.longest_source, engine.longest) == (None, None)
    assert engine.search([], options=EngineOptions()) == []


@pytest.mark.parametrize(
    ("request_", "options", "message"),
    [
        (EngineRequest(ids=[], limit=3), EngineOptions(), "request 0 has an empty source"),
        (EngineRequest(ids=[VOCABULARY], limit=3), EngineOptions(), "a source id that the vocabulary does not have"),
        (EngineRequest(ids=[-1], limit=3), EngineOptions(), "a source id that the vocabulary does not have"),
        (EngineRequest(ids=[5], limit=0), EngineOptions(), "a limit that is not from 1 to 65535"),
        (EngineRequest(ids=[5], limit=3, prefix=[VOCABULARY]), EngineOptions(), "a prefix id that the vocabulary"),
        (EngineRequest(ids=[5, 2**31], limit=3), EngineOptions(), "a source id that the vocabulary does not have"),
        (EngineRequest(ids=[-(2**40)], limit=3), EngineOptions(), "a source id that the vocabulary does not have"),
        (EngineRequest(ids=[5], limit=3, prefix=[2**70]), EngineOptions(), "a prefix id that the vocabulary"),
        (EngineRequest(ids=[5], limit=-(2**70)), EngineOptions(), "a limit that is not from 1 to 65535"),
    ],
)
def test_requests_that_are_refused(request_, options, message, tmp_path):
    engine = opened(system_named("transformer pre"), tmp_path)
    with pytest.raises(ModelError, match=message):
        engine.search([request_], options=options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (EngineOptions(beam=65), "the beam must be from 1 to 64"),
        (EngineOptions(beam=0), "the beam must be from 1 to 64"),
        (EngineOptions(beam=2, best=3), "best must be from 1 to the beam, 2, not 3"),
        (EngineOptions(block_ngrams=-1), "block_ngrams must be at least 0, not -1"),
        (EngineOptions(min_length=-1), "min_length must be at least 0, not -1"),
        (EngineOptions(length_penalty=float("nan")), "penalty must be a number"),
    ],
)
def test_options_that_are_refused(options, message, tmp_path):
    engine = opened(system_named("transformer pre"), tmp_path)
    with pytest.raises(UsageError, match=message):
        engine.search([EngineRequest(ids=[5], limit=3)], options=options)


@pytest.mark.parametrize(("workers", "capacity", "message"), [(0, 1, "1 to 1024 workers"), (1, 0, "capacity must be")])
def test_settings_that_are_refused(workers, capacity, message, tmp_path):
    engine = opened(system_named("transformer pre"), tmp_path)
    with pytest.raises(UsageError, match=message):
        engine.search([EngineRequest(ids=[5], limit=3)], options=EngineOptions(), workers=workers, capacity=capacity)


def test_kernels_that_are_not_there(tmp_path):
    prepare(system_named("transformer pre"), tmp_path / "engine.bin")
    with pytest.raises(UsageError, match=r"^abacus: there are no such kernels here; there are .*portable"):
        Engine(tmp_path / "engine.bin", kernels="abacus")


def test_kernels_that_the_environment_names(tmp_path, monkeypatch):
    prepare(system_named("transformer pre"), tmp_path / "engine.bin")
    monkeypatch.setenv("REGARD_ENGINE_KERNELS", "portable")
    assert Engine(tmp_path / "engine.bin").kernels == "portable"
    monkeypatch.setenv("REGARD_ENGINE_KERNELS", "avx512")
    with pytest.raises(UsageError, match=r"^REGARD_ENGINE_KERNELS=avx512: there are no such kernels .*portable"):
        Engine(tmp_path / "engine.bin")
    monkeypatch.setenv("REGARD_ENGINE_KERNELS", "")
    assert Engine(tmp_path / "engine.bin").kernels == kernels_here()[0]


SMALL_STACK = """
import ctypes, sys

class Stack(ctypes.Structure):
    _fields_ = [("place", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]

room = ctypes.create_string_buffer(8192)  # signals could not save the registers of AMX there
assert ctypes.CDLL(None).sigaltstack(ctypes.byref(Stack(ctypes.addressof(room), 0, 8192)), None) == 0
from regard.engine import Engine
from regard.errors import ModelError
print(Engine(sys.argv[1]).kernels)
try:
    Engine(sys.argv[1], kernels="amx_int8")
except ModelError as error:
    print(error)
"""


def test_a_process_that_cannot_have_amx_goes_without(tmp_path):
    if "amx_int8" not in kernels_here():
        pytest.skip("this processor has no amx_int8")
    prepare(system_named("transformer pre"), tmp_path / "engine.bin")
    command = [sys.executable, "-c", SMALL_STACK, str(tmp_path / "engine.bin")]
    used, told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert used == "avx512_vnni"
    assert told.startswith("this process cannot have the kernels amx_int8; choose others of amx_int8 avx512_vnni")


@pytest.mark.parametrize("int8", [False, True], ids=["float", "int8"])
@pytest.mark.parametrize("where", ["encoder", "decoder", "output"])
def test_a_damaged_model_is_found_out(where, int8, tmp_path):
    system = system_named("transformer post")
    part = {
        "encoder": system.encoder.embedding.weight,
        "decoder": system.decoder.layers[0].feedforward.outer.bias,
        "output": system.decoder.embedding.weight,
    }[where]
    with torch.no_grad():
        part.fill_(float("nan")) if where != "output" else part[END].fill_(float("nan"))
    with pytest.raises(ModelError, match="the model says NaN instead of probabilities"):
        engine_search(opened(system, tmp_path, int8=int8), sentences(2), BEAM)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("transformer relative", r"its self-attention has vectors of distances"),
        ("transformer alibi", "its self-attention has an additive score"),
        ("transformer learned", "an additive score shares keys between heads"),
        ("pyramid to deep bahdanau", "its encoder is a pyramid"),
        ("luong elman local", "its attention looks at a window"),
        ("bag to output", "its encoder is a BagEncoder"),
        ("transformed", "its cells have layer norms"),
        ("self-attentive rnn to transformer", "its encoder is a SelfAttentiveEncoder"),
    ],
)
def test_what_the_engine_does_not_know_is_refused_with_the_reason(name, reason, tmp_path):
    with pytest.raises(ModelError, match=f"the native engine cannot run this model: {reason}.*--engine torch"):
        prepare(system_named(name), tmp_path / "engine.bin")
    assert not (tmp_path / "engine.bin").exists()


def test_layers_that_are_not_alike_are_refused(tmp_path):
    for side, part, name, value in (
        ("encoder", "feedforward", "activation", "gelu"),
        ("decoder", "around_cross", "norm_first", True),
        ("decoder", "around_feedforward", "norm_first", True),
    ):
        system = system_named("transformer post")
        setattr(getattr(getattr(system, side).layers[1], part), name, value)
        told = f"the layers of its {side} are not alike .{name.replace('_', ' ')}."
        with pytest.raises(ModelError, match=f"the native engine cannot run this model: {told}"):
            prepare(system, tmp_path / "engine.bin")


@pytest.mark.parametrize(("name", "part"), [("elman, initial", "encoder"), ("luong lstm", "decoder")])
def test_recurrent_layers_that_are_not_alike_are_refused(name, part, tmp_path):
    system = system_named(name)
    last = getattr(system, part).network.layers(-1)[-1]
    width = last.cell.width
    other = ElmanCell(width=width) if not isinstance(last.cell, ElmanCell) else GRUCell(width=width, reset="after")
    last.cell = other
    with pytest.raises(ModelError, match=rf"the layers of its {part} are not alike .cell."):
        prepare(system, tmp_path / "engine.bin")
