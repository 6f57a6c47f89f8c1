"""Words of raw text and the tokens that belong to them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.text import Tokenizer, tokens_to_words, word_spans

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=40) | st.text("ab \t\n", max_size=30)


@settings(max_examples=500, deadline=None)
@given(TEXT)
def test_words_are_those_of_split(text: str) -> None:
    assert [text[start:end] for start, end in word_spans(text)] == text.split()


@pytest.mark.parametrize(
    ("spans", "words", "owners"),
    [
        ([(0, 3), (3, 7)], [(0, 3), (4, 7)], (0, 1)),
        ([(0, 0), (0, 2), (2, 3), (3, 4), (4, 7)], [(0, 3), (4, 7)], (None, 0, 0, None, 1)),
        ([(0, 7)], [(0, 2), (3, 7)], (1,)),
        ([(0, 5)], [(0, 2), (3, 5)], (0,)),
        ([(2, 3), (2, 3), (2, 3)], [(0, 5)], (0, 0, 0)),
        ([(0, 1)], [], (None,)),
        ([], [(0, 1)], ()),
    ],
)
def test_owners(spans: list, words: list, owners: tuple) -> None:
    assert tokens_to_words(spans, words) == owners


span_lists = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 4)), max_size=12).map(
    lambda pairs: sorted({(start, start + length) for start, length in pairs}, key=lambda span: (span[0], span[1]))
)


@settings(max_examples=500, deadline=None)
@given(TEXT, span_lists)
def test_owners_against_counting_characters(text: str, spans: list[tuple[int, int]]) -> None:
    ends = 0
    monotone = []
    for start, end in spans:
        ends = max(ends, end)
        monotone.append((start, ends))
    words = word_spans(text)
    expected = []
    for start, end in monotone:
        shared = [len(set(range(start, end)) & set(range(*word))) for word in words]
        expected.append(shared.index(max(shared)) if shared and max(shared) else None)
    assert list(tokens_to_words(monotone, words)) == expected


def test_subwords_of_a_sentence(tokenizers: dict[str, Tokenizer]) -> None:
    text = "the unlikely  Straße, zz"
    encoding = tokenizers["bpe"].encode(text)
    owners = tokens_to_words(encoding.spans, word_spans(text))
    for word, (start, end) in enumerate(word_spans(text)):
        joined = "".join(text[a:b] for (a, b), owner in zip(encoding.spans, owners, strict=True) if owner == word)
        assert joined.strip() == text[start:end]
