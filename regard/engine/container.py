"""The engine file as it is written: settings and tensors in one file that is mapped, never parsed as a whole.

`native/file.h` describes the layout and reads it; both have format 1. The file is checked there, not here: nothing in
Python reads one.
"""

import struct
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from regard.files import replace_file

FORMAT: Final = 1
MAGIC: Final = b"RGENGINE"
TYPES: Final = {"float32": 0, "int8": 1, "int32": 2}
PANEL: Final = 64
"""Columns of weights that stand together."""

_ALIGNED: Final = 64
_CHECKSUM_AT: Final = 32

Array = NDArray[np.float32] | NDArray[np.int8] | NDArray[np.int32]


@dataclass(slots=True)
class Container:
    """Settings and tensors that are gathered for one file."""

    quantised: bool
    settings: dict[str, float] = field(default_factory=dict)
    tensors: dict[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.settings["int8"] = float(self.quantised)

    def set(self, **settings: float) -> None:
        """Settings of the whole model; those of a part have names with dots and go into `settings`."""
        self.settings.update(settings)

    def floats(self, name: str, values: NDArray[np.float32]) -> None:
        self.tensors[name] = np.ascontiguousarray(values, dtype=np.float32)

    def linear(self, name: str, weight: NDArray[np.float32], bias: NDArray[np.float32] | None) -> None:
        """x Wᵀ + b, packed in panels, in bytes where the model is quantised: weight (outputs, inputs)."""
        outputs = weight.shape[0]
        padded = np.zeros(-(-outputs // PANEL) * PANEL, dtype=np.float32)
        if bias is not None:
            padded[:outputs] = bias
        self.tensors[f"{name}.bias"] = padded
        if not self.quantised:
            self.tensors[f"{name}.floats"] = packed_floats(weight)
            return
        packed = packed_bytes(weight)
        self.tensors[f"{name}.bytes"] = packed.panels
        self.tensors[f"{name}.scales"] = packed.scales
        self.tensors[f"{name}.shift"] = packed.shift

    def content(self) -> bytes:
        """The whole file."""
        tables = bytearray()
        for name, value in self.settings.items():
            tables += struct.pack("<48sd8x", _name(name, 48), value)
        offset = _up(_ALIGNED + len(tables) + 128 * len(self.tensors))
        placed: dict[bytes, int] = {}  # tensors with the same content, say tied embeddings, share it
        for name, tensor in self.tensors.items():
            shape = (*tensor.shape, *(0,) * (4 - tensor.ndim))
            part = tensor.tobytes().ljust(_up(tensor.nbytes), b"\0")
            place = placed.setdefault(part, offset)
            tables += struct.pack(
                "<64sIIqqqqQQ8x", _name(name, 64), TYPES[str(tensor.dtype)], tensor.ndim, *shape, place, tensor.nbytes
            )
            offset = max(offset, place + len(part))
        head = struct.pack("<8sIIIIQ32x", MAGIC, FORMAT, len(self.settings), len(self.tensors), 0, offset)
        return sealed(b"".join([(head + tables).ljust(_up(len(head) + len(tables)), b"\0"), *placed]))

    def write(self, path: Path) -> None:
        """Put the file in place, whole."""
        replace_file(path, self.content())


@dataclass(frozen=True, slots=True)
class Packed:
    """Weights as bytes: w ≈ q · scale of its column. `shift` is -128 Σ q, as activations are shifted by 128."""

    panels: NDArray[np.int8]  # (panels, inputs / 4, 64, 4)
    scales: NDArray[np.float32]
    shift: NDArray[np.int32]


def packed_floats(weight: NDArray[np.float32]) -> NDArray[np.float32]:
    """(outputs, inputs) → (panels, inputs, 64)."""
    outputs, inputs = weight.shape
    panels = -(-outputs // PANEL)
    padded = np.zeros((panels * PANEL, inputs), dtype=np.float32)
    padded[:outputs] = weight
    return np.ascontiguousarray(padded.reshape(panels, PANEL, inputs).transpose(0, 2, 1))


def packed_bytes(weight: NDArray[np.float32]) -> Packed:
    """(outputs, inputs) → bytes, the largest of each output as ±127."""
    outputs, inputs = weight.shape
    panels, quads = -(-outputs // PANEL), -(-inputs // 4)
    largest = np.abs(weight).max(axis=1)
    scales = np.zeros(panels * PANEL, dtype=np.float32)
    scales[:outputs] = largest / 127
    whole = np.zeros((panels * PANEL, quads * 4), dtype=np.int8)
    divided = np.divide(weight, scales[:outputs, None], out=np.zeros_like(weight), where=largest[:, None] > 0)
    whole[:outputs, :inputs] = np.clip(np.rint(divided), -127, 127).astype(np.int8)
    shift = (-128 * whole.sum(axis=1, dtype=np.int64)).astype(np.int32)
    panelled = whole.reshape(panels, PANEL, quads, 4).transpose(0, 2, 1, 3)
    return Packed(panels=np.ascontiguousarray(panelled), scales=scales, shift=shift)


def sealed(content: bytes) -> bytes:
    """The same content with the checksum that belongs to it."""
    before, after = content[:_CHECKSUM_AT], content[_CHECKSUM_AT + 4 :]
    checksum = zlib.crc32(after, zlib.crc32(bytes(4), zlib.crc32(before)))
    return b"".join((before, struct.pack("<I", checksum), after))


def _up(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED


def _name(name: str, room: int) -> bytes:
    encoded = name.encode()
    assert len(encoded) < room, f"the name {name} is too long for the table"
    return encoded
