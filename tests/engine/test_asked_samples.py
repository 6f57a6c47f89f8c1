"""Samples that are asked for: how many there are, who can end them, and what is wrong even if nothing is searched."""

import os
import signal
import threading
import time

import pytest

from regard.engine import EngineOptions, EngineRequest
from regard.engine.calling import SHORT
from regard.errors import RegardError
from regard.special import END
from tests.engine.searching import opened, system_named

pytestmark = pytest.mark.usefixtures("library")


def test_many_samples_of_a_short_request_can_be_interrupted(tmp_path):
    """Tokens are counted of every sample: these are not over before anyone could end them."""
    engine, ids, limit = opened(system_named("luong lstm"), tmp_path), [7, 8, 9, END], 4000
    assert len(ids) + limit <= SHORT
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has it ignored in the background
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    options = EngineOptions(sample=True, best=2000, temperature=50.0, min_length=limit + 1)
    began = time.process_time()
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            engine.answer([EngineRequest(ids=ids, limit=limit)], options=options, workers=1)
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (EngineOptions(sample=True, best=2**64 + 1), "from 1 to 65536, not 2147483647"),
        (EngineOptions(best=2**64 + 1), "best must be from 1 to the beam, 5, not 2147483647"),
        (EngineOptions(beam=2**64 + 1), "the beam must be from 1 to 64, not 2147483647"),
        (EngineOptions(block_ngrams=-(2**64)), "block_ngrams must be at least 0, not -2147483647"),
    ],
)
def test_numbers_beyond_64_bits_are_not_taken_for_others(options, message, tmp_path):
    engine = opened(system_named("transformer pre"), tmp_path)
    with pytest.raises(RegardError, match=message):
        engine.search([EngineRequest(ids=[5, END], limit=3)], options=options)


@pytest.mark.parametrize(
    "options",
    [EngineOptions(sample=True, top_p=5.0), EngineOptions(sample=True, seed=-1), EngineOptions(coverage_penalty=-1.0)],
)
def test_what_is_wrong_is_told_even_if_nothing_is_searched(options, tmp_path):
    engine = opened(system_named("transformer pre"), tmp_path)
    with pytest.raises(RegardError, match="must be"):
        engine.search([], options=options)


def test_nothing_is_searched_where_nothing_is_asked(tmp_path):
    engine = opened(system_named("transformer pre"), tmp_path)
    for options in (EngineOptions(), EngineOptions(coverage_penalty=0.5), EngineOptions(sample=True, best=3)):
        assert engine.search([], options=options) == []
