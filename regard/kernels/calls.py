"""Whether kernels can be used for given tensors, and what all calls of them share."""

import ctypes
from enum import IntEnum
from typing import Final

import torch
from torch import Tensor, nn

from regard.kernels.draws import generator
from regard.kernels.library import loaded
from regard.kernels.structures import Call, Chance

LEVELS: Final = 1 << 16
"""Dropout is decided by numbers below this, so a rate is met to half of its inverse."""

_ALONE: Final = 1 << 15
"""Numbers that one thread is through with before another one has woken up."""


def serves(*tensors: Tensor, narrow: bool = False) -> bool:
    """Whether kernels can compute with tensors: plain ones in single precision that lie in this machine's memory, in
    order, and that nobody traces or compiles; products are made in the same precision or in bfloat16. `narrow`: so
    may the tensors be."""
    if torch.compiler.is_compiling() or loaded().library is None:
        return False
    if torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") is not torch.bfloat16:
        return False
    kinds = (torch.float32, torch.bfloat16) if narrow else (torch.float32,)
    return all(is_plain(tensor) and tensor.dtype in kinds for tensor in tensors)


def is_plain(tensor: Tensor) -> bool:
    """Whether a tensor lies in this machine's memory, in order, and is no more than that."""
    return (
        (type(tensor) is Tensor or type(tensor) is nn.Parameter)
        and tensor.is_cpu
        and tensor.is_contiguous()
        and not tensor.is_neg()
        and tensor.numel() > 0
    )


def library() -> ctypes.CDLL:
    """The library, which must be there."""
    found = loaded().library
    assert found is not None, "who asks for a kernel has asked `serves`"
    return found


def has_half() -> bool:
    """Whether there are kernels that make products in half precision."""
    found = loaded().library
    return found is not None and bool(found.regard_has_half())


def checked(enough: int) -> None:
    """Complain where a kernel has found no memory to work in."""
    if not enough:
        raise MemoryError("there is not enough memory for a kernel to work in")


class Kind(IntEnum):
    """Of a call, as in native/kernels.h."""

    PRODUCT = 0
    TURNED = 1
    RECTIFIED = 2
    RECTIFIED_BACKWARD = 3
    NORMED = 4
    NORMED_BACKWARD = 5
    ATTENTION = 6
    ATTENTION_BACKWARD = 7


Asked = tuple[Kind, ctypes.Structure]
"""A call that is still to be made."""


def call_all(*calls: Asked, numbers: int) -> None:
    """Make several calls in a row, of which the largest is about so many numbers. What they point to must be held."""
    asked = (Call * len(calls))(*(Call(kind, ctypes.addressof(one)) for kind, one in calls))
    checked(library().regard_calls(asked, len(calls), threads(numbers)))


def threads(numbers: int) -> int:
    """How many threads are worth waking for so many numbers."""
    return 1 if numbers < _ALONE else torch.get_num_threads()


def seed() -> int:
    """A fresh seed of 64 bits from the generator of this thread, so that what is drawn follows from its state alone."""
    return int(torch.empty((), dtype=torch.int64, device="cpu").random_(-(2**63), None, generator=generator()))


def chance(rate: float, seed: int) -> Chance:
    """Dropout of one call. What is not dropped is scaled by the inverse of exactly the share that is left."""
    made = Chance()
    library().regard_chance(seed & (2**64 - 1), round(rate * LEVELS), ctypes.byref(made))
    return made


def rows_of(tensor: Tensor) -> tuple[int, int]:
    """How many rows a tensor has, and their width."""
    width = tensor.shape[-1] if tensor.dim() else 1
    return tensor.numel() // width, width
