"""The engine step by step, against torch step by step; and requests that are wrong, stopped or too large."""

import os
import signal
import threading
import time
from concurrent.futures import CancelledError
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.engine import Engine, EngineOptions, EngineRequest, Session, StopFlag
from regard.errors import ModelError, ResourceError
from regard.models.coverage import Covering
from regard.run.native_scorer import NativeScorer
from regard.search import Request, Search, SearchOptions
from regard.special import END, START
from tests.engine.searching import as_source, opened, sentences, system_named

pytestmark = pytest.mark.usefixtures("library")
FAMILIES = ["transformer post", "t5", "bahdanau gru_cho", "luong lstm", "relative bias, swiglu"]


@pytest.mark.parametrize("name", FAMILIES)
def test_coverage_and_choice_are_those_of_torch(name, tmp_path):
    system = system_named(name)
    options = SearchOptions(beam=3, best=2, coverage_penalty=0.4, max_length=10)
    sources = sentences(9, seed=3)
    found = []
    for scorer in (Covering(system), NativeScorer(opened(system, tmp_path), options=options, capacity=4)):
        search = Search(scorer, capacity=4)
        search.add(
            Request(id=number, sources=as_source(ids), items=len(ids), options=options)
            for number, ids in enumerate(sources)
        )
        done = {}
        while search.busy:
            done.update((one.id, one) for one in search.step())
        found.append([done[number] for number in range(len(sources))])
    assert any(one.parts.coverage < -0.1 for done in found[0] for one in done.hypotheses)
    for theirs, ours in zip(*found, strict=True):
        assert [one.tokens for one in ours.hypotheses] == [one.tokens for one in theirs.hypotheses]
        for one, other in zip(ours.hypotheses, theirs.hypotheses, strict=True):
            assert one.parts.coverage == pytest.approx(other.parts.coverage, abs=1e-3)
            assert one.log_probability == pytest.approx(other.log_probability, abs=1e-4)


def test_logits_of_a_session_are_those_of_torch(tmp_path):
    system = system_named("transformer post")
    session = Session(opened(system, tmp_path), slots=2, beam=2)
    ids = [7, 9, 8, END]
    (slot,) = session.start([ids])
    first, none = session.step(np.array([[slot, -1, 0, START, 0]], dtype=np.int32))
    second, weights = session.step(np.array([[slot, 0, 0, 12, 1], [slot, 0, 1, 33, 1]], dtype=np.int32), longest=4)
    assert none.shape == (1, 0)
    assert weights.sum(1) == pytest.approx([1.0, 1.0], abs=1e-5)
    memory = system.memory(as_source(ids))
    for logits, inputs in ((first[0], [START]), (second[0], [START, 12]), (second[1], [START, 33])):
        with torch.no_grad():
            expected = system.decoder.logits(system.decoder.hidden(memory, torch.tensor([inputs])))[0, -1]
        assert logits == pytest.approx(expected.numpy(), abs=1e-4)
    session.release(slot)
    with pytest.raises(ModelError, match="no such slot is taken"):
        session.release(slot)


def test_rows_that_there_cannot_be_are_refused(tmp_path):
    session = Session(opened(system_named("transformer post"), tmp_path), slots=2, beam=2)
    (slot,) = session.start([[7, END]])
    good = [slot, -1, 0, START, 0]
    for place, wrong in ((0, 1), (0, 5), (1, 0), (1, -2), (2, 2), (2, -1), (3, 70), (3, -1), (4, 1), (4, -1)):
        row = [*good]
        row[place] = wrong
        with pytest.raises(ModelError, match="a row of a step is not one that there can be"):
            session.step(np.array([row], dtype=np.int32))
    (other,) = session.start([[8, END]])
    apart = [good, [other, -1, 0, START, 0], [slot, -1, 1, START, 0]]
    with pytest.raises(ModelError, match="rows of a sentence do not stand together in a step"):
        session.step(np.array(apart, dtype=np.int32))
    with pytest.raises(ModelError, match="two rows of a step have the same place"):
        session.step(np.array([good, good], dtype=np.int32))
    session.release(other)
    session.step(np.array([good], dtype=np.int32))
    with pytest.raises(ModelError, match="there are more sources than free slots"):
        session.start([[7, END], [8, END]])
    with pytest.raises(ModelError, match="a session has an impossible size"):
        Session(session.engine, slots=0, beam=1)
    with pytest.raises(ModelError, match="there is no room for the weights of a row"):
        session.step(np.array([good], dtype=np.int32), longest=1)


def test_weights_of_a_model_without_attention_are_refused(tmp_path):
    session = Session(opened(system_named("sutskever"), tmp_path), slots=1, beam=1)
    (slot,) = session.start([[7, END]])
    with pytest.raises(ModelError, match="this model attends to no source"):
        session.step(np.array([[slot, -1, 0, START, 0]], dtype=np.int32), longest=2)


def test_a_wrong_request_does_not_hinder_the_others(tmp_path):
    engine = opened(system_named("transformer post"), tmp_path)
    good = EngineRequest(ids=[7, 8, END], limit=9)
    wrong = [EngineRequest(ids=[], limit=9), EngineRequest(ids=[7000], limit=9), EngineRequest(ids=[7], limit=0)]
    answers = engine.answer([wrong[0], good, wrong[1], good, wrong[2]], options=EngineOptions())
    assert [one.fault for one in answers] == [
        "request 0 has an empty source",
        "",
        "request 2 has a source id that the vocabulary does not have",
        "",
        "request 4 has a limit that is not from 1 to 65535",
    ]
    assert answers[1] == answers[3]
    assert [answers[1].found] == engine.search([good], options=EngineOptions())
    assert engine.answer(wrong, options=EngineOptions())[0].found == ()
    with pytest.raises(ModelError, match="request 1 has an empty source"):
        engine.search([good, wrong[0]], options=EngineOptions())


def long_search(engine: Engine, stop: StopFlag) -> None:
    requests = [EngineRequest(ids=[7, 8, 9, END], limit=60000)] * 64
    engine.answer(requests, options=EngineOptions(min_length=60001), workers=2, stop=stop)


def test_a_search_can_be_ended(tmp_path):
    engine = opened(system_named("luong lstm"), tmp_path)
    stop = StopFlag()
    timer = threading.Timer(0.3, stop.stop)
    timer.start()
    began = time.monotonic()
    with pytest.raises(CancelledError, match="the search was ended"):
        long_search(engine, stop)
    assert time.monotonic() - began < 20
    timer.join()


def interrupt() -> None:
    """Ctrl-C as a terminal sends it; what `_thread` offers is heard only when the wait is over by itself."""
    os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_is_heard(tmp_path):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has it ignored in the background
    engine = opened(system_named("luong lstm"), tmp_path)
    timer = threading.Timer(0.3, interrupt)
    timer.start()
    began = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            long_search(engine, StopFlag())
        assert time.monotonic() - began < 20
        timer.join()
    finally:
        signal.signal(signal.SIGINT, before)


def test_who_is_in_a_hurry_waits_until_nothing_is_read_any_more(tmp_path):
    """A second Ctrl-C must not leave a search behind that goes on."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    engine = opened(system_named("luong lstm"), tmp_path)
    native, ended = engine.library, threading.Event()

    class Slow:
        def __getattr__(self, name: str) -> object:
            return getattr(native, name)

        def regard_search(self, *arguments: object) -> int:
            status = int(native.regard_search(*arguments))
            time.sleep(0.5)
            interrupt()
            time.sleep(0.5)
            ended.set()
            return status

    engine.library = Slow()
    timer = threading.Timer(0.3, interrupt)
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            long_search(engine, StopFlag())
        assert ended.is_set()
        timer.join()
    finally:
        signal.signal(signal.SIGINT, before)


def test_without_room_for_a_thread_it_is_searched_on_this_one(tmp_path, monkeypatch):
    engine = opened(system_named("luong lstm"), tmp_path)
    requests = [EngineRequest(ids=[7, 8, END], limit=5000)]
    expected = engine.search(requests, options=EngineOptions())

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert engine.search(requests, options=EngineOptions()) == expected


@pytest.mark.parametrize("name", ["transformer post", "luong lstm", "bahdanau gru_cho", "every step"])
def test_sessions_of_nothing(name, tmp_path):
    session = Session(opened(system_named(name), tmp_path), slots=2, beam=2)
    assert session.start([]) == []
    logits, weights = session.step(np.zeros((0, 5), dtype=np.int32))
    assert (logits.shape, weights.shape) == ((0, 70), (0, 0))
    assert len(session.start([[7, END], [8, END]])) == 2


def test_too_little_memory_is_an_error(tmp_path):
    import resource

    session = Session(opened(system_named("transformer post"), tmp_path), slots=1, beam=1)
    endless = [7] * 8_000_000
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), limits[1]))
    try:
        with pytest.raises(ResourceError, match="the native engine: there is not enough memory; search fewer"):
            session.start([endless])
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
    assert session.start([[7, END]]) == [0]


@pytest.mark.parametrize("name", FAMILIES)
def test_nothing_goes_on_from_a_sentence_that_was_released(name, tmp_path):
    session = Session(opened(system_named(name), tmp_path), slots=1, beam=1)
    (slot,) = session.start([[7, 8, END]])
    session.step(np.array([[slot, -1, 0, START, 0]], dtype=np.int32))
    session.release(slot)
    assert session.start([[9, END]]) == [slot]
    with pytest.raises(ModelError, match="a row of a step is not one that there can be"):
        session.step(np.array([[slot, 0, 0, 7, 1]], dtype=np.int32))


def test_a_step_that_found_too_little_memory_can_be_taken_again(tmp_path):
    """Half-made room must not be written to."""
    import resource

    session = Session(opened(system_named("transformer post"), tmp_path, int8=True), slots=1, beam=1 << 16)
    (slot,) = session.start([[7, 8, END]])

    def walk(steps: int) -> int:
        for position in range(steps):
            row = [slot, -1 if position == 0 else 0, 0, START, position]
            try:
                logits, _ = session.step(np.array([row], dtype=np.int32))
            except ResourceError:
                return position
            assert np.isfinite(logits).all()
        return steps

    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + (4 << 20), limits[1]))
    try:
        reached = walk(60)  # a block is 32 MB large
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
    assert reached < 60
    assert walk(reached + 1) == reached + 1
