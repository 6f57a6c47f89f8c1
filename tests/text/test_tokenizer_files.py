"""Saving and loading, and what happens to files that are damaged or made to harm."""

import json
import struct
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from random import Random

import pytest
import sentencepiece

from regard.errors import ModelError
from regard.text import Draw, Tokenizer, load_tokenizer

NAMES = ("word", "character", "byte", "bpe", "unigram", "codes", "inflection", "bpe nfkc lower", "word nfc")
TEXTS = ("the cat likes the Straße, 3 times.", "ﬁnd THE Cafe\u0301  ▁ \t\n", "lettersx\tV;SG;NEW", "", "日本 zz @@")


@pytest.mark.parametrize("name", NAMES)
def test_what_is_saved_comes_back(name: str, tokenizers: dict[str, Tokenizer], tmp_path: Path) -> None:
    tokenizer = tokenizers[name]
    tokenizer.save(tmp_path / "run", "source")
    loaded = load_tokenizer(tmp_path / "run", "source")
    assert (loaded.unit, loaded.size, loaded.margin) == (tokenizer.unit, tokenizer.size, tokenizer.margin)
    for text in TEXTS:
        for draw in (None, Draw(0.5, (1, 2))):
            assert loaded.encode(text, draw) == tokenizer.encode(text, draw)
        assert loaded.decode(loaded.encode(text).ids) == tokenizer.decode(tokenizer.encode(text).ids)
    pieces = [(loaded.piece(id_), loaded.surface(id_)) for id_ in range(loaded.size)]
    assert pieces == [(tokenizer.piece(id_), tokenizer.surface(id_)) for id_ in range(tokenizer.size)]
    files = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert files == ["source.json", "source.spm"] if "bpe" in name or name == "unigram" else ["source.json"]
    assert json.loads((tmp_path / "run" / "source.json").read_text())["format"] == 1


def test_saving_again_replaces(tokenizers: dict[str, Tokenizer], tmp_path: Path) -> None:
    tokenizers["word"].save(tmp_path, "a")
    tokenizers["character"].save(tmp_path, "a")
    assert load_tokenizer(tmp_path, "a").unit == "character"


WORD = {"format": 1, "unit": "word", "words": ["a", "b"]}
CODES = {"format": 1, "unit": "codes", "version": "0.2", "merges": [["a", "b "]], "pieces": ["ab "]}
INFLECTION = {"format": 1, "unit": "inflection", "characters": ["a"], "features": ["V"]}
BAD_FILES = [
    (b"", "not valid JSON"),
    (b"{", "not valid JSON"),
    (b"\xff{}", "not valid JSON"),
    (b"[" * 100_000, "not valid JSON"),
    (b'{"format": ' + b"9" * 5000 + b"}", "not valid JSON"),
    (b'{"format": 1, "format": 1}', "a key occurs twice"),
    (b"[]", "holds a JSON list, not an object"),
    (b"null", "holds a JSON NoneType, not an object"),
    (b"{}", "the field `format` is missing"),
    ({**WORD, "format": 2}, "has format 2, but this version of regard reads format 1"),
    ({**WORD, "format": "1"}, "`format` must be a whole number of at least 0"),
    ({**WORD, "format": True}, "`format` must be a whole number"),
    ({"format": 1}, "the field `unit` is missing"),
    ({**WORD, "unit": "os.system"}, "`unit` must be one of word, character"),
    ({**WORD, "unit": ["word"]}, "`unit` must be one of word, character"),
    ({"format": 1, "unit": "word"}, "the field `words` is missing"),
    ({**WORD, "words": "ab"}, "`words` must be a list"),
    ({**WORD, "words": ["a", 1]}, "`words` must hold texts that are not empty"),
    ({**WORD, "words": ["a", ""]}, "`words` must hold texts that are not empty"),
    ({**WORD, "words": ["a", "a"]}, "`words` holds an entry twice"),
    ({**WORD, "words": ["a", "\ud800"]}, "`words` holds a lone surrogate"),
    ({**WORD, "words": ["a b"]}, "`words` holds a word with a space"),
    ({**WORD, "more": 1}, "the field `more` is not known"),
    ({**WORD, "normal": "nfd", "lowercase": True}, "`normal` must be one of none, nfc, nfkc"),
    ({**WORD, "normal": "nfc"}, "the field `lowercase` is missing"),
    ({**WORD, "normal": "nfc", "lowercase": "yes"}, "`lowercase` must be true or false"),
    ({"format": 1, "unit": "character", "characters": ["ab"]}, "an entry of more than one character"),
    ({"format": 1, "unit": "byte", "words": []}, "the field `words` is not known"),
    ({**INFLECTION, "characters": ["ab"]}, "an entry of more than one character"),
    ({**INFLECTION, "features": ["V;SG"]}, "`features` holds an entry that is not one feature"),
    ({**INFLECTION, "features": [" V"]}, "`features` holds an entry that is not one feature"),
    ({**CODES, "version": "0.3"}, "`version` must be one of 0.1, 0.2"),
    ({**CODES, "merges": [["a"]]}, "`merges` must be a list of pairs"),
    ({**CODES, "merges": ["ab"]}, "`merges` must be a list of pairs"),
    ({**CODES, "merges": [["a ", "b"]]}, "`merges` holds a symbol with a space before its end"),
    ({**CODES, "pieces": [" a"]}, "`pieces` holds a piece with a space before its end"),
    ({**CODES, "pieces": [" "]}, "`pieces` holds a piece with a space before its end"),
    ({"format": 1, "unit": "bpe", "size": 300, "sha256": "0"}, "x.spm: there is no such file"),
    ({"format": 1, "unit": "bpe", "size": 3, "sha256": "0"}, "`size` must be a whole number of at least 260"),
    ({"format": 1, "unit": "bpe", "size": 300, "sha256": 7}, "`sha256` must hold texts"),
]


@pytest.mark.parametrize(("content", "message"), BAD_FILES)
def test_bad_files_are_refused(content: bytes | dict, message: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    with pytest.raises(ModelError, match=message) as caught:
        load_tokenizer(tmp_path, "x")
    assert str(tmp_path / "x.") in str(caught.value)
    assert "restore the file from a copy or train the model again" in str(caught.value)


def test_missing_files_and_folders_in_their_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelError, match=r"x\.json: there is no such file"):
        load_tokenizer(tmp_path / "nowhere", "x")
    (tmp_path / "x.json").mkdir()
    with pytest.raises(ModelError, match=r"x\.json: this is not a file"):
        load_tokenizer(tmp_path, "x")
    with pytest.raises(ModelError, match="the file cannot be read"):
        load_tokenizer(tmp_path, "x" * 5000)
    with pytest.raises(ModelError, match=r"there is no such file|cannot be read"):
        load_tokenizer(tmp_path, "x\0")
    (tmp_path / "large.json").write_bytes(b"{}" * 50)
    monkeypatch.setattr("regard.text.storage.LARGEST_FILE", 99)
    with pytest.raises(ModelError, match="the file has 100 bytes, more than the 99 that a tokenizer may have"):
        load_tokenizer(tmp_path, "large")


def place_model(folder: Path, model: bytes, size: int, unit: str = "bpe") -> None:
    (folder / "x.spm").write_bytes(model)
    fields = {"format": 1, "unit": unit, "size": size, "sha256": sha256(model).hexdigest()}
    (folder / "x.json").write_text(json.dumps(fields))


def foreign_model(**settings: object) -> bytes:
    model = BytesIO()
    usual = {
        "model_type": "bpe",
        "vocab_size": 280,
        "hard_vocab_limit": False,
        "byte_fallback": True,
        "pad_id": 0,
        "unk_id": 1,
        "bos_id": 2,
        "eos_id": 3,
        "minloglevel": 2,
        "num_threads": 1,
    }
    texts = iter(["the cat the cat", "a b c d"])
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=texts, model_writer=model, **(usual | settings))
    return model.getvalue()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"byte_fallback": False, "vocab_size": 20}, "the reserved ids are missing"),
        (
            {"byte_fallback": False, "vocab_size": 320, "user_defined_symbols": [f"w{n}" for n in range(290)]},
            "id 4 is not",
        ),
        ({"unk_id": 0, "pad_id": 1}, "the reserved ids are missing"),
        ({"pad_id": -1, "unk_id": 1, "bos_id": 0, "eos_id": 2}, "the reserved ids are not control pieces"),
        ({"control_symbols": ["<x>"], "vocab_size": 290}, "id 4 is not the byte 0"),
    ],
)
def test_models_laid_out_otherwise_are_refused(settings: dict, message: str, tmp_path: Path) -> None:
    model = foreign_model(**settings)
    place_model(tmp_path, model, size=280)
    with pytest.raises(
        ModelError, match=rf"x\.spm: the file is no sentencepiece model that regard can use \(.*{message}"
    ):
        load_tokenizer(tmp_path, "x")


def message(*fields: tuple[int, bytes | int | float]) -> bytes:
    """A protocol buffer, so that a piece of any kind can be put into a model."""
    written = b""
    for number, value in fields:
        if isinstance(value, bytes):
            written += bytes([number << 3 | 2]) + length(len(value)) + value
        elif isinstance(value, float):
            written += bytes([number << 3 | 5]) + struct.pack("<f", value)
        else:
            written += bytes([number << 3, value])
    return written


def length(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + length(value >> 7)


@pytest.mark.parametrize(
    ("piece", "reason"),
    [
        (message((1, b"fine"), (2, -1.0)), None),
        (message((1, b"<x>"), (2, -1.0), (3, 3)), "id 330 is no piece of text"),
        (message((1, b"<0x41>x"), (2, -1.0), (3, 5)), "id 330 is no piece of text"),
        (message((1, "the▁cat".encode()), (2, -1.0)), "id 330 is a piece that no training gives"),
        (message((1, b"a\tb"), (2, -1.0)), "id 330 is a piece that no training gives"),
        (message((1, b"a" * 257), (2, -1.0)), "id 330 is a piece that no training gives"),
        (message((1, b"x"), (2, float("nan"))), "id 330 has a score that no training gives"),
        (message((1, b"x"), (2, float("-inf"))), "id 330 has a score that no training gives"),
        (message((1, "▁the".encode()), (2, -1.0)), "already defined"),
        (message((1, b""), (2, -1.0)), "empty"),
        (message((1, b"\xff\xfe"), (2, -1.0)), ""),
    ],
)
def test_pieces_that_no_training_gives_are_refused(
    piece: bytes, reason: str | None, tokenizers: dict[str, Tokenizer], tmp_path: Path
) -> None:
    model = tokenizers["bpe"].stored().model + message((1, piece))
    place_model(tmp_path, model, size=331)
    if reason is None:
        assert load_tokenizer(tmp_path, "x").size == 331
    else:
        with pytest.raises(ModelError, match=rf"no sentencepiece model that regard can use \(.*{reason}"):
            load_tokenizer(tmp_path, "x")


def test_a_model_that_changes_text_is_refused_when_it_does(tmp_path: Path) -> None:
    model = foreign_model(normalization_rule_name="nmt_nfkc", add_dummy_prefix=True)
    size = sentencepiece.SentencePieceProcessor(model_proto=model).get_piece_size()
    place_model(tmp_path, model, size=size)
    tokenizer = load_tokenizer(tmp_path, "x")
    with pytest.raises(ModelError, match="the sentencepiece model changes text"):
        tokenizer.encode("ﬁ  cat")


def test_junk_instead_of_a_model(tokenizers: dict[str, Tokenizer], tmp_path: Path) -> None:
    for junk in (b"", b"junk", b"\0" * 1000, b"\x0a" * 1000):
        place_model(tmp_path, junk, size=300)
        with pytest.raises(ModelError, match="no sentencepiece model that regard can use"):
            load_tokenizer(tmp_path, "x")
    tokenizers["bpe"].save(tmp_path, "x")
    (tmp_path / "x.spm").write_bytes(b"junk")
    with pytest.raises(ModelError, match=r"x\.spm: the file is not the one that x\.json belongs to"):
        load_tokenizer(tmp_path, "x")
    model = tokenizers["bpe"].stored().model
    assert model is not None
    place_model(tmp_path, model, size=tokenizers["bpe"].size + 1)
    with pytest.raises(ModelError, match=r"the model has 330 ids, but x\.json says 331"):
        load_tokenizer(tmp_path, "x")


@pytest.mark.parametrize("unit", ["bpe", "unigram"])
def test_changed_bytes_of_a_model_are_refused_or_harmless(unit: str, tokenizers: dict, tmp_path: Path) -> None:
    """Whoever changes the model can change its checksum, too: then only the checks of its content are left."""
    model = tokenizers[unit].stored().model
    random = Random(5)
    refused = 0
    for _ in range(400):
        changed = bytearray(model)
        for _ in range(random.randint(1, 4)):
            changed[random.randrange(len(changed))] = random.randrange(256)
        if random.random() < 0.3:
            del changed[random.randrange(len(changed)) :]
        place_model(tmp_path, bytes(changed), size=tokenizers[unit].size, unit=unit)
        try:
            loaded = load_tokenizer(tmp_path, "x")
            for draw in (None, Draw(0.5, (1,))):
                assert loaded.decode(loaded.encode("the cat  ▁ zz é", draw).ids) == "the cat  ▁ zz é"
        except ModelError:
            refused += 1
    assert 100 < refused < 400


@pytest.mark.parametrize("name", NAMES)
def test_changed_bytes_of_a_json_file_are_refused_or_harmless(name: str, tokenizers: dict, tmp_path: Path) -> None:
    tokenizers[name].save(tmp_path, "x")
    content = (tmp_path / "x.json").read_bytes()
    random = Random(6)
    for _ in range(300):
        changed = bytearray(content)
        for _ in range(random.randint(1, 3)):
            changed[random.randrange(len(changed))] = random.choice(b'"[]{},:0 \\\xff\nau')
        if random.random() < 0.2:
            del changed[random.randrange(len(changed)) :]
        (tmp_path / "x.json").write_bytes(bytes(changed))
        try:
            loaded = load_tokenizer(tmp_path, "x")
        except ModelError:
            continue
        for text in TEXTS:
            loaded.decode(loaded.encode(text).ids)
