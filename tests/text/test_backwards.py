"""Ids from right to left, and words of tokens that stand in any order."""

from pathlib import Path

import pytest

from regard.text import BackwardTokenizer, Draw, Tokenizer, load_tokenizer, tokens_to_words, train_tokenizer, word_spans
from regard.text.build import Unit

TEXTS = ["the cats sat on the mat", "a cat", "mats and cats ü"]


@pytest.mark.parametrize("unit", ["word", "character", "byte", "bpe", "unigram"])
def test_ids_and_spans_are_turned_around_and_texts_are_not(unit: Unit, tmp_path: Path) -> None:
    inner = train_tokenizer(TEXTS, unit=unit, size=270)
    turned: Tokenizer = BackwardTokenizer(inner)
    assert (turned.unit, turned.size, turned.margin) == (inner.unit, inner.size, inner.margin)
    for text in TEXTS:
        one, other = inner.encode(text), turned.encode(text)
        assert other.ids == one.ids[::-1]
        assert other.spans == one.spans[::-1]
        assert turned.decode(other.ids) == inner.decode(one.ids)
        draw = Draw(rate=0.5, key=(1, 2))
        assert turned.encode(text, draw).ids == inner.encode(text, draw).ids[::-1]
        assert [turned.piece(id_) for id_ in other.ids] == [inner.piece(id_) for id_ in one.ids][::-1]
        assert b"".join(turned.surface(id_) for id_ in other.ids[::-1]) == b"".join(map(inner.surface, one.ids))
    turned.save(tmp_path, "text")
    assert load_tokenizer(tmp_path, "text").encode(TEXTS[0]) == inner.encode(TEXTS[0])


def test_tokens_in_any_order_find_their_words() -> None:
    text = "  the cats' mat  "
    spans = [(0, 2), (2, 4), (4, 5), (5, 8), (8, 11), (11, 15), (15, 17)]
    owners = tokens_to_words(spans, word_spans(text))
    assert owners == (None, 0, 0, 1, 1, 2, None)
    assert tokens_to_words(spans[::-1], word_spans(text)) == owners[::-1]
    order = [3, 0, 6, 2, 5, 1, 4]
    assert tokens_to_words([spans[token] for token in order], word_spans(text)) == tuple(owners[one] for one in order)
