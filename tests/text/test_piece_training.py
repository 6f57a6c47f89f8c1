"""Training of sentencepiece models: tiny, large and odd corpora."""

import time
from io import BytesIO

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import RecipeError
from regard.text import PieceTokenizer

TINY = {
    "nothing": [],
    "empty lines": ["", ""],
    "one letter": ["a"],
    "three letters": ["abc"],
    "one line": ["the cat sat on the mat"],
    "spaces": ["   "],
    "controls": ["\n\t\0"],
    "marks": ["▁▁▁ ▅▅ ▁"],
    "names": ["<s> <unk> <0x41> <pad> </s>"] * 30,
    "one word": ["a a a a"] * 5,
    "digits": ["1 2 3 12 123"] * 5,
    "no spaces": ["日本語日本語日本"] * 3,
}


@pytest.mark.parametrize("unit", ["bpe", "unigram"])
@pytest.mark.parametrize("name", TINY)
@pytest.mark.parametrize("size", [262, 263, 270, 300, 8000])
def test_tiny_corpora(unit: str, name: str, size: int, capfd: pytest.CaptureFixture[str]) -> None:
    tokenizer = PieceTokenizer.train(TINY[name], unit=unit, size=size)
    assert 261 <= tokenizer.size <= size
    for text in [*TINY[name], "something else"]:
        assert tokenizer.decode(tokenizer.encode(text).ids) == text
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("unit", ["bpe", "unigram"])
@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.text("abc ▁<0x41>\tßé", max_size=20) | st.text(max_size=8), max_size=6),
    st.integers(262, 320),
    st.integers(1, 3),
)
def test_any_corpus(unit: str, texts: list[str], size: int, minimum: int) -> None:
    texts = [text.encode(errors="ignore").decode() for text in texts]
    tokenizer = PieceTokenizer.train(texts, unit=unit, size=size, minimum_count=minimum)
    assert tokenizer.size <= size
    assert all(tokenizer.decode(tokenizer.encode(text).ids) == text for text in texts)


@pytest.mark.parametrize("unit", ["bpe", "unigram"])
def test_the_same_texts_give_the_same_model(unit: str, corpus: list[str]) -> None:
    first, second = (PieceTokenizer.train(iter(corpus), unit=unit, size=320) for _ in range(2))
    assert first.stored() == second.stored()
    assert first.size == 320


@pytest.mark.parametrize("unit", ["bpe", "unigram"])
def test_a_size_that_is_too_small_is_refused(unit: str) -> None:
    with pytest.raises(RecipeError, match=f"text.size is 261, but unit {unit} needs 262 or more"):
        PieceTokenizer.train(["abc"], unit=unit, size=261)


@pytest.mark.parametrize("unit", ["bpe", "unigram"])
@pytest.mark.parametrize(
    "texts",
    [
        ["unlikely lanterns " * 5000],
        ["unlikely", "lanterns", "unlikely lanterns"] * 3000,
        [word for word in ("lanterns", "unlikely", "lanterns unlikely") for _ in range(3000)],
    ],
)
def test_long_lines_and_many_copies_are_learned_from(unit: str, texts: list[str]) -> None:
    start = time.perf_counter()
    tokenizer = PieceTokenizer.train(texts, unit=unit, size=300)
    assert time.perf_counter() - start < 20
    assert _pieces(tokenizer, "lanterns unlikely") == ["▁lanterns", "▁unlikely"]


def test_bpe_is_what_sentencepiece_learns_from_whole_lines(corpus: list[str]) -> None:
    """Without rare characters, which would be cut out."""
    texts = [text for text in corpus if text.isascii()]
    model = BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([f" {text}" for text in texts]),
        model_writer=model,
        model_type="bpe",
        vocab_size=330,
        byte_fallback=True,
        character_coverage=1.0,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        add_dummy_prefix=False,
        pad_id=3,
        num_threads=1,
        minloglevel=2,
    )
    theirs = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    ours = PieceTokenizer.train(texts, unit="bpe", size=330)
    assert [ours.piece(id_) for id_ in range(260, 330)] == [theirs.id_to_piece(id_) for id_ in range(260, 330)]


@pytest.mark.parametrize("unit", ["bpe", "unigram"])
@pytest.mark.parametrize("odd", ["\t", "\0", "▅", "▁", "\n"])
def test_lines_with_odd_characters_are_learned_from(unit: str, odd: str) -> None:
    tokenizer = PieceTokenizer.train([f"lanterns{odd} sailors", f"sailors{odd} lanterns"] * 20, unit=unit, size=300)
    assert _pieces(tokenizer, "lanterns sailors") == ["▁lanterns", "▁sailors"]


@pytest.mark.parametrize("unit", ["bpe", "unigram"])
def test_words_of_tidy_text_become_pieces(unit: str) -> None:
    """Nothing but a space ever follows a noun here, and nothing but the end of the line follows a full stop."""
    nouns = ("cat", "dog", "lantern", "river", "sailor")
    texts = [f"the {first} sees the {second} today ." for first in nouns for second in nouns]
    tokenizer = PieceTokenizer.train(texts, unit=unit, size=8000)
    assert _pieces(tokenizer, "the lantern sees the sailor today .") == [
        "▁the", "▁lantern", "▁sees", "▁the", "▁sailor", "▁today", "▁."
    ]  # fmt: skip


def test_an_alphabet_larger_than_the_size_leaves_room_for_pieces() -> None:
    texts = ["the cat the cat"] * 50 + [chr(0x4E00 + place) for place in range(3000)]
    tokenizer = PieceTokenizer.train(texts, unit="bpe", size=300)
    assert tokenizer.size <= 300
    assert len(tokenizer.encode("the").ids) == 1
    assert all(tokenizer.decode(tokenizer.encode(text).ids) == text for text in texts)


def test_rare_characters_are_bytes() -> None:
    texts = ["abab"] * 10 + ["abq"]
    assert _pieces(PieceTokenizer.train(texts, unit="bpe", size=300), "q") == ["▁", "q"]
    assert _pieces(PieceTokenizer.train(texts, unit="bpe", size=300, minimum_count=2), "q") == ["▁", "<0x71>"]
    assert _pieces(PieceTokenizer.train(["abab"] * 1000 + ["q"], unit="bpe", size=300), "q") == ["▁", "<0x71>"]


def _pieces(tokenizer: PieceTokenizer, text: str) -> list[str]:
    return [tokenizer.piece(id_) for id_ in tokenizer.encode(text).ids]
