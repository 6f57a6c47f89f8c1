"""Characters of a lemma and whole features."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.special import UNKNOWN
from regard.text import InflectionTokenizer

REQUESTS = ["laufen\tV;PST;3;SG", "3G\tN;SG", "sehen\tpos=V,tense=PRS", "a\tb\tSG"]


@pytest.fixture(scope="module")
def tokenizer() -> InflectionTokenizer:
    return InflectionTokenizer.train(REQUESTS, size=1000)


@pytest.mark.parametrize(
    ("text", "pieces", "surfaces", "back"),
    [
        ("laufen\tV;SG", [*"laufen", "V", "SG"], [*"laufen", "V", "SG"], "laufen\tV;SG"),
        ("sehen\tpos=V,tense=PRS", [*"sehen", "pos=V", "tense=PRS"], None, "sehen\tpos=V;tense=PRS"),
        ("laufen", [*"laufen"], [*"laufen"], "laufen"),
        ("laufen\t", [*"laufen"], [*"laufen"], "laufen"),
        ("a\tb\tSG", ["a", "<U+0009>", "b", "SG"], ["a", "\t", "b", "SG"], "a\tb\tSG"),
        ("SG\tSG", ["<unk>", "G", "SG"], ["S", "G", "SG"], "⁇G\tSG"),
        ("3\t3", ["3", "3"], ["3", "3"], "3\t3"),
        ("a\t V ; ;,SG ", ["a", "V", "SG"], ["a", "V", "SG"], "a\tV;SG"),
        ("a\tV;NEW", ["a", "V", "<unk>"], ["a", "V", "NEW"], "a\tV;⁇"),
        ("\tV", ["V"], ["V"], "\tV"),
        ("", [], [], ""),
    ],
)
def test_requests(tokenizer: InflectionTokenizer, text: str, pieces: list[str], surfaces: list[str], back: str) -> None:
    encoding = tokenizer.encode(text)
    assert [tokenizer.piece(id_) for id_ in encoding.ids] == pieces
    assert [text[start:end] for start, end in encoding.spans] == (pieces if surfaces is None else surfaces)
    assert tokenizer.decode(encoding.ids) == back


def test_a_feature_is_never_a_character(tokenizer: InflectionTokenizer) -> None:
    character, feature = tokenizer.encode("3\t3").ids
    assert character < tokenizer.first_feature <= feature


def test_unknown_features_are_unknown(tokenizer: InflectionTokenizer) -> None:
    assert tokenizer.encode("a\ta").ids[1] == UNKNOWN


def test_size_and_count_hold_for_both_kinds() -> None:
    tokenizer = InflectionTokenizer.train(["aaab\tX;Y", "a\tX"], size=6)
    assert [tokenizer.piece(id_) for id_ in range(4, tokenizer.size)] == ["a", "X"]
    frequent = InflectionTokenizer.train(["aaab\tX;Y", "a\tX"], size=100, minimum_count=2)
    assert frequent.size == 6


@settings(max_examples=500, deadline=None)
@given(
    st.text(st.characters(exclude_categories=("Cs",)), max_size=20),
    st.lists(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\t;, "), min_size=1), max_size=6),
)
def test_known_requests_come_back(lemma: str, features: list[str]) -> None:
    text = lemma + ("\t" + ";".join(features) if features else "")
    tokenizer = InflectionTokenizer.train([text], size=1000)
    encoding = tokenizer.encode(text)
    if features or "\t" not in lemma:
        assert tokenizer.decode(encoding.ids) == text
        assert [text[start:end] for start, end in encoding.spans] == [*lemma, *features]
