"""Bytes: the 256 of them, so that every text has ids and comes back as it was."""

from collections.abc import Sequence
from pathlib import Path

from regard.special import FIRST_FREE
from regard.text.encoding import Encoding
from regard.text.storage import Fields, Stored, write_tokenizer
from regard.text.tokenizer import Draw
from regard.text.utf8 import UNKNOWN_SIGN, join_surfaces, reserved_name, reserved_surfaces, show, to_bytes


class ByteTokenizer:
    """One id for each byte of UTF-8; the bytes of one character share its span."""

    unit = "byte"
    margin = (b"", b"")

    def __init__(self) -> None:
        self._surfaces = (*reserved_surfaces(UNKNOWN_SIGN), *(bytes([value]) for value in range(256)))

    @classmethod
    def restore(cls, fields: Fields) -> "ByteTokenizer":
        """Build the tokenizer that a file describes: there is only one."""
        fields.finish()
        return cls()

    @property
    def size(self) -> int:
        return len(self._surfaces)

    def encode(self, text: str, draw: Draw | None = None) -> Encoding:  # noqa: ARG002
        content = to_bytes(text)
        ids = tuple(FIRST_FREE + value for value in content)
        # A byte 0b10xxxxxx goes on with the character that an earlier byte began.
        place, spans = -1, []
        for value in content:
            place += value & 0xC0 != 0x80
            spans.append((place, place + 1))
        return Encoding(ids=ids, spans=tuple(spans))

    def decode(self, ids: Sequence[int]) -> str:
        return join_surfaces(self._surfaces, ids, self.margin)

    def piece(self, id_: int) -> str:
        value = id_ - FIRST_FREE
        return reserved_name(id_) or (show(chr(value)) if 0x20 <= value < 0x7F else f"<0x{value:02X}>")

    def surface(self, id_: int) -> bytes:
        return self._surfaces[id_]

    def stored(self) -> Stored:
        return Stored({"unit": self.unit})

    def save(self, folder: Path, name: str) -> None:
        write_tokenizer(folder, name, self.stored())
