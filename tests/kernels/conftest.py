"""The kernels as they stand in this tree, built anew where a source has changed."""

import ctypes
from collections.abc import Iterator

import pytest

from regard.engine.build import TRAINING, BuildError, build, compiler
from regard.kernels.library import SETS, loaded


@pytest.fixture(scope="session")
def built() -> ctypes.CDLL:
    try:
        compiler()
    except BuildError as error:
        pytest.skip(str(error))
    build(native=TRAINING)
    loaded.cache_clear()
    found = loaded()
    assert found.library is not None, found.reason
    return found.library


@pytest.fixture(params=SETS)
def kernels(request: pytest.FixtureRequest, built: ctypes.CDLL) -> Iterator[ctypes.CDLL]:
    """Each set that works on this processor."""
    best = built.regard_kernels_used()
    if not built.regard_use_kernels(request.param.encode()):
        pytest.skip(f"this processor has no {request.param}")
    yield built
    built.regard_use_kernels(best)


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No kernels, as where there is no compiler."""
    monkeypatch.setenv("REGARD_KERNELS", "off")
    loaded.cache_clear()
    yield
    monkeypatch.undo()
    loaded.cache_clear()
