"""Text from right to left: the last token is the first id, for models that write their outputs from the end on."""

from collections.abc import Sequence
from pathlib import Path

from regard.text.encoding import Encoding
from regard.text.tokenizer import Draw, Tokenizer


class BackwardTokenizer:
    """Another tokenizer whose ids stand in reverse order; texts and spans are those of the other.

    Its files are those of the other: that ids are turned around is said by the recipe.
    """

    def __init__(self, inner: Tokenizer) -> None:
        self.inner = inner

    @property
    def unit(self) -> str:
        return self.inner.unit

    @property
    def size(self) -> int:
        return self.inner.size

    def encode(self, text: str, draw: Draw | None = None) -> Encoding:
        encoding = self.inner.encode(text, draw)
        return Encoding(ids=encoding.ids[::-1], spans=encoding.spans[::-1])

    def decode(self, ids: Sequence[int]) -> str:
        return self.inner.decode(ids[::-1])

    def piece(self, id_: int) -> str:
        return self.inner.piece(id_)

    def surface(self, id_: int) -> bytes:
        """That of the other: surfaces of ids joined from last to first are the text."""
        return self.inner.surface(id_)

    @property
    def margin(self) -> tuple[bytes, bytes]:
        return self.inner.margin

    def save(self, folder: Path, name: str) -> None:
        self.inner.save(folder, name)
