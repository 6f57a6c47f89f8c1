"""Objects of before are left alone while a training goes on, and no longer."""

import gc

import pytest

from regard.training.garbage import set_aside


@pytest.fixture(autouse=True)
def _as_before() -> None:
    assert gc.get_freeze_count() == 0, "somebody has left objects set aside"


def test_objects_are_set_aside_for_a_block() -> None:
    gc.collect()
    before = len(gc.get_objects())
    with set_aside():
        assert gc.get_freeze_count() > 0.9 * before
        assert len(gc.get_objects()) < before / 2
    assert gc.get_freeze_count() == 0


def test_an_error_ends_it() -> None:
    with pytest.raises(RuntimeError, match="inside"), set_aside():
        raise RuntimeError("inside")
    assert gc.get_freeze_count() == 0


def test_who_has_set_objects_aside_is_left_alone() -> None:
    gc.freeze()
    try:
        with set_aside():
            pass
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()


def test_new_garbage_is_found_in_between() -> None:
    with set_aside():
        made: list[object] = []
        made.append(made)
        del made
        assert gc.collect() >= 1
