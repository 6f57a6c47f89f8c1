"""Words, characters and bytes."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.special import UNKNOWN
from regard.text import ByteTokenizer, CharacterTokenizer, WordTokenizer

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=60)


@pytest.mark.parametrize(
    ("text", "back", "words"),
    [
        ("the cat", "the cat", ["the", "cat"]),
        ("the  cat", "the cat", ["the", "cat"]),
        (" the cat ", "the cat", ["the", "cat"]),
        ("   ", "", []),
        ("the\u00a0cat the", "the\u00a0cat the", ["the\u00a0cat", "the"]),
        ("a\tb &apos;s c\u2009d", "a\tb &apos;s c\u2009d", ["a\tb", "&apos;s", "c\u2009d"]),
        ("the dog", "the ⁇", ["the", "dog"]),
    ],
)
def test_words_stand_between_spaces(text: str, back: str, words: list[str]) -> None:
    tokenizer = WordTokenizer(words=["the", "cat", "the\u00a0cat", "a\tb", "&apos;s", "c\u2009d"])
    encoding = tokenizer.encode(text)
    assert tokenizer.decode(encoding.ids) == back
    assert [text[start:end] for start, end in encoding.spans] == words


@settings(max_examples=500, deadline=None)
@given(TEXT)
def test_known_words_come_back(text: str) -> None:
    tokenizer = WordTokenizer.train([text], size=1000)
    assert tokenizer.decode(tokenizer.encode(text).ids).split(" ") == ([w for w in text.split(" ") if w] or [""])


@settings(max_examples=500, deadline=None)
@given(TEXT)
def test_known_characters_come_back(text: str) -> None:
    tokenizer = CharacterTokenizer.train([text], size=1000)
    encoding = tokenizer.encode(text)
    assert tokenizer.decode(encoding.ids) == text
    assert encoding.spans == tuple((place, place + 1) for place in range(len(text)))


@settings(max_examples=1000, deadline=None)
@given(TEXT)
def test_bytes_lose_nothing(text: str) -> None:
    tokenizer = ByteTokenizer()
    encoding = tokenizer.encode(text)
    assert bytes(id_ - 4 for id_ in encoding.ids) == text.encode()
    assert tokenizer.decode(encoding.ids) == text
    assert encoding.spans == tuple(
        (place, place + 1) for place, character in enumerate(text) for _ in character.encode()
    )


def test_half_a_character_decodes_to_a_replacement() -> None:
    tokenizer = ByteTokenizer()
    assert tokenizer.decode(tokenizer.encode("aé").ids[:-1]) == "a\ufffd"


def test_unknown_characters_are_shown() -> None:
    tokenizer = CharacterTokenizer.train(["abc"], size=100)
    assert tokenizer.encode("axc").ids[1] == UNKNOWN
    assert tokenizer.decode(tokenizer.encode("axc").ids) == "a⁇c"


def test_vocabularies_are_ordered_by_count_then_code_point() -> None:
    assert _words(["b b a c c z", "a é"], size=100) == ["a", "b", "c", "z", "é"]
    assert _words(["z é", "c c b a a b"], size=100) == ["a", "b", "c", "z", "é"]


@pytest.mark.parametrize(("size", "minimum", "words"), [(6, 1, ["a", "b"]), (4, 1, []), (100, 2, ["a", "b", "c"])])
def test_vocabularies_are_limited(size: int, minimum: int, words: list[str]) -> None:
    assert _words(["b b a c c z", "a é"], size=size, minimum_count=minimum) == words


@settings(max_examples=200, deadline=None)
@given(st.lists(TEXT, max_size=5), st.integers(4, 20), st.integers(1, 3))
def test_character_vocabularies_against_a_counter(texts: list[str], size: int, minimum: int) -> None:
    counts = Counter("".join(texts))
    expected = sorted((c for c in counts if counts[c] >= minimum), key=lambda c: (-counts[c], ord(c)))[: size - 4]
    tokenizer = CharacterTokenizer.train(texts, size=size, minimum_count=minimum)
    assert [tokenizer.decode([id_]) for id_ in range(4, tokenizer.size)] == expected


@pytest.mark.parametrize(("text", "pieces"), [(" a", ["▁", "a"]), ("\n\u200b", ["<U+000A>", "<U+200B>"])])
def test_pieces_can_be_seen(text: str, pieces: list[str]) -> None:
    tokenizer = CharacterTokenizer.train([text], size=100)
    assert [tokenizer.piece(id_) for id_ in tokenizer.encode(text).ids] == pieces


def test_pieces_of_bytes_can_be_seen() -> None:
    tokenizer = ByteTokenizer()
    assert [tokenizer.piece(id_) for id_ in tokenizer.encode("a é\n").ids] == ["a", "▁", "<0xC3>", "<0xA9>", "<0x0A>"]


def _words(texts: list[str], *, size: int, minimum_count: int = 1) -> list[str]:
    tokenizer = WordTokenizer.train(texts, size=size, minimum_count=minimum_count)
    return [tokenizer.piece(id_) for id_ in range(4, tokenizer.size)]
