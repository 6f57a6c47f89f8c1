"""The library of kernels: found, loaded once, and described to ctypes. Calls hold no lock of Python's.

`REGARD_KERNELS` in the environment says `off`, or which kernels are used (`amx_bf16`, `avx512_bf16`, `avx512`, `avx2`,
`portable`) where the best ones are not wanted. Rows are shared among the threads of the OpenMP library that torch has
loaded; where that is not found, and in processes that were forked, one thread does all of them. What is computed does
not depend on that.
"""

import ctypes
import os
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from regard.kernels.structures import (
    Agreed,
    Attended,
    Call,
    Chance,
    Chosen,
    Compared,
    Dropped,
    Gated,
    Loss,
    Normed,
    NormedBackward,
    Peaked,
    Product,
    Rectified,
    Stepped,
    Summed,
    Turned,
)

LIBRARY: Final = Path(__file__).with_name("native") / "_regard_kernels.so"
"""Where the library is built."""

INTERFACE: Final = 9
"""What this version of the package expects the library to speak."""

SETTING: Final = "REGARD_KERNELS"
WHERE: Final = "REGARD_KERNELS_LIBRARY"
"""In the environment: another library than the one of this package, say one with sanitizers."""

SETS: Final = ("amx_bf16", "avx512_bf16", "avx512", "avx2", "portable")

_TELL: Final = (
    "regard_attention",
    "regard_attention_backward",
    "regard_product",
    "regard_turned_product",
    "regard_loss",
    "regard_calls",
    "regard_stepped",
)
"""Functions that say whether there was enough memory."""

_pointer, _number = ctypes.c_void_p, ctypes.c_int64


@dataclass(frozen=True, slots=True)
class Loaded:
    """The library, or why there is none."""

    library: ctypes.CDLL | None
    reason: str = ""
    shares: bool = False  # whether it has found threads to share rows among


class KernelsWarning(RuntimeWarning):
    """Kernels were asked for by name and cannot be used."""


@cache
def loaded() -> Loaded:
    """Load the library at the first call; who asks for it by name is told where it cannot be."""
    found = _load()
    if found.library is None and _asked() and os.environ.get(SETTING) != "off":
        warnings.warn(f"no native kernels: {found.reason}. torch does without", KernelsWarning, stacklevel=3)
    return found


def _load() -> Loaded:
    setting = os.environ.get(SETTING, "")
    if setting == "off":
        return Loaded(None, f"{SETTING} is off")
    path = Path(os.environ.get(WHERE, "") or LIBRARY)
    again = "`python -m regard.engine.build`"
    if not path.exists():
        return Loaded(None, f"it was not built; {again} builds it where there is a compiler")
    try:
        library = ctypes.CDLL(str(path))
        if int(library.regard_interface()) != INTERFACE:
            return Loaded(None, f"{path} is of another version; build it again with {again}")
        _describe(library)
    except (OSError, AttributeError) as error:
        return Loaded(None, f"{path} cannot be loaded ({error}); build it again with {again}")
    if not library.regard_use_kernels(setting.encode()):
        wrong = "which this processor cannot do" if setting in SETS else f"which is none of {', '.join(('off', *SETS))}"
        return Loaded(None, f"{SETTING} is {setting!r}, {wrong}")
    return Loaded(library, shares=_share(library))


def available() -> str:
    """Why the kernels cannot be used here; "" where they can."""
    return loaded().reason


def missing() -> str:
    """Why there are no kernels where the environment says nothing of them; "" otherwise."""
    return "" if _asked() else available()


def _asked() -> bool:
    return any(os.environ.get(name) for name in (SETTING, WHERE))


def _describe(library: ctypes.CDLL) -> None:
    library.regard_kernels_used.restype = ctypes.c_char_p
    library.regard_use_kernels.argtypes = [ctypes.c_char_p]
    library.regard_use_threads.argtypes = [_pointer, _pointer, _pointer]
    library.regard_chance.argtypes = [ctypes.c_uint64, ctypes.c_uint32, ctypes.POINTER(Chance)]
    library.regard_blocks.argtypes = [_number]
    library.regard_blocks.restype = _number
    library.regard_packed_room.argtypes = [ctypes.POINTER(Product)]
    library.regard_packed_room.restype = _number
    shapes: dict[str, list[object]] = {
        "regard_dropped": [ctypes.POINTER(Dropped), _number, _number],
        "regard_rectified": [ctypes.POINTER(Rectified), _number],
        "regard_rectified_backward": [ctypes.POINTER(Rectified), _number],
        "regard_normed": [ctypes.POINTER(Normed), _number],
        "regard_normed_backward": [ctypes.POINTER(NormedBackward), _number],
        "regard_attention": [ctypes.POINTER(Attended), _number],
        "regard_attention_backward": [ctypes.POINTER(Attended), _number],
        "regard_peaked": [ctypes.POINTER(Peaked), _number, _number],
        "regard_agreed": [ctypes.POINTER(Agreed), _number],
        "regard_pack": [ctypes.POINTER(Product), _pointer],
        "regard_product": [ctypes.POINTER(Product), _number],
        "regard_turned_product": [ctypes.POINTER(Turned), _number],
        "regard_loss": [ctypes.POINTER(Loss), _number],
        "regard_calls": [ctypes.POINTER(Call), _number, _number],
        "regard_gated": [ctypes.POINTER(Gated), _number, _number],
        "regard_chosen": [ctypes.POINTER(Chosen), _number, _number],
        "regard_summed": [ctypes.POINTER(Summed), _number, _number],
        "regard_stepped": [ctypes.POINTER(Stepped)],
        "regard_compared": [ctypes.POINTER(Compared), _number, _number],
    }
    for name, types in shapes.items():
        getattr(library, name).argtypes = types
    for name in ("regard_use_threads", "regard_chance", *shapes):
        if name not in _TELL:
            getattr(library, name).restype = None


def _share(library: ctypes.CDLL) -> bool:
    """Tell the library the threads of torch; a forked process has none of them."""
    for pool in _pools():
        try:
            names = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")
            library.regard_use_threads(*(ctypes.cast(getattr(pool, name), _pointer) for name in names))
        except AttributeError:
            continue
        os.register_at_fork(after_in_child=lambda: library.regard_use_threads(None, None, None))
        return True
    return False


def _pools() -> list[ctypes.CDLL]:
    """OpenMP libraries that this process has loaded for torch."""
    import torch

    folder = Path(torch.__file__).with_name("lib")
    names = [str(path) for path in sorted(folder.glob("lib*omp*.so*"))]
    found = []
    for name in (*names, "libgomp.so.1", "libiomp5.so", "libomp.so.5"):
        try:
            found.append(ctypes.CDLL(name, mode=os.RTLD_NOLOAD | os.RTLD_NOW))
        except OSError:  # not loaded
            continue
    return found
