"""Vocabularies of models that were trained elsewhere: their pieces under our ids, split by the library they came with.

The library only splits a text into pieces; ids, spans and the way back are ours. Marks such as `<s>` or `[CLS]` are
never found in a text, they only come in front of it (`prefix`): a user who types them gets their characters.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Protocol

import sentencepiece

from regard.errors import UsageError
from regard.special import FIRST_FREE, UNKNOWN
from regard.text.encoding import Encoding
from regard.text.storage import Fields, Stored, read_bytes, refuse, write_tokenizer
from regard.text.tokenizer import Draw
from regard.text.utf8 import UNKNOWN_SIGN, join_surfaces, reserved_name, reserved_surfaces, show, to_bytes

if TYPE_CHECKING:
    import tokenizers

Style = Literal["metaspace", "byte_level", "wordpiece"]
STYLES: Final[tuple[Style, ...]] = ("metaspace", "byte_level", "wordpiece")
_BYTE: Final = re.compile("<0x([0-9A-F]{2})>")
_LANGUAGE: Final = re.compile(">>[^<>]+<<")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pieces:
    """A foreign vocabulary.

    `style` says how pieces spell text: `metaspace` marks a space with ▁ (sentencepiece), `byte_level` has a printable
    character for each byte (GPT-2), `wordpiece` marks with ## what goes on with a word (BERT). `controls` are pieces
    without text; `prefix` are those in front of every text.
    """

    style: Style
    pieces: tuple[str, ...]  # from the first free id on
    unknown: str | None = None  # what the library calls a piece that it does not know
    controls: frozenset[str] = frozenset()
    prefix: tuple[str, ...] = ()


class Splitter(Protocol):
    """The library that splits texts."""

    def split(self, text: str) -> tuple[Sequence[str], Sequence[tuple[int, int]]]:
        """Pieces, and the range of the text that each stands for."""
        ...

    def stored(self) -> Stored:
        """What it is built from again."""
        ...


class SentencePieces:
    """A sentencepiece model, with its own normalisation."""

    def __init__(self, model: bytes) -> None:
        self._model = model
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)

    @property
    def pieces(self) -> list[str]:
        """All pieces in the order of their own ids."""
        return [str(self._processor.id_to_piece(id_)) for id_ in range(self._processor.get_piece_size())]

    def controls(self) -> list[str]:
        """Pieces that no text is split into."""
        ids = range(self._processor.get_piece_size())
        return [self._processor.id_to_piece(id_) for id_ in ids if self._processor.is_control(id_)]

    def split(self, text: str) -> tuple[Sequence[str], Sequence[tuple[int, int]]]:
        found = self._processor.encode(text, return_type="offset_mapping")
        return found["pieces"], found["offsets"]

    def stored(self) -> Stored:
        return Stored({"library": "sentencepiece", "sha256": sha256(self._model).hexdigest()}, model=self._model)


class HuggingFacePieces:
    """A definition of the library tokenizers (`tokenizer.json`), without its marks around texts."""

    def __init__(self, definition: str) -> None:
        self.definition = definition
        self._tokenizer = read_definition(definition)
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._tokenizer.encode_special_tokens = True  # a mark that is typed is text

    def split(self, text: str) -> tuple[Sequence[str], Sequence[tuple[int, int]]]:
        found = self._tokenizer.encode(text, add_special_tokens=False)
        return found.tokens, found.offsets

    def vocabulary(self) -> Mapping[str, int]:
        """Foreign ids of all pieces."""
        return self._tokenizer.get_vocab()

    def stored(self) -> Stored:
        return Stored({"library": "tokenizers", "definition": self.definition})


def read_definition(definition: str) -> "tokenizers.Tokenizer":
    """A tokenizer of the library; ValueError where the definition is none. A crafted one makes the library panic."""
    try:
        import tokenizers
    except ImportError as error:
        raise UsageError(
            "this vocabulary is one of the library `tokenizers`, which is not installed; install it with "
            "`pip install tokenizers`"
        ) from error
    try:
        return tokenizers.Tokenizer.from_str(definition)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        raise ValueError(str(error)) from error


class ImportedTokenizer:
    """Pieces of a foreign vocabulary under our ids."""

    unit = "imported"

    def __init__(self, *, pieces: Pieces, splitter: Splitter) -> None:
        self.pieces = pieces
        self._splitter = splitter
        every = {piece: id_ for id_, piece in enumerate(pieces.pieces, start=FIRST_FREE)}
        self._prefix = tuple(every[piece] for piece in pieces.prefix)
        self._ids = {piece: id_ for piece, id_ in every.items() if piece not in pieces.controls}
        spell = _speller(pieces.style)
        self._surfaces = (
            *reserved_surfaces(UNKNOWN_SIGN),
            *(b"" if piece in pieces.controls else spell(piece) for piece in pieces.pieces),
        )
        if pieces.unknown is not None:
            self._ids[pieces.unknown] = UNKNOWN

    @classmethod
    def restore(cls, fields: Fields) -> "ImportedTokenizer":
        """Build the tokenizer that a file, and the `.spm` file beside it, describe."""
        pieces = Pieces(
            style=fields.choice("style", STYLES),
            unknown=fields.text("unknown") if fields.has("unknown") else None,
            pieces=fields.texts("pieces"),
            controls=frozenset(fields.texts("controls")),
            prefix=fields.texts("prefix"),
        )
        if not set(pieces.prefix) <= set(pieces.pieces):
            fields.refuse("`prefix` holds something that is not in `pieces`")
        splitter = _restore_splitter(fields)
        fields.finish()
        return cls(pieces=pieces, splitter=splitter)

    @property
    def size(self) -> int:
        return len(self._surfaces)

    @property
    def margin(self) -> tuple[bytes, bytes]:
        return (b"", b"") if self.pieces.style == "byte_level" else (b" ", b"")

    def encode(self, text: str, draw: Draw | None = None) -> Encoding:  # noqa: ARG002
        """A language mark of Marian (`>>fr<<`) in front of a text is one token, where the vocabulary has it."""
        to_bytes(text)
        ids, spans = list(self._prefix), [(0, 0)] * len(self._prefix)
        mark = _LANGUAGE.match(text)
        start = mark.end() if mark and mark.group() in self._ids else 0
        if start:
            ids.append(self._ids[text[:start]])
            spans.append((0, start))
        pieces, places = self._splitter.split(text[start:])
        ids += [self._ids.get(piece, UNKNOWN) for piece in pieces]
        spans += [(start + first, start + last) for first, last in places]
        return Encoding(ids=tuple(ids), spans=tuple(spans))

    def decode(self, ids: Sequence[int]) -> str:
        return join_surfaces(self._surfaces, ids, self.margin)

    def piece(self, id_: int) -> str:
        return reserved_name(id_) or show(self.pieces.pieces[id_ - FIRST_FREE])

    def surface(self, id_: int) -> bytes:
        return self._surfaces[id_]

    def stored(self) -> Stored:
        pieces, of_library = self.pieces, self._splitter.stored()
        fields: dict[str, object] = {
            "unit": self.unit,
            "style": pieces.style,
            "pieces": pieces.pieces,
            "controls": sorted(pieces.controls),
            "prefix": pieces.prefix,
            **({} if pieces.unknown is None else {"unknown": pieces.unknown}),
            **of_library.fields,
        }
        return Stored(fields, model=of_library.model)

    def save(self, folder: Path, name: str) -> None:
        write_tokenizer(folder, name, self.stored())


def _restore_splitter(fields: Fields) -> Splitter:
    if fields.choice("library", ("sentencepiece", "tokenizers")) == "tokenizers":
        try:
            return HuggingFacePieces(fields.text("definition"))
        except ValueError as error:
            fields.refuse(f"`definition` is none that the library tokenizers can use ({error})")
    digest, path = fields.text("sha256"), fields.path.with_suffix(".spm")
    model = read_bytes(path)
    if sha256(model).hexdigest() != digest:
        refuse(path, f"the file is not the one that {fields.path.name} belongs to (its SHA-256 differs)")
    try:
        return SentencePieces(model)
    except (RuntimeError, ValueError, OSError) as error:
        refuse(path, f"the file is no sentencepiece model that regard can use ({error})")


class _Speller(Protocol):
    def __call__(self, piece: str, /) -> bytes: ...


def _speller(style: Style) -> _Speller:
    """How the pieces of a style become bytes of text."""
    match style:
        case "metaspace":
            return _from_metaspace
        case "wordpiece":
            return _from_wordpiece
        case "byte_level":
            return _from_bytes


def _from_metaspace(piece: str) -> bytes:
    byte = _BYTE.fullmatch(piece)
    return bytes([int(byte[1], 16)]) if byte else piece.replace("▁", " ").encode()


def _from_wordpiece(piece: str) -> bytes:
    return piece.removeprefix("##").encode() if piece.startswith("##") else f" {piece}".encode()


def _byte_characters() -> dict[str, int]:
    """The characters that stand for bytes: themselves where they can be seen, else those from U+0100 on, in order."""
    seen = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    hidden = [value for value in range(256) if value not in seen]
    return {chr(value): value for value in seen} | {chr(256 + place): value for place, value in enumerate(hidden)}


_BYTE_OF: Final = _byte_characters()


def _from_bytes(piece: str) -> bytes:
    if all(character in _BYTE_OF for character in piece):
        return bytes(_BYTE_OF[character] for character in piece)
    return piece.encode()
