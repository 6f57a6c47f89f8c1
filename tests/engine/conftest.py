"""The native library as it stands in this tree, built anew where a source has changed."""

import ctypes

import pytest

from regard.engine.build import BuildError, build, compiler
from regard.engine.library import kernels_here, loaded

KERNELS = ("amx_int8", "avx512_vnni", "avx_vnni", "avx2", "portable")


@pytest.fixture(scope="session")
def library() -> ctypes.CDLL:
    try:
        compiler()
    except BuildError as error:
        pytest.skip(str(error))
    build()
    loaded.cache_clear()
    found = loaded()
    assert found.library is not None, found.reason
    return found.library


@pytest.fixture(params=KERNELS)
def kernels(request: pytest.FixtureRequest, library: ctypes.CDLL) -> bytes:
    """Each set that works on this processor."""
    name = str(request.param)
    if name not in kernels_here():
        pytest.skip(f"this processor has no {name}")
    return name.encode()
