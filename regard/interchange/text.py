"""The vocabulary files of a Transformers checkpoint, as tokenizers of ours.

Marian has two sentencepiece models and a list of pieces for both; T5 one sentencepiece model; BART and BERT a
definition of the library tokenizers, or the vocabulary files that one is made of. The punctuation that Transformers
mends for Marian where sacremoses is installed is left as it is.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from regard.errors import ModelError
from regard.interchange.checkpoint import Settings, read_json
from regard.interchange.rows import Rows
from regard.text.imported import HuggingFacePieces, ImportedTokenizer, Pieces, SentencePieces, Splitter, Style
from regard.text.storage import read_bytes

UNKNOWNS = ("<unk>", "[UNK]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreign:
    """A vocabulary with its own ids."""

    ids: Mapping[str, int]
    style: Style
    splitter: Splitter
    unknown: str | None
    controls: frozenset[str] = frozenset()

    @property
    def unknown_id(self) -> int | None:
        return None if self.unknown is None else self.ids.get(self.unknown)

    def tokenizer(self, rows: Rows, *, prefix: tuple[str, ...] = ()) -> ImportedTokenizer:
        """The tokenizer that gives our ids; ids that only the weights have get a name and stand for no text."""
        names = {id_: piece for piece, id_ in self.ids.items() if piece}
        pieces = [names.get(id_, f"<unused {id_}>") for id_ in rows.free]
        known = {piece for piece in pieces if piece in self.ids}
        return ImportedTokenizer(
            pieces=Pieces(
                style=self.style,
                pieces=tuple(pieces),
                unknown=self.unknown,
                controls=frozenset(pieces) - known | (self.controls & known),
                prefix=tuple(piece for piece in prefix if piece in known),
            ),
            splitter=self.splitter,
        )


def read_marian_texts(folder: Path) -> tuple[Foreign, Foreign]:
    """Source and target."""
    vocabularies = [folder / "vocab.json"]
    if (folder / "target_vocab.json").is_file():
        vocabularies.append(folder / "target_vocab.json")
    for name in ("source.spm", "target.spm", "vocab.json"):
        if not (folder / name).is_file():
            _refuse_missing(
                folder,
                "source.spm, target.spm and vocab.json, or what an export of regard has beside its tokenizer.json",
            )
    ids = [_read_ids(path) for path in vocabularies]
    if "<unk>" not in ids[0]:
        raise ModelError(f"{vocabularies[0]}: there is no piece <unk>, which every Marian vocabulary has")
    sides = zip(("source.spm", "target.spm"), (ids[0], ids[-1]), strict=True)
    source, target = (
        Foreign(ids=own, style="metaspace", splitter=_read_model(folder / name), unknown="<unk>") for name, own in sides
    )
    return source, target


def read_t5_text(folder: Path) -> Foreign:
    """The sentencepiece model, or a definition where there is none."""
    path = folder / "spiece.model"
    if not path.is_file():
        return read_definition(folder, "spiece.model or tokenizer.json")
    model = _read_model(path)
    ids = {piece: id_ for id_, piece in enumerate(model.pieces)}
    unknown = next((name for name in UNKNOWNS if name in ids), None)
    return Foreign(ids=ids, style="metaspace", splitter=model, unknown=unknown, controls=frozenset(model.controls()))


def read_definition(folder: Path, wanted: str = "tokenizer.json") -> Foreign:
    """A `tokenizer.json`."""
    path = folder / "tokenizer.json"
    if not path.is_file():
        _refuse_missing(folder, wanted)
    definition = read_bytes(path).decode("utf-8", errors="replace")
    content = Settings(path)
    try:
        splitter = HuggingFacePieces(definition)
    except ValueError as error:
        raise ModelError(f"{path}: not a definition that the library tokenizers can use ({error})") from error
    ids = splitter.vocabulary()
    unknown = next((name for name in UNKNOWNS if name in ids), None)
    return Foreign(ids=ids, style=_style(content), splitter=splitter, unknown=unknown, controls=_controls(content))


def _style(content: Settings) -> Style:
    model, decoder = (_kind(content.get(name)) for name in ("model", "decoder"))
    styles: dict[tuple[str, str], Style] = {
        ("WordPiece", decoder): "wordpiece",
        ("Unigram", decoder): "metaspace",
        ("BPE", "ByteLevel"): "byte_level",
    }
    if (model, decoder) not in styles:
        content.refuse(
            f"a tokenizer of model {model} and decoder {decoder} is not known; regard reads WordPiece, Unigram, and "
            "BPE of bytes"
        )
    return styles[model, decoder]


def _kind(value: object) -> str:
    return str(value.get("type")) if isinstance(value, dict) else "none"


def _controls(content: Settings) -> frozenset[str]:
    added = content.get("added_tokens")
    entries = [entry for entry in added if isinstance(entry, dict)] if isinstance(added, list) else []
    return frozenset(str(entry.get("content")) for entry in entries if entry.get("special") is True)


def read_bert_text(folder: Path) -> Foreign:
    """The definition, or `vocab.txt` with the settings of `tokenizer_config.json`."""
    if (folder / "tokenizer.json").is_file() or not (folder / "vocab.txt").is_file():
        return read_definition(folder, "tokenizer.json or vocab.txt")
    pieces = read_bytes(folder / "vocab.txt").decode("utf-8", errors="replace").splitlines()
    config = folder / "tokenizer_config.json"
    lower = Settings(config).flag("do_lower_case", True) if config.is_file() else True
    marks = [{"id": id_, "content": piece, "special": True} for id_, piece in enumerate(pieces) if _is_mark(piece)]
    normal = {"clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": lower}
    return _define(
        folder / "vocab.txt",
        {
            "normalizer": {"type": "BertNormalizer"} | normal,
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "model": {
                "type": "WordPiece",
                "unk_token": "[UNK]",
                "continuing_subword_prefix": "##",
                "max_input_chars_per_word": 100,
                "vocab": {piece: id_ for id_, piece in enumerate(pieces)},
            },
        },
        marks,
    )


def read_bart_text(folder: Path) -> Foreign:
    """The definition, or `vocab.json` and `merges.txt`."""
    paths = [folder / name for name in ("vocab.json", "merges.txt")]
    if (folder / "tokenizer.json").is_file() or not all(path.is_file() for path in paths):
        return read_definition(folder, "tokenizer.json, or vocab.json and merges.txt")
    lines = read_bytes(paths[1]).decode("utf-8", errors="replace").splitlines()
    merges = [line for line in lines if line and not line.startswith("#version")]
    ids = _read_ids(paths[0])
    marks = [{"id": id_, "content": piece, "special": True} for piece, id_ in ids.items() if _is_mark(piece)]
    bytes_ = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    model = {"type": "BPE", "vocab": dict(ids), "merges": merges}
    return _define(paths[0], {"pre_tokenizer": bytes_, "decoder": bytes_, "model": model}, marks)


def _is_mark(piece: str) -> bool:
    return piece in ("<s>", "</s>", "<pad>", "<unk>", "<mask>", "[CLS]", "[SEP]", "[PAD]", "[UNK]", "[MASK]")


def _define(path: Path, parts: dict[str, object], marks: list[dict[str, object]]) -> Foreign:
    """A definition from the vocabulary files of older checkpoints."""
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    empty = dict.fromkeys(("truncation", "padding", "normalizer", "pre_tokenizer", "post_processor", "decoder"))
    definition = {"version": "1.0", **empty, **parts, "added_tokens": [mark | plain for mark in marks]}
    try:
        splitter = HuggingFacePieces(json.dumps(definition))
    except ValueError as error:
        raise ModelError(f"{path}: the library tokenizers cannot use this vocabulary ({error})") from error
    ids = splitter.vocabulary()
    return Foreign(
        ids=ids,
        style="byte_level" if "decoder" in parts else "wordpiece",
        splitter=splitter,
        unknown=next((name for name in UNKNOWNS if name in ids), None),
        controls=frozenset(str(mark["content"]) for mark in marks),
    )


def _read_model(path: Path) -> SentencePieces:
    try:
        return SentencePieces(read_bytes(path))
    except (RuntimeError, ValueError, OSError) as error:
        raise ModelError(f"{path}: not a sentencepiece model ({error})") from error


def _read_ids(path: Path) -> Mapping[str, int]:
    content = read_json(path)
    if not isinstance(content, dict) or not all(type(id_) is int and id_ >= 0 for id_ in content.values()):
        raise ModelError(f"{path}: must hold an id for each piece")
    if len(set(content.values())) != len(content):
        raise ModelError(f"{path}: an id stands for two pieces")
    return content


def _refuse_missing(folder: Path, names: str) -> NoReturn:
    raise ModelError(
        f"{folder}: the vocabulary is missing ({names}); without it the model could neither read nor write text. Save "
        "the tokenizer beside the model"
    )
