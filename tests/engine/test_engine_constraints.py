"""Constraints within the native search: what they permit, and how a beam is dealt, is what `regard.search` does."""

import gc
import signal
import subprocess
import sys
import threading
import time
import weakref
from array import array
from unittest.mock import patch

import pytest

from regard.engine import EngineOptions, EngineRequest
from regard.engine.constraints import EngineConstraint, EngineState
from regard.engine.library import kernels_here
from regard.errors import ModelError
from regard.run.native import NativeSearch, engine_options
from regard.run.native_constraints import LiftedRules, engine_constraint
from regard.search import Finished, SearchOptions
from regard.search.constraints import Lifted, Surfaces, forbidding, forcing, lift_all, matching, one_of
from regard.search.constraints import lifted as lifting
from regard.special import END, FIRST_FREE, PAD, START
from tests.engine.rules import Wanting
from tests.engine.searching import (
    LIMIT,
    VOCABULARY,
    opened,
    requests_for,
    searched,
    sentences,
    system_named,
    torch_search,
)
from tests.search.test_constrained_search import DEMANDS, TEXTS

pytestmark = pytest.mark.usefixtures("library")

LETTERS = [bytes([65 + number]) for number in range(20)] + [f" {chr(97 + number)}".encode() for number in range(20)]
SURFACES = [b""] * FIRST_FREE + [text for text in TEXTS if text != b""] + LETTERS
SURFACES = [*SURFACES[:VOCABULARY], *([b"!"] * (VOCABULARY - len(SURFACES)))]
NAMES = [demand.automaton.told for demand in DEMANDS]
OPTIONS = {
    "greedy": SearchOptions(beam=1, max_length=LIMIT),
    "beam": SearchOptions(beam=4, best=3, max_length=LIMIT),
    "early": SearchOptions(beam=5, best=2, max_length=LIMIT, stopping="early"),
    "wide": SearchOptions(beam=40, best=5, max_length=6),
    "further": SearchOptions(beam=3, max_length=LIMIT, min_length=3, block_ngrams=2, length_penalty=0.4),
    "coverage": SearchOptions(beam=3, best=2, max_length=LIMIT, coverage_penalty=0.4),
    "short": SearchOptions(beam=4, max_length=2),
    "samples": SearchOptions(sample=True, best=6, seed=3, max_length=LIMIT),
    "cut samples": SearchOptions(sample=True, best=5, seed=4, max_length=LIMIT, top_k=5, min_length=4),
}


def lift(*demands: int) -> Lifted:
    return lift_all([DEMANDS[one].automaton for one in demands], Surfaces(SURFACES))


def assert_alike(found: list[Finished], expected: list[Finished], tolerance: float = 1e-4) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.reason == theirs.reason
        assert [one.tokens for one in ours.hypotheses] == [one.tokens for one in theirs.hypotheses]
        for one, other in zip(ours.hypotheses, theirs.hypotheses, strict=True):
            assert one.complete == other.complete
            assert one.log_probability == pytest.approx(other.log_probability, abs=tolerance)
            assert one.score == pytest.approx(other.score, abs=tolerance)
            assert one.token_log_probabilities == pytest.approx(other.token_log_probabilities, abs=tolerance)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("demand", range(len(DEMANDS)), ids=NAMES)
def test_every_demand_gives_the_outputs_of_torch(demand, options, tmp_path):
    system, sources = system_named("transformer post"), sentences(5, seed=2)
    engine = opened(system, tmp_path)
    constraint = lift(demand)
    found = searched(NativeSearch(engine), requests_for(sources, OPTIONS[options], (), [constraint] * 5))
    assert_alike(found, torch_search(system, sources, OPTIONS[options], (), [constraint] * 5))


@pytest.mark.parametrize("name", ["bahdanau gru", "luong lstm", "transformer rotary", "every step"])
@pytest.mark.parametrize("options", ["beam", "further", "samples"])
def test_families_and_constraints_side_by_side(name, options, tmp_path):
    """Of sentences that run together each has its own constraint, several at once, or none."""
    system, sources = system_named(name), sentences(9, seed=5)
    engine = opened(system, tmp_path)
    constraints = [None, lift(0), lift(2), lift(0, 3), None, lift(5), lift(1, 8), lift(3), lift(7, 4)]
    found = searched(NativeSearch(engine), requests_for(sources, OPTIONS[options], (), constraints))
    assert_alike(found, torch_search(system, sources, OPTIONS[options], (), constraints))
    free = torch_search(system, sources[:1], OPTIONS[options])
    assert_alike(found[:1], free)


@pytest.mark.parametrize("options", ["beam", "samples"])
@pytest.mark.parametrize("demand", [0, 2, 3, 5, 6, 8])
def test_ways_whose_lengths_are_not_known_are_asked_for(demand, options, tmp_path):
    """Where there are many states, whether an end can be reached depends on the tokens that are left."""
    system, sources = system_named("transformer pre"), sentences(4, seed=7)
    engine = opened(system, tmp_path)
    with patch.object(lifting, "MOST_EXPLORED", 0):
        constraint = lift(demand)
        assert constraint.distances_after(constraint.start) is None
        found = searched(NativeSearch(engine), requests_for(sources, OPTIONS[options], (), [constraint] * 4))
        assert_alike(found, torch_search(system, sources, OPTIONS[options], (), [constraint] * 4))


@pytest.mark.parametrize("options", ["greedy", "beam", "samples"])
def test_prefixes_go_before_and_may_contradict(options, tmp_path):
    system, sources = system_named("transformer post"), sentences(6, seed=3)
    engine = opened(system, tmp_path)
    by_text = {surface: token for token, surface in enumerate(SURFACES) if token >= FIRST_FREE}
    for text in ([b"ab"], [b"a", b" b"], [b"b ", b"a"]):
        prefix = tuple(by_text[one] for one in text)
        constraints = [lift(0), lift(2), lift(3), lift(6), lift(8), None]
        found = searched(NativeSearch(engine), requests_for(sources, OPTIONS[options], prefix, constraints))
        expected = torch_search(system, sources, OPTIONS[options], prefix, constraints)
        assert_alike(found, expected)
        assert any(one.reason.startswith("the prefix contradicts") for one in expected)
        direct = [
            EngineRequest(
                ids=ids,
                limit=len(prefix) + OPTIONS[options].limit(len(ids)),
                prefix=prefix,
                constraint=None if one is None else engine_constraint(one, vocabulary=VOCABULARY),
            )
            for ids, one in zip(sources, constraints, strict=True)
        ]
        for ours, theirs in zip(engine.search(direct, options=engine_options(OPTIONS[options])), expected, strict=True):
            assert [one.tokens for one in ours] == [one.tokens for one in theirs.hypotheses]


def test_kernels_workers_capacity_and_company_change_nothing(tmp_path):
    system, sources = system_named("transformer post"), sentences(12, seed=8)
    constraints = [lift(number % len(DEMANDS)) if number % 4 else None for number in range(12)]
    for name in kernels_here():
        for options in (OPTIONS["beam"], OPTIONS["samples"]):
            engine = opened(system, tmp_path, kernels=name)
            requests = [
                EngineRequest(
                    ids=ids,
                    limit=options.limit(len(ids)),
                    number=number,
                    constraint=None if one is None else engine_constraint(one, vocabulary=VOCABULARY),
                )
                for number, (ids, one) in enumerate(zip(sources, constraints, strict=True))
            ]
            asked = engine_options(options)
            whole = engine.search(requests, options=asked, workers=3, capacity=4)
            assert engine.search(requests, options=asked, workers=1, capacity=12) == whole
            assert [engine.search([one], options=asked)[0] for one in requests] == whole


def test_bytes_satisfy_what_is_demanded(tmp_path):
    """In 8 bits other outputs may come, but no others than those that are permitted."""
    engine = opened(system_named("luong lstm"), tmp_path, int8=True)
    for demand in DEMANDS:
        constraint = lift_all([demand.automaton], Surfaces(SURFACES))
        for options in (OPTIONS["beam"], OPTIONS["samples"]):
            requests = requests_for(sentences(5, seed=1), options, (), [constraint] * 5)
            for one in searched(NativeSearch(engine), requests):
                for each in one.hypotheses:
                    assert demand.holds(b"".join(SURFACES[token] for token in each.tokens).decode())


def test_states_are_told_once(tmp_path):
    engine, options = opened(system_named("transformer post"), tmp_path), OPTIONS["beam"]
    constraint = lift(0)
    requests = requests_for(sentences(5, seed=1), options, (), [constraint] * 5)
    told: list[int] = []
    tell = LiftedRules.state

    def counted(self: LiftedRules, number: int) -> EngineState:
        told.append(number)
        return tell(self, number)

    with patch.object(LiftedRules, "state", counted):
        first = searched(NativeSearch(engine), requests)
        assert told
        assert len(set(told)) == len(told)  # also where several workers come to a state at the same time
        told.clear()
        assert searched(NativeSearch(engine), requests) == first
        assert not told


def test_what_was_told_goes_with_the_constraint():
    constraint = lift(0)
    known = weakref.ref(engine_constraint(constraint, vocabulary=VOCABULARY))
    gc.collect()
    assert known() is not None
    del constraint
    gc.collect()
    assert known() is None


@pytest.mark.parametrize("workers", [1, 3])
def test_an_error_while_telling_is_raised(workers, tmp_path):
    engine = opened(system_named("transformer post"), tmp_path)
    constraint = lift(0)
    native = engine_constraint(constraint, vocabulary=VOCABULARY)
    requests = [EngineRequest(ids=ids, limit=9, constraint=native) for ids in sentences(6)]
    with (
        patch.object(LiftedRules, "state", side_effect=MemoryError("no room for a state")),
        pytest.raises(MemoryError, match="no room for a state"),
    ):
        engine.search(requests, options=EngineOptions(), workers=workers)
    assert all(engine.search(requests, options=EngineOptions(), workers=workers))


def test_an_error_is_for_who_has_searched(tmp_path):
    """Of two searches under one constraint, one of which is told of a state while the other waits for it."""
    engine = opened(system_named("transformer post"), tmp_path)
    native = EngineConstraint(Wanting(VOCABULARY), vocabulary=VOCABULARY)
    failing = EngineConstraint(Rules(tokens=array("i", [-1])), vocabulary=VOCABULARY)
    others = EngineConstraint(Rules(tokens=array("i", [9, 9]), ways=array("i", [0, 0])), vocabulary=VOCABULARY)
    requests = [EngineRequest(ids=ids, limit=9, constraint=native) for ids in sentences(6)]
    wrong = [EngineRequest(ids=[9, END], limit=5, constraint=one) for one in (failing, others, failing, others)]
    for _ in range(3):
        with pytest.raises(ModelError, match="tokens or ways that there cannot be"):
            engine.search([*requests, *wrong], options=EngineOptions(beam=2), workers=3, capacity=2)
        assert all(engine.search(requests, options=EngineOptions(beam=2), workers=3))


def test_ctrl_c_while_telling_is_heard(tmp_path):
    engine = opened(system_named("transformer post"), tmp_path)

    class Slow(Wanting):
        def state(self, number: int) -> EngineState:
            signal.raise_signal(signal.SIGINT)  # heard by the main thread, whoever raises it
            time.sleep(0.05)
            return super().state(number)

    for _ in range(10):
        native = EngineConstraint(Slow(VOCABULARY), vocabulary=VOCABULARY)
        request = EngineRequest(ids=[9, END], limit=5, constraint=native)
        with pytest.raises(KeyboardInterrupt):
            engine.search([request], options=EngineOptions(beam=2))


@pytest.mark.parametrize("asked", [False, True])
def test_what_was_forgotten_is_asked_for_again(asked, tmp_path):
    engine = opened(system_named("transformer post"), tmp_path)
    found = []
    for room in (0, 700, 1 << 20):
        native = EngineConstraint(Wanting(VOCABULARY, asked=asked), vocabulary=VOCABULARY, room=room)
        requests = [EngineRequest(ids=ids, limit=9, constraint=native) for ids in sentences(6)]
        for options in (EngineOptions(beam=3, best=2), EngineOptions(sample=True, best=3)):
            found.append(engine.search(requests, options=options, workers=2, capacity=2))
    assert found[:2] == found[2:4] == found[4:]
    assert all(7 in one.tokens and 9 not in one.tokens for outcome in found[0] for one in outcome)


DAEMON = """
import sys, threading, time
from regard.engine import Engine, EngineOptions, EngineRequest
from regard.engine.constraints import EngineConstraint
from tests.engine.rules import Wanting
engine = Engine(sys.argv[1])
constraint = EngineConstraint(Wanting(engine.target_vocabulary), vocabulary=engine.target_vocabulary)
begun = threading.Event()

def search():
    while True:
        for one in (None, constraint):
            request = EngineRequest(ids=[9, 8, 3], limit=4000, constraint=one)
            engine.answer([request] * 8, options=EngineOptions(beam=4, min_length=3000))
            begun.set()

threading.excepthook = lambda _: None
threading.Thread(target=search, daemon=True).start()
begun.wait()
time.sleep(float(sys.argv[2]))
"""


@pytest.mark.parametrize("seconds", [0.0, 0.02, 0.05])
def test_daemon_threads_that_search_do_not_hinder_the_end(seconds, tmp_path):
    opened(system_named("gru, luong"), tmp_path)
    call = [sys.executable, "-c", DAEMON, str(tmp_path / "float.bin"), str(seconds)]
    done = subprocess.run(call, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


def test_prefixes_are_made_of_words(tmp_path):
    engine = opened(system_named("transformer post"), tmp_path)
    for token in (PAD, START, END):
        (answer,) = engine.answer([EngineRequest(ids=[9, END], limit=5, prefix=[5, token])], options=EngineOptions())
        assert answer.fault == "request 0 has a prefix id that is no word"


class Rules:
    """One state that is as it is given."""

    def __init__(self, start: int = 0, goal: int = 0, **state: object) -> None:
        self.start, self.goal = start, goal
        usual: dict[str, object] = {"tokens": array("i", [9]), "ways": array("i", [0]), "states": [0]}
        usual |= {"progresses": [0], "distances": [1], "may_end": True, "progress": 0, "enough": 0}
        self.given: dict[str, object] = {**usual, **state}

    def state(self, number: int) -> EngineState:
        assert number == 0
        return EngineState(**self.given)

    def open(self, number: int, left: int) -> bytes:
        del number, left
        return b"\1\1"


@pytest.mark.parametrize(
    "wrong",
    [
        {"tokens": array("i", [VOCABULARY])},
        {"tokens": array("i", [-1])},
        {"tokens": array("i", [END])},
        {"tokens": array("i", [9, 9]), "ways": array("i", [0, 0])},
        {"tokens": array("i", [9, 8]), "ways": array("i", [0, 0])},
        {"ways": array("i", [1])},
        {"ways": array("i", [-1])},
        {"states": [-1]},
        {"distances": None, "enough": 1 << 40},
        {"ways": array("i", [0, 0])},
        {"ways": array("q", [0])},
        {"progresses": [0, 0]},
        {"distances": [0, 0]},
        {"progress": 1},
        {"progresses": [1 << 62]},
        {"progresses": [-1]},
    ],
    ids=[
        "beyond",
        "negative",
        "end",
        "twice",
        "order",
        "no way",
        "negative way",
        "negative state",
        "other ways",
        "more ways",
        "wide ways",
        "more progresses",
        "more distances",
        "too far",
        "overflow",
        "negative progress",
    ],
)
def test_impossible_states_are_refused(wrong, tmp_path):
    engine = opened(system_named("transformer post"), tmp_path)
    constraint = EngineConstraint(Rules(**wrong), vocabulary=VOCABULARY)
    request = EngineRequest(ids=[9, END], limit=5, constraint=constraint)
    with pytest.raises(ModelError, match="constraint"):
        engine.search([request], options=EngineOptions(beam=2))


def test_impossible_beginnings_and_vocabularies_are_refused(tmp_path):
    engine = opened(system_named("transformer post"), tmp_path)
    for constraint, told in (
        (EngineConstraint(Rules(), vocabulary=VOCABULARY + 1), "a constraint on another vocabulary"),
        (EngineConstraint(Rules(start=-1), vocabulary=VOCABULARY), "a constraint without a beginning"),
        (EngineConstraint(Rules(start=1 << 31), vocabulary=VOCABULARY), "a constraint without a beginning"),
    ):
        right = EngineRequest(ids=[9, END], limit=5)
        answers = engine.answer(
            [EngineRequest(ids=[9, END], limit=5, constraint=constraint), right], options=EngineOptions()
        )
        assert told in answers[0].fault
        assert answers[1].found
    with pytest.raises(ModelError, match="a constraint is not one that there can be"):
        EngineConstraint(Rules(goal=-1), vocabulary=VOCABULARY)


def test_threads_share_a_constraint(tmp_path):
    engine, options = opened(system_named("transformer post"), tmp_path), OPTIONS["beam"]
    constraint = lift_all([forbidding(("ab",)), matching(r"[\w ]*"), forcing(("a", "b"))], Surfaces(SURFACES))
    requests = requests_for(sentences(8, seed=6), options, (), [constraint] * 8)
    found: list[list[Finished]] = []

    def search() -> None:
        found.append(searched(NativeSearch(engine), requests))

    threads = [threading.Thread(target=search) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert all(one == found[0] for one in found)


def test_a_large_trie(tmp_path):
    """One of thousands of lines: few tokens can come at each place."""
    lines = tuple(f"{a}{b} {c}{d}" for a in "ABCDEFGH" for b in "ABCDEFGH" for c in "abcdefgh" for d in "ABCDEFGHIJ")
    system, sources, options = system_named("luong lstm"), sentences(5, seed=4), OPTIONS["beam"]
    constraint = lift_all([one_of(lines)], Surfaces(SURFACES))
    found = searched(NativeSearch(opened(system, tmp_path)), requests_for(sources, options, (), [constraint] * 5))
    assert_alike(found, torch_search(system, sources, options, (), [constraint] * 5))
    for one in found:
        assert one.hypotheses
        for each in one.hypotheses:
            assert b"".join(SURFACES[token] for token in each.tokens).decode() in lines


def test_constraints_that_tell_nothing_or_of_impossible_states_are_refused(tmp_path):
    engine = opened(system_named("transformer post"), tmp_path)

    class Everywhere(Wanting):
        def state(self, number: int) -> EngineState:
            del number
            return super().state(0)

    constraint = EngineConstraint(Everywhere(VOCABULARY), vocabulary=VOCABULARY)
    with pytest.raises(ModelError, match="a constraint has no such state"):
        constraint.tell(1 << 40, -1)
    with (
        patch.object(EngineConstraint, "tell"),
        pytest.raises(ModelError, match="a constraint does not tell what it is asked"),
    ):
        engine.search([EngineRequest(ids=[9, END], limit=5, constraint=constraint)], options=EngineOptions(beam=2))
