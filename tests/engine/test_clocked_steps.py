"""The search by the clock that latencies are measured with: as many steps as a search has, and what it refuses."""

import ctypes
from array import array

import pytest
import torch

from regard.engine import Engine, EngineOptions, EngineRequest
from regard.engine.library import MESSAGE, MISUSED, REFUSED
from regard.engine.runtime import address
from regard.special import END
from tests.engine.searching import VOCABULARY, opened, sentences, system_named, variant

pytestmark = pytest.mark.usefixtures("library")
UNTOUCHED = -7.0
ROOM = 64


def stepped(
    engine: Engine, ids: list[int], *, beam: int = 2, capacity: int = 4, limit: int = 9, length: int | None = None
) -> tuple[int, str, list[float]]:
    """The status, the message and the clock of a search; nothing is written beyond what was counted."""
    source, times, count = array("i", ids), (ctypes.c_double * ROOM)(*[UNTOUCHED] * ROOM), ctypes.c_int64()
    message = ctypes.create_string_buffer(MESSAGE)
    numbers = (ctypes.c_int64(one) for one in (len(ids) if length is None else length, beam, capacity, limit))
    status = engine.library.regard_try_steps(
        engine.handle, ctypes.c_void_p(address(source)), *numbers, times, ctypes.byref(count), message
    )
    assert all(one == UNTOUCHED for one in times[count.value :])
    return status, message.value.decode(), list(times[: count.value])


@pytest.mark.parametrize("name", ["transformer post", "bahdanau gru_cho"])
@pytest.mark.parametrize("int8", [False, True], ids=["float", "int8"])
def test_the_clock_stands_at_the_beginning_and_after_each_step(name, int8, tmp_path):
    engine = opened(system_named(name), tmp_path, int8=int8)
    options = EngineOptions(beam=1, stopping="early")
    for ids in sentences(5):
        ((found,),) = engine.search([EngineRequest(ids=ids, limit=9)], options=options)
        status, message, clock = stepped(engine, ids, beam=1)
        assert (status, message) == (0, "")
        assert len(clock) == 1 + len(found.tokens) + found.complete
        assert clock == sorted(clock)


def test_there_are_no_more_steps_than_positions(tmp_path):
    system = variant("learned, gelu")
    with torch.no_grad():
        system.decoder.output.weight[END] *= 0
    engine = opened(system, tmp_path)
    status, _, clock = stepped(engine, [7, END], beam=1, limit=50)
    assert (status, len(clock)) == (0, 1 + 30)


@pytest.mark.parametrize(
    ("ids", "asked", "message"),
    [
        ([7, END], {"beam": 0}, "the beam must be from 1 to 64, not 0"),
        ([7, END], {"beam": -1}, "the beam must be from 1 to 64, not -1"),
        ([7, END], {"beam": 65}, "the beam must be from 1 to 64, not 65"),
        ([7, END], {"beam": 2**40}, "the beam must be from 1 to 64, not 1099511627776"),
        ([7, END], {"capacity": 0}, "the capacity must be from 1 to 4096, not 0"),
        ([7, END], {"capacity": -(2**62)}, f"the capacity must be from 1 to 4096, not {-(2**62)}"),
        ([7, END], {"capacity": 4097}, "the capacity must be from 1 to 4096, not 4097"),
        ([7, END], {"limit": 0}, "the request has a limit that is not from 1 to 65535"),
        ([7, END], {"limit": -1}, "the request has a limit that is not from 1 to 65535"),
        ([7, END], {"limit": 65536}, "the request has a limit that is not from 1 to 65535"),
        ([7, END], {"limit": 2**63 - 1}, "the request has a limit that is not from 1 to 65535"),
        ([], {}, "the request has an empty source"),
        ([7, END], {"length": -1}, "the request has a negative length"),
        ([VOCABULARY, END], {}, "the request has a source id that the vocabulary does not have"),
        ([-1, END], {}, "the request has a source id that the vocabulary does not have"),
        ([7] * 40 + [END], {}, "the request: a sequence of 41 tokens is longer than the 40 learned positions"),
    ],
)
def test_what_is_wrong_is_refused_and_nothing_is_written(ids, asked, message, tmp_path):
    engine = opened(variant("learned, gelu"), tmp_path)
    status, told, clock = stepped(engine, ids, **asked)
    assert (status, clock) == (MISUSED if asked.keys() & {"beam", "capacity"} else REFUSED, [])
    assert told.removesuffix(" of this model") == message
