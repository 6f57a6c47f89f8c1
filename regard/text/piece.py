"""BPE and unigram pieces through sentencepiece, without loss.

sentencepiece alone is not lossless: it reads a typed `▁` as a space and drops lines with characters that it reserves.
Here it only sees text between such characters (`APART`), which become the tokens of their bytes, like every character
that no piece holds. One space goes in front of each text, so that a word is the same piece at the start and after a
space, and comes off again in `decode`. Control pieces have names that no text can hold: a typed `<s>` is text.

Random segmentations are our own (`merges`, `lattice`): sentencepiece draws from one generator per thread, which is
seeded once, so its draws would depend on what was drawn before.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Final

import sentencepiece

from regard.errors import ModelError
from regard.special import END, FIRST_FREE, PAD, START, UNKNOWN
from regard.text.encoding import Encoding
from regard.text.lattice import Edges, draw_cuts, edges
from regard.text.merges import merge, random_for
from regard.text.piece_training import APART, WHOLE_SCORE, train_model
from regard.text.storage import Fields, Stored, read_bytes, refuse, write_tokenizer
from regard.text.tokenizer import Draw
from regard.text.utf8 import UNKNOWN_SIGN, join_surfaces, reserved_name, reserved_surfaces, show, to_bytes

UNITS: Final = ("bpe", "unigram")
_MARK: Final = "\u2581"
_FIRST_PIECE: Final = FIRST_FREE + 256
_LONGEST_PIECE: Final = 256
_LARGEST_SCORE: Final = 1e9
_UNKNOWN_PENALTY: Final = 10.0
"""How much less likely than the rarest piece an unknown character is, in nats; sentencepiece has the same."""

_APART: Final = re.compile(f"([{APART}])")
_WORD: Final = re.compile(" [^ ]*|[^ ]+")


class PieceTokenizer:
    """Ids of a sentencepiece model; ids 4 to 259 are the bytes."""

    margin = (b" ", b"")

    def __init__(self, *, unit: str, model: bytes) -> None:
        self.unit = unit
        self._model = model
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        self._pieces = _read_pieces(self._processor)
        self._surfaces = (
            *reserved_surfaces(UNKNOWN_SIGN),
            *(bytes([value]) for value in range(256)),
            *(piece.replace(_MARK, " ").encode() for piece in self._pieces),
        )
        # Bytes 0b10xxxxxx go on with a character and add no width.
        self._widths = (*[0] * FIRST_FREE, *(value & 0xC0 != 0x80 for value in range(256)), *map(len, self._pieces))
        self._longest = max(map(len, self._pieces), default=1)
        self._edges = lru_cache(maxsize=65536)(self._find_edges)

    @cached_property
    def _ids(self) -> Mapping[str, int]:
        """Only random segmentations need this and what follows; others begin sooner without it."""
        return {piece: id_ for id_, piece in enumerate(self._pieces, start=_FIRST_PIECE)}

    @cached_property
    def _scores(self) -> Mapping[str, float]:
        return {piece: float(self._processor.get_score(id_)) for piece, id_ in self._ids.items()}

    @cached_property
    def _unknown(self) -> float:
        return min(self._scores.values(), default=0.0) - _UNKNOWN_PENALTY

    @classmethod
    def train(
        cls, texts: Iterable[str], *, unit: str, size: int, minimum_count: int = 1, whole: Sequence[str] = ()
    ) -> "PieceTokenizer":
        """A model of some texts with at most `size` ids; `tokenizer.size` says how many there were to find."""
        model = train_model(texts, unit=unit, size=size, minimum_count=minimum_count, whole=whole)
        return cls(unit=unit, model=model)

    @classmethod
    def restore(cls, fields: Fields, *, unit: str) -> "PieceTokenizer":
        """Build the tokenizer that a JSON file and the `.spm` file beside it describe."""
        size, digest = fields.whole("size", low=_FIRST_PIECE), fields.text("sha256")
        fields.finish()
        path = fields.path.with_suffix(".spm")
        model = read_bytes(path)
        if sha256(model).hexdigest() != digest:
            refuse(path, f"the file is not the one that {fields.path.name} belongs to (its SHA-256 differs)")
        try:
            tokenizer = cls(unit=unit, model=model)
        except (RuntimeError, ValueError, OSError) as error:
            refuse(path, f"the file is no sentencepiece model that regard can use ({error})")
        if tokenizer.size != size:
            refuse(path, f"the model has {tokenizer.size} ids, but {fields.path.name} says {size}")
        return tokenizer

    @property
    def size(self) -> int:
        return len(self._surfaces)

    def encode(self, text: str, draw: Draw | None = None) -> Encoding:
        content = to_bytes(text)
        if not text:
            return Encoding(ids=(), spans=())
        drawn = draw is not None and draw.rate > 0
        ids = self._drawn(f" {text}", draw, random_for(draw, text)) if draw and drawn else self._best(f" {text}")
        surfaces, widths = self._surfaces, self._widths
        if b"".join([surfaces[id_] for id_ in ids]) != b" " + content:
            raise ModelError(
                "the sentencepiece model changes text, which no model trained by regard does; train it again"
            )
        spans = []
        # The space in front of the text stands at -1.
        end = -1
        for id_ in ids:
            width = widths[id_]
            end += width
            spans.append((max(0, end - (width or 1)), max(0, end)))
        return Encoding(ids=tuple(ids), spans=tuple(spans))

    def _best(self, text: str) -> list[int]:
        ids: list[int] = []
        for is_apart, part in _parts(text):
            ids += self._bytes(part) if is_apart else self._processor.encode(part)
        return ids

    def _drawn(self, text: str, draw: Draw, random: Random) -> list[int]:
        ids: list[int] = []
        for is_apart, part in _parts(text):
            if is_apart:
                ids += self._bytes(part)
                continue
            for word in _WORD.findall(part):
                for piece in self._draw_pieces(word.replace(" ", _MARK), draw.rate, random):
                    id_ = self._ids.get(piece)
                    ids += self._bytes(piece.replace(_MARK, " ")) if id_ is None else (id_,)
        return ids

    def _draw_pieces(self, word: str, rate: float, random: Random) -> list[str]:
        if self._scores.get(word, 0.0) == WHOLE_SCORE:
            return [word]
        if self.unit == "bpe":
            return merge(word, self._rank, everywhere=False, rate=rate, random=random)
        cuts = draw_cuts(self._edges(word), rate, random)
        return [word[start:end] for start, end in pairwise(cuts)]

    def _rank(self, left: str, right: str) -> float | None:
        score = self._scores.get(left + right)
        return None if score is None else -score

    def _find_edges(self, word: str) -> Edges:
        return edges(word, self._scores, longest=self._longest, unknown=self._unknown)

    @staticmethod
    def _bytes(text: str) -> list[int]:
        return [FIRST_FREE + value for value in text.encode()]

    def decode(self, ids: Sequence[int]) -> str:
        return join_surfaces(self._surfaces, ids, self.margin)

    def piece(self, id_: int) -> str:
        if id_ < _FIRST_PIECE:
            return reserved_name(id_) or f"<0x{id_ - FIRST_FREE:02X}>"
        return show(self._pieces[id_ - _FIRST_PIECE])

    def surface(self, id_: int) -> bytes:
        return self._surfaces[id_]

    def stored(self) -> Stored:
        fields = {"unit": self.unit, "size": self.size, "sha256": sha256(self._model).hexdigest()}
        return Stored(fields, model=self._model)

    def save(self, folder: Path, name: str) -> None:
        write_tokenizer(folder, name, self.stored())


def _parts(text: str) -> Iterator[tuple[bool, str]]:
    """Stretches of text for sentencepiece, and between them (True) the characters that it must not see."""
    for place, part in enumerate(_APART.split(text)):
        if part:
            yield place % 2 == 1, part


def _read_pieces(processor: sentencepiece.SentencePieceProcessor) -> list[str]:
    """The pieces after the reserved ids and the bytes; ValueError if the model is not laid out like ours."""
    size = processor.get_piece_size()
    if size < _FIRST_PIECE or not processor.is_unknown(UNKNOWN):
        raise ValueError("the reserved ids are missing")
    if not all(processor.is_control(id_) for id_ in (PAD, START, END)):
        raise ValueError("the reserved ids are not control pieces")
    for value in range(256):
        id_ = FIRST_FREE + value
        if not processor.is_byte(id_) or processor.id_to_piece(id_) != f"<0x{value:02X}>":
            raise ValueError(f"id {id_} is not the byte {value}")
    pieces = [str(processor.id_to_piece(id_)) for id_ in range(_FIRST_PIECE, size)]
    control, unknown, byte = processor.is_control, processor.is_unknown, processor.is_byte
    unused, score, apart = processor.is_unused, processor.get_score, _APART.search
    for id_, piece in enumerate(pieces, start=_FIRST_PIECE):  # a program begins with this: it is worth a little haste
        if control(id_) or unknown(id_) or byte(id_) or unused(id_):
            raise ValueError(f"id {id_} is no piece of text")
        if len(piece) > _LONGEST_PIECE or apart(piece.removeprefix(_MARK)):
            raise ValueError(f"id {id_} is a piece that no training gives")
        if not abs(score(id_)) < _LARGEST_SCORE:
            raise ValueError(f"id {id_} has a score that no training gives")
    return pieces
