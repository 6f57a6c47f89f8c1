"""Our tokenizers as `tokenizer.json` of Hugging Face's `tokenizers`, where it can say the same.

Pieces are written with their spaces as spaces, not as `▁`: a typed `▁`, like every character that no piece holds,
becomes its bytes there as it does here. Reserved ids are not looked for in text (`split_special_tokens`): a typed `<s>`
is text. What unigrams must not find in text, the names of bytes and reserved ids, has scores far below all others, and
characters that no piece holds stand apart, so that no name with one of them is whole.

BPE of sentencepiece merges by the score of what comes out, the leftmost first; `tokenizers` by a rank of each pair. The
two could differ only where three neighbours can merge into the same piece on the left and on the right. For `ab·a·ba`
the rank of (`ab`, `a`) comes first, and both do the same; with (`.`, `..`) and (`..`, `.`) each can stand on either
side and no rank helps, so a model with such a piece is not written.
"""

import json
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import sentencepiece

from regard.special import END, FIRST_FREE, NAMES, UNKNOWN
from regard.text import (
    ByteTokenizer,
    CharacterTokenizer,
    CodesTokenizer,
    InflectionTokenizer,
    NormalisedTokenizer,
    PieceTokenizer,
    Tokenizer,
    WordTokenizer,
)
from regard.text.storage import Stored

SPACED_NAMES = ("< pad >", "< unk >", "< s >", "</ s >")
"""Reserved ids among words, which hold no space."""

_NEVER = -1e4
_BYTES = tuple(f"<0x{value:02X}>" for value in range(256))
_MARK = "\u2581"
_KNOWN = (
    ByteTokenizer
    | CharacterTokenizer
    | CodesTokenizer
    | InflectionTokenizer
    | NormalisedTokenizer
    | PieceTokenizer
    | WordTokenizer
)

Part = dict[str, object]


@dataclass(frozen=True, slots=True)
class WrittenTokenizer:
    """The files of a tokenizer, or why there are none."""

    files: Mapping[str, bytes]
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class _Parts:
    model: Part
    normaliser: Part | None = None
    splitter: Part | None = None
    decoder: Part | None = None
    names: tuple[str, ...] = NAMES


def stored_tokenizer(tokenizer: Tokenizer) -> Stored:
    """What a tokenizer leaves in its files: a plain view of all that it knows; of others only the unit."""
    return tokenizer.stored() if isinstance(tokenizer, _KNOWN) else Stored({"unit": tokenizer.unit})


def write_tokenizer(tokenizer: Tokenizer, *, longest: int) -> WrittenTokenizer:
    """`tokenizer.json` and `tokenizer_config.json`, or the reason why there can be none."""
    stored = stored_tokenizer(tokenizer)
    if stored.fields.get("lowercase"):
        return WrittenTokenizer({}, "`text.lowercase` follows Python's rules, which `tokenizers` does not have")
    parts = _parts(tokenizer.unit, stored)
    if isinstance(parts, str):
        return WrittenTokenizer({}, parts)
    form = str(stored.fields.get("normal", "none"))
    normalisers = [part for part in (_form(form), parts.normaliser) if part is not None]
    pad, unknown, start, end = parts.names
    record = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_added(id_, name) for id_, name in enumerate(parts.names)],
        "normalizer": {"type": "Sequence", "normalizers": normalisers} if normalisers else None,
        "pre_tokenizer": parts.splitter,
        "post_processor": _ends_with(end),
        "decoder": parts.decoder,
        "model": parts.model,
    }
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": pad,
        "unk_token": unknown,
        "bos_token": start,
        "eos_token": end,
        "split_special_tokens": True,
        "clean_up_tokenization_spaces": False,
        "model_max_length": longest,
        "model_input_names": ["input_ids", "attention_mask"],
    }
    return WrittenTokenizer({"tokenizer.json": _json(record), "tokenizer_config.json": _json(settings)})


def _parts(unit: str, stored: Stored) -> _Parts | str:
    """A tokenizer in the words of `tokenizers`, or why they do not reach."""
    match unit:
        case "word":
            words = _texts(stored.fields["words"])
            vocabulary = _ids((*SPACED_NAMES, *words))
            return _Parts(
                model={"type": "WordLevel", "vocab": vocabulary, "unk_token": SPACED_NAMES[UNKNOWN]},
                splitter={"type": "Split", "pattern": {"String": " "}, "behavior": "Removed", "invert": False},
                names=SPACED_NAMES,
            )
        case "character":
            model = _bpe((*NAMES, *_texts(stored.fields["characters"])), [], bytes_of_unknown=False)
            return _Parts(model=model, decoder={"type": "Fuse"})
        case "byte":
            decoder = _sequence("decoders", {"type": "ByteFallback"}, {"type": "Fuse"})
            return _Parts(model=_bpe((*NAMES, *_BYTES), [], bytes_of_unknown=True), decoder=decoder)
        case "bpe" | "unigram":
            assert stored.model is not None, "pieces have a model"
            return _pieces(unit, stored.model)
        case _:
            return f"unit {unit!r} splits text in a way that `tokenizers` does not have"


def _pieces(unit: str, content: bytes) -> _Parts | str:
    processor = sentencepiece.SentencePieceProcessor(model_proto=content)
    first, size = FIRST_FREE + len(_BYTES), processor.get_piece_size()
    pieces = [str(processor.id_to_piece(id_)).replace(_MARK, " ") for id_ in range(first, size)]
    scores = [float(processor.get_score(id_)) for id_ in range(first, size)]
    entries = (*NAMES, *_BYTES, *pieces)
    if len(set(entries)) < len(entries):
        return "a piece has the name of a reserved token or of a byte"
    splitter: Part | None = None
    if unit == "unigram":
        splitter = _apart("".join(pieces))
        low = [_NEVER] * first
        vocabulary = [[entry, score] for entry, score in zip(entries, (*low, *scores), strict=True)]
        model: Part = {"type": "Unigram", "unk_id": UNKNOWN, "vocab": vocabulary, "byte_fallback": True}
    else:
        merges = _merges(pieces, scores)
        if (piece := _ambiguous(merges)) is not None:
            return f"the piece {piece!r} can come from overlapping merges, which `tokenizers` does in another order"
        model = _bpe(entries, merges, bytes_of_unknown=True)
    strip: Part = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    return _Parts(
        model=model,
        splitter=splitter,
        normaliser={"type": "Prepend", "prepend": " "},
        decoder=_sequence("decoders", {"type": "ByteFallback"}, {"type": "Fuse"}, strip),
    )


def _apart(known: str) -> Part:
    """Every character but the known ones stands alone."""
    characters = "".join(f"\\x{{{ord(character):X}}}" for character in sorted(set(known)))
    return {"type": "Split", "pattern": {"Regex": f"[^{characters}]"}, "behavior": "Isolated", "invert": False}


def _merges(pieces: Sequence[str], scores: Sequence[float]) -> list[tuple[str, str]]:
    """Every pair of pieces that makes a piece, the best piece first."""
    known = set(pieces)
    ranked = sorted(zip(scores, pieces, strict=True), key=lambda pair: -pair[0])
    return [pair for _, piece in ranked for pair in _splits(piece, known)]


def _splits(piece: str, known: AbstractSet[str]) -> list[tuple[str, str]]:
    """The ways to make a piece of two; what can stand to the left of three neighbours comes first."""
    splits = [(piece[:place], piece[place:]) for place in range(1, len(piece))]
    splits = [(left, right) for left, right in splits if left in known and right in known]
    rights = {right for _, right in splits}
    return sorted(splits, key=lambda pair: pair[0] in rights)


def _ambiguous(merges: Sequence[tuple[str, str]]) -> str | None:
    """A piece of one part over and over that can begin and end with either half (`.·..·.`), if there is one."""
    pairs = set(merges)
    return next(
        (
            left + right
            for left, right in merges
            if left != right and (right, left) in pairs and left + right == right + left
        ),
        None,
    )


def _bpe(entries: Sequence[str], merges: Sequence[tuple[str, str]], *, bytes_of_unknown: bool) -> Part:
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": NAMES[UNKNOWN],
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": bytes_of_unknown,
        "ignore_merges": False,
        "vocab": _ids(entries),
        "merges": [list(pair) for pair in merges],
    }


def _form(form: str) -> Part | None:
    return None if form == "none" else {"type": form.upper()}


def _added(id_: int, name: str) -> Part:
    kinds = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {"id": id_, "content": name, **kinds}


def _ends_with(end: str) -> Part:
    text: Part = {"Sequence": {"id": "A", "type_id": 0}}
    more: Part = {"Sequence": {"id": "B", "type_id": 0}}
    mark: Part = {"SpecialToken": {"id": end, "type_id": 0}}
    return {
        "type": "TemplateProcessing",
        "single": [text, mark],
        "pair": [text, more, mark],
        "special_tokens": {end: {"id": end, "ids": [END], "tokens": [end]}},
    }


def _sequence(name: str, *parts: Part) -> Part:
    return {"type": "Sequence", name: list(parts)}


def _ids(entries: Sequence[str]) -> dict[str, int]:
    return {entry: id_ for id_, entry in enumerate(entries)}


def _texts(entries: object) -> tuple[str, ...]:
    assert isinstance(entries, tuple), "a vocabulary is stored as its entries"
    return tuple(map(str, entries))


def _json(record: object) -> bytes:
    return (json.dumps(record, ensure_ascii=False, indent=1) + "\n").encode()


def token_names(tokenizer: Tokenizer) -> list[str]:
    """A name of its own for each id: what the unit's own program calls it, else what people are shown."""
    stored = stored_tokenizer(tokenizer)
    if stored.model is not None:
        processor = sentencepiece.SentencePieceProcessor(model_proto=stored.model)
        entries = [str(processor.id_to_piece(id_)) for id_ in range(FIRST_FREE, processor.get_piece_size())]
    elif tokenizer.unit == "word":
        entries = list(_texts(stored.fields["words"]))
    elif tokenizer.unit == "character":
        entries = list(_texts(stored.fields["characters"]))
    elif tokenizer.unit == "byte":
        entries = list(_BYTES)
    else:
        entries = [tokenizer.piece(id_) for id_ in range(FIRST_FREE, tokenizer.size)]
    return _distinct(entries)


def _distinct(entries: Sequence[str]) -> list[str]:
    """Reserved names and entries, each with a name of its own: what is taken gets a space at its end."""
    names: list[str] = []
    taken: set[str] = set()
    for name in (*entries, *NAMES):
        while name in taken:
            name += " "
        taken.add(name)
        names.append(name)
    return [*names[len(entries) :], *names[: len(entries)]]
