"""BPE and unigram pieces: nothing is lost, every character has its token."""

import threading
import time

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.text import Draw, Encoding, Tokenizer

NASTY = [
    " ",
    "   ",
    "  two  spaces  ",
    " leading",
    "trailing ",
    "a\tb",
    "\n",
    "line\nbreak\r\n",
    "\0nul\0",
    "ﬁ ligature",
    "▁",
    "▁the ▁ cat▁",
    " ▁ ",
    "▅unk",
    "e\u0301 combining \u0301",
    "\u2028separators\u2029\u0085",
    "\ue000\ue001\uf8ff private",
    "\U0010ffff\uffff\ufffe",
    "\ufffd\ufeff\u200b\u00ad",
    "<s></s><unk><pad><0x41>",
    "👩‍👩‍👧 🇩🇪",
    "日本語 the 日本",
    "\x7f\x1b[0m",
    "ſ ß ẞ İ ı",
    "א\u05b0ב \u202eabc\u202c",
]
DRAWS = [None, Draw(0.1, (1, 7)), Draw(0.5, (2,)), Draw(1.0, ())]
TEXT = (
    st.text(st.characters(exclude_categories=("Cs",)), max_size=40)
    | st.text("the cats ▁▅<0x41>/\t\n\0é", max_size=40)
    | st.lists(st.sampled_from(["the", "cat", "Straße", "letters", " ", "  ", "▁", "日本", ","])).map("".join)
)


def check_exact(tokenizer: Tokenizer, text: str, encoding: Encoding) -> None:
    """The tokens spell the text, and each span holds what its token spells."""
    assert tokenizer.decode(encoding.ids) == text
    surfaces = [tokenizer.surface(id_) for id_ in encoding.ids]
    assert b"".join(surfaces) == (b" " + text.encode() if text else b"")
    assert min(encoding.ids, default=4) >= 4
    assert {place for start, end in encoding.spans for place in range(start, end)} == set(range(len(text)))
    for place, (surface, (start, end)) in enumerate(zip(surfaces, encoding.spans, strict=True)):
        inside = text[start:end].encode()
        if place == 0:
            assert surface == b" " + inside
        else:
            assert surface == inside or (len(surface) == 1 and end == start + 1 and surface in inside)
    starts, ends = [start for start, _ in encoding.spans], [end for _, end in encoding.spans]
    assert starts == sorted(starts)
    assert ends == sorted(ends)


@pytest.mark.parametrize("unit", ["bpe", "unigram"])
@pytest.mark.parametrize("text", NASTY)
def test_nasty_texts_come_back(unit: str, text: str, tokenizers: dict[str, Tokenizer]) -> None:
    for draw in DRAWS:
        check_exact(tokenizers[unit], text, tokenizers[unit].encode(text, draw))


@pytest.mark.parametrize("unit", ["bpe", "unigram"])
def test_any_text_comes_back(unit: str, tokenizers: dict[str, Tokenizer]) -> None:
    @settings(max_examples=2000, deadline=None)
    @given(TEXT, st.sampled_from(DRAWS))
    def check(text: str, draw: Draw | None) -> None:
        check_exact(tokenizers[unit], text, tokenizers[unit].encode(text, draw))

    check()


@pytest.mark.parametrize("unit", ["bpe", "unigram"])
def test_every_code_point_comes_back(unit: str, tokenizers: dict[str, Tokenizer]) -> None:
    points = [
        point for point in range(0x110000) if not 0xD800 <= point < 0xE000 and (point < 0x3400 or point % 61 == 0)
    ]
    for point in points:
        text = f"a{chr(point)}b {chr(point)}"
        assert tokenizers[unit].decode(tokenizers[unit].encode(text).ids) == text


@pytest.mark.parametrize("unit", ["bpe", "unigram"])
def test_ordinary_text_is_cut_as_sentencepiece_cuts_it(unit: str, corpus, tokenizers: dict[str, Tokenizer]) -> None:
    processor = sentencepiece.SentencePieceProcessor(model_proto=tokenizers[unit].stored().model)
    for text in [*corpus, "a word nobody saw: Ärgernis", "twice  spaced"]:
        assert list(tokenizers[unit].encode(text).ids) == processor.encode(f" {text}")


@pytest.mark.parametrize("unit", ["bpe", "unigram"])
def test_a_word_is_the_same_at_the_start_and_after_a_space(unit: str, tokenizers: dict[str, Tokenizer]) -> None:
    alone = tokenizers[unit].encode("the").ids
    assert len(alone) == 1
    assert tokenizers[unit].encode("the the").ids == alone + alone
    assert tokenizers[unit].piece(alone[0]) == "▁the"


def test_spans_of_an_example(tokenizers: dict[str, Tokenizer]) -> None:
    encoding = tokenizers["bpe"].encode("the ö▁")
    pieces = [tokenizers["bpe"].piece(id_) for id_ in encoding.ids]
    assert pieces == ["▁the", "▁", "<0xC3>", "<0xB6>", "<0xE2>", "<0x96>", "<0x81>"]
    assert encoding.spans == ((0, 3), (3, 4), (4, 5), (4, 5), (5, 6), (5, 6), (5, 6))


def test_the_mark_of_a_start_has_an_empty_span(tokenizers: dict[str, Tokenizer]) -> None:
    encoding = tokenizers["bpe"].encode("ö")
    assert encoding.spans == ((0, 0), (0, 1), (0, 1))


@pytest.mark.parametrize("unit", ["bpe", "unigram", "codes"])
def test_draws_depend_on_text_rate_and_key_alone(unit: str, corpus, tokenizers: dict[str, Tokenizer]) -> None:
    tokenizer = tokenizers[unit]
    draws = [Draw(0.4, (3, place)) for place in range(len(corpus))]
    first = [tokenizer.encode(text, draw) for text, draw in zip(corpus, draws, strict=True)]
    backwards = [tokenizer.encode(text, draw) for text, draw in reversed(list(zip(corpus, draws, strict=True)))]
    assert backwards[::-1] == first
    other: list[Encoding] = []
    thread = threading.Thread(target=lambda: other.extend(map(tokenizer.encode, corpus, draws)))
    thread.start()
    thread.join()
    assert other == first
    assert [tokenizer.encode(text, Draw(0.4, (4, 0))) for text in corpus] != first
    assert all(tokenizer.decode(encoding.ids) == text for text, encoding in zip(corpus, first, strict=True))


@pytest.mark.parametrize("unit", ["bpe", "unigram", "codes"])
def test_a_rate_of_zero_is_the_best_segmentation(unit: str, corpus, tokenizers: dict[str, Tokenizer]) -> None:
    for text in corpus:
        assert tokenizers[unit].encode(text, Draw(0.0, (1,))) == tokenizers[unit].encode(text)


def test_almost_no_dropout_is_what_sentencepiece_does(corpus, tokenizers: dict[str, Tokenizer]) -> None:
    for text in [*corpus, "unlikeliest lettering the  cat's Straßen"]:
        assert tokenizers["bpe"].encode(text, Draw(1e-300, (1,))) == tokenizers["bpe"].encode(text)


def test_full_dropout_leaves_characters(tokenizers: dict[str, Tokenizer]) -> None:
    encoding = tokenizers["bpe"].encode("the cat", Draw(1.0, (1,)))
    assert [tokenizers["bpe"].piece(id_) for id_ in encoding.ids] == list("▁the▁cat")


@pytest.mark.parametrize("unit", ["bpe", "unigram", "codes"])
@pytest.mark.parametrize("text", ["ab" * 50_000, "a" * 100_000, "thecat" * 16_000, "▁" * 100_000, " " * 100_000])
def test_long_lines_take_seconds_at_most(unit: str, text: str, tokenizers: dict[str, Tokenizer]) -> None:
    start = time.perf_counter()
    for draw in (None, Draw(0.3, (1,))):
        tokenizers[unit].encode(text, draw)
    assert time.perf_counter() - start < 20
