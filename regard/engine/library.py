"""The native library: found, loaded once, and described to ctypes. Calls hold no lock of Python's."""

import ctypes
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

LIBRARY: Final = Path(__file__).with_name("native") / "_regard_engine.so"
"""Where the library is built."""

INTERFACE: Final = 7
"""What this version of the package expects the library to speak."""

KERNELS: Final = "REGARD_ENGINE_KERNELS"
"""In the environment: other kernels than the best of this processor."""

WHERE: Final = "REGARD_ENGINE_LIBRARY"
"""In the environment: another library than the one of this package, say one with sanitizers."""

MESSAGE: Final = 1024
REFUSED: Final = 1
NO_MEMORY: Final = 2
STOPPED: Final = 4
MISUSED: Final = 5


class Asked(ctypes.Structure):
    """What `regard_search` is asked, as in native/interface.cpp."""

    _fields_ = (
        ("requests", ctypes.c_int64),
        ("capacity", ctypes.c_int64),
        ("workers", ctypes.c_int64),
        ("ids", ctypes.c_void_p),
        ("id_starts", ctypes.c_void_p),
        ("prefixes", ctypes.c_void_p),
        ("prefix_starts", ctypes.c_void_p),
        ("limits", ctypes.c_void_p),
        ("beam", ctypes.c_int64),
        ("best", ctypes.c_int64),
        ("min_length", ctypes.c_int64),
        ("block_ngrams", ctypes.c_int64),
        ("length_penalty", ctypes.c_double),
        ("gnmt", ctypes.c_int64),
        ("unknown", ctypes.c_int64),
        ("early", ctypes.c_int64),
        ("stop", ctypes.c_void_p),
        ("coverage_penalty", ctypes.c_double),
        ("sample", ctypes.c_int64),
        ("seed", ctypes.c_uint64),
        ("numbers", ctypes.c_void_p),
        ("temperature", ctypes.c_double),
        ("rules", ctypes.c_int64),
        ("top_k", ctypes.c_int64),
        ("top_p", ctypes.c_double),
        ("min_p", ctypes.c_double),
        ("typical", ctypes.c_double),
        ("constraints", ctypes.c_void_p),
        ("constraint_starts", ctypes.c_void_p),
        ("ask", ctypes.c_void_p),
    )
    kept: tuple[object, ...]
    """What the addresses are of: it must be there as long as a search may read it."""


class AskedPairs(ctypes.Structure):
    """What `regard_attention` is asked, as in native/alignment.cpp."""

    _fields_ = (
        ("pairs", ctypes.c_int64),
        ("capacity", ctypes.c_int64),
        ("workers", ctypes.c_int64),
        ("ids", ctypes.c_void_p),
        ("id_starts", ctypes.c_void_p),
        ("targets", ctypes.c_void_p),
        ("target_starts", ctypes.c_void_p),
        ("layer", ctypes.c_int64),
        ("head", ctypes.c_int64),
        ("stop", ctypes.c_void_p),
    )
    kept: tuple[object, ...]
    """As in `Asked`."""


class ToldState(ctypes.Structure):
    """What `regard_constraint_learn` is told of a state, as in native/constraint.h."""

    _fields_ = (
        ("count", ctypes.c_int64),
        ("tokens", ctypes.c_void_p),
        ("ways", ctypes.c_void_p),
        ("way_count", ctypes.c_int64),
        ("states", ctypes.c_void_p),
        ("progresses", ctypes.c_void_p),
        ("distances", ctypes.c_void_p),
        ("may_end", ctypes.c_int64),
        ("progress", ctypes.c_int64),
        ("enough", ctypes.c_int64),
    )


@dataclass(frozen=True, slots=True)
class Loaded:
    """The library, or why there is none."""

    library: ctypes.CDLL | None
    reason: str = ""


def library_path() -> Path:
    return Path(os.environ.get(WHERE, "") or LIBRARY)


@cache
def loaded() -> Loaded:
    """Load the library at the first call."""
    path = library_path()
    if not path.exists() and path != LIBRARY:
        return Loaded(None, f"{path}, which {WHERE} names, is not there; name another, or leave it out")
    if not path.exists():
        return Loaded(None, "it was not built; `python -m regard.engine.build` builds it where there is a compiler")
    mend = "build it again with `python -m regard.engine.build`" if path == LIBRARY else "name another, or leave it out"
    try:
        library = ctypes.CDLL(str(path.absolute()))  # a name without a folder would be looked for elsewhere
        spoken = int(library.regard_interface())
        if spoken != INTERFACE:
            return Loaded(None, f"{path} is of another version; {mend}")
        _describe(library)
    except (OSError, AttributeError) as error:
        return Loaded(None, f"{path} cannot be loaded ({error}); {mend}")
    return Loaded(library)


def available() -> str:
    """Why the native engine cannot be used here; "" where it can."""
    return loaded().reason


def kernels_here() -> list[str]:
    """Names of the kernels that work on this processor, the best first."""
    library = loaded().library
    return [] if library is None else library.regard_kernels_here().decode().split()


def _describe(library: ctypes.CDLL) -> None:
    pointer, text = ctypes.c_void_p, ctypes.c_char_p
    library.regard_kernels_here.restype = text
    library.regard_kernels_of.argtypes = [pointer]
    library.regard_kernels_of.restype = text
    library.regard_open.argtypes = [text, text, ctypes.POINTER(pointer), text]
    library.regard_close.argtypes = [pointer]
    library.regard_close.restype = None
    library.regard_about.argtypes = [pointer, pointer]
    library.regard_about.restype = None
    library.regard_attention_heads.argtypes = [pointer, pointer]
    library.regard_attention_heads.restype = None
    library.regard_attention.argtypes = [pointer, ctypes.POINTER(AskedPairs), pointer, ctypes.c_int64, text]
    library.regard_setting.argtypes = [pointer, text, ctypes.POINTER(ctypes.c_double), text]
    library.regard_search.argtypes = [pointer, ctypes.POINTER(Asked), ctypes.POINTER(pointer), text]
    library.regard_result_fault.argtypes = [pointer, ctypes.c_int64]
    library.regard_result_fault.restype = text
    _describe_sessions(library)
    _describe_constraints(library)
    library.regard_result_sizes.argtypes = [pointer, pointer]
    library.regard_result_sizes.restype = None
    library.regard_result_copy.argtypes = [pointer] * 6
    library.regard_result_copy.restype = None
    library.regard_result_free.argtypes = [pointer]
    library.regard_result_free.restype = None


def _describe_constraints(library: ctypes.CDLL) -> None:
    pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64
    library.regard_constraint_new.argtypes = [number, number, number, ctypes.POINTER(pointer), text]
    library.regard_constraint_free.argtypes = [pointer]
    library.regard_constraint_free.restype = None
    library.regard_constraint_learn.argtypes = [pointer, number, ctypes.POINTER(ToldState), text]
    library.regard_constraint_open.argtypes = [pointer, number, number, text, number, text]


def _describe_sessions(library: ctypes.CDLL) -> None:
    pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64
    library.regard_session_open.argtypes = [pointer, number, number, ctypes.POINTER(pointer), text]
    library.regard_session_close.argtypes = [pointer]
    library.regard_session_close.restype = None
    library.regard_session_start.argtypes = [pointer, number, pointer, pointer, pointer, text]
    library.regard_session_release.argtypes = [pointer, number, text]
    library.regard_session_step.argtypes = [pointer, number, pointer, pointer, pointer, number, text]
