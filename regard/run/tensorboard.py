"""What TensorBoard shows of a training: event files in the folder `tensorboard` of a run.

An event file is a row of records, each the length of its content, a checksum of the length, the content and a checksum
of that (TFRecord); a content is an `Event` in the wire format of protocol buffers. The few fields that are needed are
written here, so that nothing has to be installed to write them.

A training that goes on writes a new file that begins with the mark of a new session: TensorBoard reads files in the
order of their names and forgets what older ones hold of steps from the mark on, so that no step is shown twice.
"""

import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from regard.errors import ResourceError
from regard.report import visible
from regard.training import Event, Sampled, Shown, Started, Stepped, Validated, Warned

NAME: Final = "events.out.tfevents."
VERSION: Final = "brain.Event:2"
"""From this version on a session mark takes steps back."""

_VARINT, _DOUBLE, _BYTES, _FLOAT = 0, 1, 2, 5
_START = 1
_STRING_TYPE = 7


class TensorBoardWriter:
    """An observer that writes scalars and outputs. Each record is flushed, so that it can be watched."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path: Path | None = None

    def __call__(self, event: Event) -> None:
        step = event.progress.step
        match event:
            case Started():
                self._open(step)
            case Stepped():
                self._write(
                    step,
                    *scalar("training/loss", event.loss),
                    *scalar("training/likelihood", event.likelihood),
                    *scalar("training/learning rate", event.learning_rate),
                    *scalar("training/gradient norm", event.gradient_norm),
                    *scalar("training/clipped", event.clipped),
                    *scalar("speed/tokens per second", event.tokens_per_second),
                    *scalar("speed/memory in megabytes", event.memory / 1e6),
                )
            case Validated():
                found = {"loss": event.loss, **event.metrics}
                self._write(step, *(part for name, one in found.items() for part in scalar(f"validation/{name}", one)))
            case Sampled(samples=samples):
                self._write(step, *text("outputs", *map(_markdown, samples)))
            case Warned(kind=kind, text=told):
                self._write(step, *text(f"warnings/{kind}", told))
            case _:
                pass

    def _open(self, step: int) -> None:
        """Begin a file whose name comes after all others; a training that starts anew deletes what was there."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            there = sorted(path for path in self.folder.iterdir() if path.name.startswith(NAME))
            if not step:
                for path in there:
                    path.unlink()
                there = []
            seconds = max(int(time.time()), *(_second(path) + 1 for path in there), 0)
            self.path = self.folder / f"{NAME}{seconds:010d}"
            self.path.touch(exist_ok=False)
        except OSError as error:
            raise self._cannot(self.folder, error) from error
        self._append(record(event_(0, _field(3, VERSION.encode()))))
        if step:
            self._append(record(event_(step + 1, _field(7, _number(1, _START)))))

    def _write(self, step: int, *values: bytes) -> None:
        self._append(record(event_(step, _field(5, b"".join(values)))))

    def _append(self, content: bytes) -> None:
        assert self.path is not None, "training starts before it steps"
        try:
            with self.path.open("ab") as file:
                file.write(content)
        except OSError as error:
            raise self._cannot(self.path, error) from error

    def _cannot(self, path: Path, error: OSError) -> ResourceError:
        return ResourceError(
            f"{path}: cannot be written to ({error.strerror or error}). Checkpoints are intact; make room, "
            "or go on with training.tensorboard=false"
        )


def scalar(tag: str, value: float) -> Iterator[bytes]:
    """One number of a summary: Value(tag, simple_value)."""
    yield _field(1, _field(1, tag.encode()) + _key(2, _FLOAT) + struct.pack("<f", value))


def text(tag: str, *texts: str) -> Iterator[bytes]:
    """Texts of a summary: Value(tag, metadata of the text plugin, a tensor of strings)."""
    plugin = _field(9, _field(1, _field(1, b"text")))
    strings = b"".join(_field(8, one.encode()) for one in texts)
    shape = _field(2, _field(2, _number(1, len(texts))))
    tensor = _field(8, _number(1, _STRING_TYPE) + shape + strings)
    yield _field(1, _field(1, tag.encode()) + plugin + tensor)


def event_(step: int, content: bytes) -> bytes:
    """Event(wall_time, step, what)."""
    return _key(1, _DOUBLE) + struct.pack("<d", time.time()) + _number(2, step) + content


def record(content: bytes) -> bytes:
    """A content with its length and checksums."""
    length = struct.pack("<Q", len(content))
    return length + struct.pack("<I", masked(length)) + content + struct.pack("<I", masked(content))


def masked(content: bytes) -> int:
    """The checksum of a record: CRC-32C, turned and moved, so that it may itself be part of what is summed."""
    summed = crc32c(content)
    return ((summed >> 15 | summed << 17) + 0xA282EAD8) & 0xFFFFFFFF


def crc32c(content: bytes) -> int:
    """The cyclic redundancy check of Castagnoli's polynomial (RFC 3720, 12.1)."""
    summed = 0xFFFFFFFF
    for byte in content:
        summed = _TABLE[(summed ^ byte) & 0xFF] ^ summed >> 8
    return summed ^ 0xFFFFFFFF


def _table() -> tuple[int, ...]:
    entries = []
    for byte in range(256):
        entry = byte
        for _ in range(8):
            entry = entry >> 1 ^ (0x82F63B78 if entry & 1 else 0)
        entries.append(entry)
    return tuple(entries)


_TABLE: Final = _table()


def _key(number: int, kind: int) -> bytes:
    return _varint(number << 3 | kind)


def _field(number: int, content: bytes) -> bytes:
    return _key(number, _BYTES) + _varint(len(content)) + content


def _number(number: int, value: int) -> bytes:
    return _key(number, _VARINT) + _varint(value)


def _varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first; the highest bit tells that more come."""
    content = bytearray()
    while value > 0x7F:
        content.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*content, value])


def _second(path: Path) -> int:
    digits = path.name.removeprefix(NAME).split(".")[0]
    return int(digits) if digits.isdecimal() else 0


def _markdown(shown: Shown) -> str:
    """Rows of fixed text: TensorBoard shows Markdown, in which four blanks make everything be shown as it is."""
    rows = [("source", shown.source), ("output", shown.output)]
    if shown.reference is not None:
        rows.insert(1, ("reference", shown.reference))
    return "\n".join(f"    {name:<9} {visible(one)}" for name, one in rows)
