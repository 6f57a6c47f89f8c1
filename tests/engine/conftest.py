"""The native library as it stands in this tree, built anew where a source has changed."""

import ctypes

import pytest

from regard.engine.build import BuildError, build, compiler
from regard.engine.library import loaded


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
