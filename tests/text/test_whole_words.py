"""Words that a bpe or unigram vocabulary keeps whole, whatever they are made of."""

from pathlib import Path

import pytest

from regard.errors import RecipeError
from regard.text import Tokenizer, load_tokenizer, train_tokenizer
from regard.text.piece_training import SMALLEST
from regard.text.tokenizer import Draw
from tests.toys import toy_sources

TEXTS = [line.replace(" ", "") + " " + line for line in toy_sources(80)]
LINE = "<BT> abc a<BT> <BT>"


def pieces(tokenizer: Tokenizer, text: str, draw: Draw | None = None) -> list[str]:
    return [tokenizer.piece(id_) for id_ in tokenizer.encode(text, draw).ids]


@pytest.mark.parametrize("unit", ["bpe", "unigram"])
def test_a_whole_word_is_one_piece_and_the_others_stay_as_they_are(tmp_path: Path, unit: str) -> None:
    plain = train_tokenizer(TEXTS, unit=unit, size=300)  # type: ignore[arg-type]
    kept = train_tokenizer(TEXTS, unit=unit, size=301, whole=["<BT>"])  # type: ignore[arg-type]
    assert kept.size == plain.size + 1
    assert pieces(kept, "<BT>") == ["▁<BT>"]
    assert kept.encode("<BT>").ids == (plain.size,)
    assert len(pieces(plain, "<BT>")) > 1
    for text in TEXTS:
        assert kept.encode(text) == plain.encode(text)
        tagged = kept.encode(f"<BT> {text}").ids
        assert (tagged[0], kept.decode(tagged)) == (plain.size, f"<BT> {text}")
        if unit == "bpe":  # of segmentations with the same probability, unigram may choose another one
            assert tagged[1:] == plain.encode(text).ids
    assert kept.encode(LINE).spans[0] == (0, 4)
    assert kept.decode(kept.encode(LINE).ids) == LINE
    assert pieces(kept, LINE).count("▁<BT>") == 2
    kept.save(tmp_path, "text")
    assert load_tokenizer(tmp_path, "text").encode(LINE) == kept.encode(LINE)


@pytest.mark.parametrize("unit", ["bpe", "unigram"])
def test_no_draw_cuts_it(unit: str) -> None:
    kept = train_tokenizer(TEXTS, unit=unit, size=301, whole=["<BT>"])  # type: ignore[arg-type]
    drawn = [kept.encode(LINE, Draw(rate=0.5, key=(number,))).ids for number in range(30)]
    assert len(set(drawn)) > 1
    for ids in drawn:
        assert kept.decode(ids) == LINE
        assert (ids[0], ids[-1]) == (kept.size - 1, kept.size - 1)


def test_it_is_normalised_as_the_texts_are() -> None:
    kept = train_tokenizer(TEXTS, unit="bpe", size=301, lowercase=True, whole=["<BT>"])
    assert pieces(kept, "<BT> A")[0] == "▁<bt>"


def test_it_needs_an_id() -> None:
    with pytest.raises(RecipeError, match=f"text.size is {SMALLEST}, but unit bpe needs {SMALLEST + 1} or more"):
        train_tokenizer(TEXTS, unit="bpe", size=SMALLEST, whole=["<BT>"])
