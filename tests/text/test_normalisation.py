"""Normalisation and the way back to the raw text."""

import sys
import time
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.text import Normaliser, Tokenizer, train_tokenizer

# Letters that compose with what follows, starters that compose with what precedes, marks of several classes,
# compatibility forms whose first character is a mark, Hangul, a final sigma, a letter whose lower case is longer.
TRICKY = (
    "aeAͅ\u0301\u0308\u0327\u0323ﬁ½™ﾊﾞ\u3099\uff9e\u0928\u093c\u09c7\u09be\u0cc6\u0cc2\u0cd5"
    "ᄀ\u1161\u11a8각İΣς ΣΪΐKℌ\u0344x"
)
TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=30) | st.text(TRICKY, max_size=12)


@pytest.mark.parametrize("form", ["nfc", "nfkc"])
@settings(max_examples=3000, deadline=None)
@given(TEXT)
def test_pieces_normalised_apart_equal_the_whole(form: str, text: str) -> None:
    normalised = Normaliser(form=form).normalise(text)
    assert normalised.text == unicodedata.normalize(form.upper(), text)


@pytest.mark.parametrize("form", ["none", "nfc", "nfkc"])
@pytest.mark.parametrize("lowercase", [False, True])
def test_places_lead_back(form: str, lowercase: bool) -> None:
    normaliser = Normaliser(form=form, lowercase=lowercase)

    @settings(max_examples=700, deadline=None)
    @given(TEXT)
    def check(text: str) -> None:
        normalised = normaliser.normalise(text)
        assert len(normalised.places) == len(normalised.text)
        assert list(normalised.places) == sorted(normalised.places)
        covered = {place for start, end in normalised.places for place in range(start, end)}
        assert covered == set(range(len(text)))
        if form != "none":
            assert unicodedata.is_normalized(form.upper(), normalised.text)
        elif lowercase:
            assert normalised.text == text.lower()

    check()


@pytest.mark.parametrize(
    ("form", "lowercase", "text", "result", "places"),
    [
        ("none", False, "Ae\u0301", "Ae\u0301", [(0, 1), (1, 2), (2, 3)]),
        ("nfc", False, "Ae\u0301b", "Aéb", [(0, 1), (1, 3), (3, 4)]),
        ("nfkc", False, "aﬁb", "afib", [(0, 1), (1, 2), (1, 2), (2, 3)]),
        ("nfkc", True, "x™", "xtm", [(0, 1), (1, 2), (1, 2)]),
        ("none", True, "İΣ", "i̇ς", [(0, 1), (0, 1), (1, 2)]),
        ("nfc", True, "Ϊ\u0301", "ΐ", [(0, 2)]),
        ("nfkc", False, "\u0928\uff9e\u093c", "\u0929\u3099", [(0, 3), (0, 3)]),
        ("nfc", False, "", "", []),
    ],
)
def test_known_cases(form: str, lowercase: bool, text: str, result: str, places: list) -> None:
    normalised = Normaliser(form=form, lowercase=lowercase).normalise(text)
    assert normalised.text == result
    assert list(normalised.places) == places


def test_every_code_point_alone() -> None:
    """Each character between two letters, so that a whole table of Unicode is gone through."""
    points = [chr(point) for point in range(0x80, sys.maxunicode + 1) if not 0xD800 <= point < 0xE000]
    changed = [point for point in points if not unicodedata.is_normalized("NFKC", f"a{point}b")]
    assert len(changed) > 4_000
    for point in changed:
        text = f"a{point}b"
        assert Normaliser(form="nfkc").normalise(text).text == unicodedata.normalize("NFKC", text)


def test_raw_spans_of_tokens(tokenizers: dict[str, Tokenizer]) -> None:
    text = "THE ﬁne CAFE\u0301"
    encoding = tokenizers["bpe nfkc lower"].encode(text)
    assert tokenizers["bpe nfkc lower"].decode(encoding.ids) == "the fine café"
    assert {place for start, end in encoding.spans for place in range(start, end)} == set(range(len(text)))
    words = train_tokenizer([text], unit="word", size=100, normal="nfkc", lowercase=True)
    assert words.encode(text).spans == ((0, 3), (4, 7), (8, 13))
    assert words.decode(words.encode(text).ids) == "the fine café"


def test_empty_ranges_have_a_place() -> None:
    normalised = Normaliser(form="nfkc").normalise("ﬁx")
    assert normalised.raw_span(0, 0) == (0, 0)
    assert normalised.raw_span(2, 2) == (1, 1)
    assert normalised.raw_span(3, 3) == (2, 2)


@pytest.mark.parametrize("run", ["\u0301\u0327", "\uff9e", "ᄀ\u1161\u11a8", "\u0cc6\u0cc2\u0cd5", "ﬁ"])
def test_long_runs_take_seconds_at_most(run: str) -> None:
    """`unicodedata.normalize` alone needs minutes for the first of them."""
    text = "a" + run * 20_000
    start = time.perf_counter()
    normalised = Normaliser(form="nfkc", lowercase=True).normalise(text)
    assert time.perf_counter() - start < 20
    assert normalised.raw_span(0, len(normalised.text)) == (0, len(text))


def test_runs_as_long_as_any_writing_has_are_normalised_whole() -> None:
    text = "a" + "\u0301\u0327" * 100 + "b"
    assert Normaliser(form="nfc").normalise(text).text == unicodedata.normalize("NFC", text)


def test_the_unit_keeps_its_name(tokenizers: dict[str, Tokenizer]) -> None:
    assert tokenizers["bpe nfkc lower"].unit == "bpe"
    assert tokenizers["word nfc"].unit == "word"
