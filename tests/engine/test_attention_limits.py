"""The pass that tells attention, at its limits: hostile numbers, too little memory, an end before its own."""

import ctypes
import os
import resource
import signal
import threading
import time
from array import array
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from regard.engine import Attention, Engine, EngineOptions, EngineReading, EngineRequest, StopFlag
from regard.engine.library import MESSAGE, MISUSED, REFUSED, AskedPairs, kernels_here
from regard.engine.runtime import address, joined
from regard.errors import ModelError, ResourceError
from regard.special import END
from tests.engine.searching import opened, rounding_to_bytes, sentences, system_named
from tests.engine.test_engine_attention import matrix, some_pairs, torch_attention

pytestmark = pytest.mark.usefixtures("library")
MEAN = EngineReading()
PAIRS = [([9, 8, END], [7, 6]), ([9, END], [])]
LONG = 1 << 62


class Without:
    """A library in which one function must not be called."""

    def __init__(self, native: ctypes.CDLL, name: str) -> None:
        self.native, self.name = native, name

    def __getattr__(self, name: str) -> object:
        assert name != self.name, f"{name} was called"
        return getattr(self.native, name)


def asked_natively(engine: Engine, *, room: int | None = None, **numbers: int) -> tuple[int, str, list[float]]:
    """The status, the message and the weights of a call with other numbers than Python would hand over."""
    ids, id_starts = joined([source for source, _ in PAIRS])
    targets, target_starts = joined([target for _, target in PAIRS])
    size = sum((len(target) + 1) * len(source) for source, target in PAIRS)
    weights = array("f", [-7.0]) * size
    usual = {"pairs": len(PAIRS), "capacity": 2, "workers": 1, "layer": -1, "head": -1}
    asked = AskedPairs(
        **{**usual, **numbers},
        ids=address(ids),
        id_starts=address(id_starts),
        targets=address(targets),
        target_starts=address(target_starts),
    )
    message = ctypes.create_string_buffer(MESSAGE)
    status = engine.library.regard_attention(
        engine.handle, ctypes.byref(asked), address(weights), size if room is None else room, message
    )
    return status, message.value.decode(), list(weights)


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"layer": 2}, "there is no layer 2: the decoder has 2"),
        ({"layer": -2}, "there is no layer -2: the decoder has 2"),
        ({"layer": LONG}, f"there is no layer {LONG}: the decoder has 2"),
        ({"head": 2}, "there is no head 2: the layer has 2"),
        ({"head": -2}, "there is no head -2: the layer has 2"),
        ({"layer": 0, "head": -LONG}, f"there is no head {-LONG}: the layer has 2"),
        ({"capacity": LONG}, f"the capacity must be from 1 to 4096, not {LONG}"),
        ({"workers": -LONG}, f"there must be 1 to 1024 workers, not {-LONG}"),
        ({"workers": 1025}, "there must be 1 to 1024 workers, not 1025"),
        ({"room": 0}, "there is no room for the weights of pair 0"),
        ({"room": -LONG}, "there is no room for the weights of pair 0"),
    ],
)
def test_the_library_itself_refuses_what_cannot_be(numbers, message, tmp_path):
    engine = opened(system_named("transformer post"), tmp_path)
    status, told, weights = asked_natively(engine, **numbers)
    assert (status, told) == (MISUSED if numbers.keys() & {"capacity", "workers"} else REFUSED, message)
    assert set(weights) == {-7.0}


def test_no_pairs_or_fewer_are_nothing_to_do(tmp_path):
    engine = opened(system_named("transformer post"), tmp_path)
    for pairs in (0, -1, -LONG):
        status, told, weights = asked_natively(engine, pairs=pairs)
        assert (status, told, set(weights)) == (0, "", {-7.0})
    status, told, weights = asked_natively(engine)
    assert (status, told) == (0, "")
    assert [one for each in engine.attention(PAIRS, reading=MEAN) for one in each.values] == weights


def test_a_reading_that_cannot_be_is_refused_before_anything_is_searched(tmp_path):
    engine = opened(system_named("transformer post"), tmp_path)
    engine.library = Without(engine.library, "regard_search")  # type: ignore[assignment]
    requests = [EngineRequest(ids=[7, END], limit=3)]
    with pytest.raises(ModelError, match="there is no layer -3: the decoder has 2, counted from 0; -1 is the last"):
        engine.answer(requests, options=EngineOptions(attention=EngineReading(layer=-3)))
    with pytest.raises(ModelError, match="there is no head 2: the layer has 2, counted from 0"):
        engine.search([], options=EngineOptions(attention=EngineReading(head=2)))


def test_it_is_said_which_pair_is_too_long(tmp_path):
    engine = opened(system_named("learned, gelu"), tmp_path)
    with pytest.raises(ModelError, match=r"^pair 1: a sequence of 31 tokens is longer than the 30 learned positions"):
        engine.attention([([7, END], [7]), ([7, END], [7] * 30)], reading=MEAN)
    with pytest.raises(ModelError, match=r"^pair 1: a sequence of 41 tokens is longer than the 40 learned positions"):
        engine.attention([([7, END], [7]), ([7] * 41, [7])], reading=MEAN)


@pytest.mark.parametrize("kernels", ["amx_int8", "avx512_vnni", "avx_vnni", "avx2", "portable"])
@pytest.mark.parametrize("name", ["transformer post", "t5", "bahdanau gru_cho", "luong lstm"])
def test_nothing_depends_on_batch_or_workers_in_any_kernels(kernels, name, tmp_path):
    if kernels not in kernels_here():
        pytest.skip(f"this processor has no {kernels}")
    engine = opened(system_named(name), tmp_path, int8=True, kernels=kernels)
    pairs = some_pairs(12, seed=5)
    alone = [engine.attention([pair], reading=MEAN, workers=1, capacity=1)[0] for pair in pairs]
    for workers, capacity in ((1, 64), (3, 2), (13, 16)):
        assert engine.attention(pairs, reading=MEAN, workers=workers, capacity=capacity) == alone
    requests = [EngineRequest(ids=ids, limit=9) for ids in sentences(12, seed=5)]
    options = EngineOptions(beam=4, best=3, attention=MEAN)
    found = [engine.search([request], options=options)[0] for request in requests]
    for workers, capacity in ((1, 64), (3, 2)):
        assert engine.search(requests, options=options, workers=workers, capacity=capacity) == found


@pytest.mark.parametrize("name", ["transformer post", "t5", "bahdanau gru_cho", "luong lstm"])
def test_8_bits_tell_what_torch_tells_with_numbers_rounded_as_they_are(name, tmp_path):
    """Of the first step: what is read later is rounded in other batches by torch."""
    system = system_named(name)
    engine = opened(system, tmp_path, int8=True)
    pairs = [(source, []) for source in sentences(9, seed=3) if len(source) > 2]
    with rounding_to_bytes():
        expected = torch_attention(system, pairs)
    apart = [
        abs(matrix(told) - layers[layer][head].double().numpy()).max()
        for layer, heads in enumerate(engine.attention_heads)
        for head in range(heads)
        for told, layers in zip(
            engine.attention(pairs, reading=EngineReading(layer=layer, head=head)), expected, strict=True
        )
    ]
    assert max(apart) < 0.002  # keys have 32 bits in torch here: scores that are captured are made elsewhere
    assert float(np.median(apart)) < 0.0003


@contextmanager
def little_memory(megabytes: int) -> Iterator[None]:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + (megabytes << 20), limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


def test_too_little_memory_within_the_library_is_an_error(tmp_path):
    engine = opened(system_named("luong lstm"), tmp_path)
    pairs = [([7] * 4_000_000, [])]
    told = "the native engine: there is not enough memory; ask for the attention of fewer outputs at a time, or close"
    with little_memory(96), pytest.raises(ResourceError, match=told):
        engine.attention(pairs, reading=MEAN, workers=1)
    assert len(engine.attention(PAIRS, reading=MEAN)) == 2


def test_too_little_memory_for_what_is_handed_back_is_an_error(tmp_path, monkeypatch):
    engine = opened(system_named("luong lstm"), tmp_path)

    def full(*_: object) -> Iterator[Attention]:
        raise MemoryError

    monkeypatch.setattr("regard.engine.runtime._cut", full)
    with pytest.raises(ResourceError, match="there is not enough memory for 11 weights of attention; ask for the att"):
        engine.attention(PAIRS, reading=MEAN)


def long_pass(engine: Engine, stop: StopFlag | None = None) -> None:
    engine.attention([([7, 8, 9, END], [7] * 60000)] * 16, reading=MEAN, workers=2, capacity=2, stop=stop)


def test_it_can_be_ended_while_it_runs(tmp_path):
    engine = opened(system_named("luong lstm"), tmp_path)
    stop = StopFlag()
    timer = threading.Timer(0.3, stop.stop)
    timer.start()
    began = time.monotonic()
    with pytest.raises(CancelledError, match="the search was ended"):
        long_pass(engine, stop)
    assert time.monotonic() - began < 20
    timer.join()


def test_ctrl_c_is_heard_while_it_runs(tmp_path):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has it ignored in the background
    engine = opened(system_named("luong lstm"), tmp_path)
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    began = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            long_pass(engine)
        assert time.monotonic() - began < 20
        timer.join()
    finally:
        signal.signal(signal.SIGINT, before)


def test_long_sources_can_be_ended_too(tmp_path, monkeypatch):
    """A call runs beside the main thread where what it reads is long, however little it writes."""
    engine = opened(system_named("luong lstm"), tmp_path)
    ran_on: list[threading.Thread] = []
    native = engine.library

    class Watched:
        def __getattr__(self, name: str) -> object:
            ran_on.append(threading.current_thread())
            return getattr(native, name)

    monkeypatch.setattr(engine, "library", Watched())
    engine.attention([([7] * 5000, [])], reading=MEAN)
    engine.answer([EngineRequest(ids=[7] * 5000, limit=1)], options=EngineOptions(beam=1))
    assert {thread is threading.main_thread() for thread in ran_on[:2]} == {False}
