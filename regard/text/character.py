"""Characters: one id for each Unicode code point, the space among them."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from regard.text.encoding import Encoding
from regard.text.storage import Fields, Stored, write_tokenizer
from regard.text.tokenizer import Draw
from regard.text.utf8 import UNKNOWN_SIGN, join_surfaces, reserved_name, reserved_surfaces, show, to_bytes
from regard.text.vocabulary import Vocabulary, most_frequent


class CharacterTokenizer:
    """One id for each known code point."""

    unit = "character"
    margin = (b"", b"")

    def __init__(self, *, characters: Sequence[str]) -> None:
        self._vocabulary = Vocabulary(characters)
        self._surfaces = (*reserved_surfaces(UNKNOWN_SIGN), *(character.encode() for character in characters))

    @classmethod
    def train(cls, texts: Iterable[str], *, size: int, minimum_count: int = 1) -> "CharacterTokenizer":
        """The most frequent characters of some texts."""
        counts: Counter[str] = Counter()
        for text in texts:
            to_bytes(text)
            counts.update(text)
        return cls(characters=most_frequent(counts, size=size, minimum_count=minimum_count))

    @classmethod
    def restore(cls, fields: Fields) -> "CharacterTokenizer":
        """Build the tokenizer that a file describes."""
        characters = fields.texts("characters")
        if any(len(character) != 1 for character in characters):
            fields.refuse("`characters` holds an entry of more than one character")
        fields.finish()
        return cls(characters=characters)

    @property
    def size(self) -> int:
        return self._vocabulary.size

    def encode(self, text: str, draw: Draw | None = None) -> Encoding:  # noqa: ARG002
        to_bytes(text)
        return Encoding(
            ids=tuple(map(self._vocabulary.id, text)), spans=tuple((place, place + 1) for place in range(len(text)))
        )

    def decode(self, ids: Sequence[int]) -> str:
        return join_surfaces(self._surfaces, ids, self.margin)

    def piece(self, id_: int) -> str:
        return reserved_name(id_) or show(self.surface(id_).decode())

    def surface(self, id_: int) -> bytes:
        return self._surfaces[id_]

    def stored(self) -> Stored:
        return Stored({"unit": self.unit, "characters": self._vocabulary.entries})

    def save(self, folder: Path, name: str) -> None:
        write_tokenizer(folder, name, self.stored())
