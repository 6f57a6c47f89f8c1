"""subword-nmt codes, against what that program itself wrote."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import DataError
from regard.text import Codes, CodesTokenizer, Draw

DATA = json.loads((Path(__file__).parent / "data" / "subword_nmt.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def codes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Codes:
    path = tmp_path_factory.mktemp("codes") / "codes"
    path.write_text(DATA["codes"][request.param], encoding="utf-8")
    return Codes.read(path)


@pytest.mark.parametrize(("codes", "version"), [("0.1", "0.1"), ("0.2", "0.2")], indirect=["codes"])
def test_merges_are_those_of_subword_nmt(codes: Codes, version: str) -> None:
    cases = [case for case in DATA["cases"] if case["version"] == version]
    assert len(cases) > 40
    tokenizer = CodesTokenizer.train([case["text"] for case in cases], codes=codes, size=10_000)
    for case in cases:
        encoding = tokenizer.encode(case["text"])
        assert [tokenizer.piece(id_) for id_ in encoding.ids] == [shown(piece) for piece in case["pieces"]]
        assert tokenizer.decode(encoding.ids) == " ".join(word for word in case["text"].split(" ") if word)
        surfaces = [case["text"][start:end] for start, end in encoding.spans]
        assert surfaces == [tokenizer.surface(id_).decode().removesuffix(" ") for id_ in encoding.ids]


def shown(piece: str) -> str:
    return piece.replace("\t", "<U+0009>")


@pytest.mark.parametrize(("codes", "version"), [("0.2", "0.2")], indirect=["codes"])
def test_pieces_outside_the_vocabulary_are_split_as_subword_nmt_does(codes: Codes, version: str) -> None:
    tokenizer = CodesTokenizer.train(DATA["train"], codes=codes, size=10_000, minimum_count=4)
    known = {tokenizer.piece(id_) for id_ in range(4, tokenizer.size)}
    split = 0
    for case in (case for case in DATA["cases"] if case["version"] == version):
        expected = [piece if piece in known else "<unk>" for piece in case["limited"]]
        assert [tokenizer.piece(id_) for id_ in tokenizer.encode(case["text"]).ids] == expected
        split += case["limited"] != case["pieces"]
    assert split == 10


@pytest.mark.parametrize("codes", ["0.1"], indirect=True)
def test_ends_of_words_joined_last_can_be_split(codes: Codes) -> None:
    tokenizer = CodesTokenizer(codes=codes, pieces=["th", "e ", "low", "est ", "es", "t "])
    assert [tokenizer.piece(id_) for id_ in tokenizer.encode("the lowest").ids] == ["th@@", "e", "low@@", "est"]


@pytest.mark.parametrize("codes", ["0.1", "0.2"], indirect=True)
@settings(max_examples=300, deadline=None)
@given(st.lists(st.text("thelowsrcat@</w>é\t", min_size=1, max_size=12), max_size=8), st.floats(0, 1))
def test_known_pieces_come_back(codes: Codes, words: list[str], rate: float) -> None:
    text = " ".join(words)
    characters = sorted(set("".join(words)))
    tokenizer = CodesTokenizer.train([text], codes=codes, size=10_000)
    assert tokenizer.decode(tokenizer.encode(text).ids) == text
    everything = sorted({*characters, *(f"{character} " for character in characters)})
    spelling = CodesTokenizer(codes=codes, pieces=everything)
    encoding = spelling.encode(text, Draw(rate, (1,)))
    assert spelling.decode(encoding.ids) == text


@pytest.mark.parametrize("codes", ["0.2"], indirect=True)
def test_the_cache_changes_nothing(codes: Codes, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = CodesTokenizer.train(DATA["train"], codes=codes, size=10_000)
    first = [tokenizer.encode(text) for text in DATA["train"]]
    assert [tokenizer.encode(text) for text in DATA["train"]] == first
    monkeypatch.setattr("regard.text.codes._CACHED_WORDS", 2)
    assert [tokenizer.encode(text) for text in DATA["train"]] == first


@pytest.mark.parametrize("codes", ["0.2"], indirect=True)
def test_unknown_characters(codes: Codes) -> None:
    tokenizer = CodesTokenizer.train(DATA["train"], codes=codes, size=10_000)
    encoding = tokenizer.encode("the 字")
    assert tokenizer.decode(encoding.ids) == "the ⁇"
    assert encoding.spans == ((0, 3), (4, 5))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"#version: 0.3\na b\n", r"codes:1: codes of version '0.3'; known are 0.1 and 0.2"),
        (b"#version: 0.2\na b\na b c\n", r"codes:3: 'a b c' is no merge; a line has two symbols"),
        (b"#version: 0.2\na b\n\na b\n", r"codes:3: '' is no merge"),
        (b"#version: 0.2\na  b\n", r"codes:2: 'a  b' is no merge"),
        (b"", r"codes:1: '' is no merge"),
        (b"a b\n\xff b\n", r"codes: byte 5 of the codes file is not UTF-8"),
    ],
)
def test_bad_codes_files(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "codes"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        Codes.read(path)


def test_a_missing_codes_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere: the codes file cannot be read \(No such file"):
        Codes.read(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("content", "version", "merges"),
    [
        ("a b\nab c</w>\n", "0.1", (("a", "b"), ("ab", "c "))),
        ("#version: 0.1\ne </w>\n", "0.1", (("e", " "),)),
        ("#version: 0.2\r\na b</w>\r\n", "0.2", (("a", "b "),)),
        ("\ufeff#version: 0.2.0\na b", "0.2", (("a", "b"),)),
        ("#version: 0.2\n", "0.2", ()),
    ],
)
def test_forms_of_codes_files(content: str, version: str, merges: tuple, tmp_path: Path) -> None:
    path = tmp_path / "codes"
    path.write_bytes(content.encode())
    assert Codes.read(path) == Codes(version, merges)
