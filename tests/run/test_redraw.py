"""Segmentations that are drawn anew in each epoch."""

from regard.recipe.texts import Texts
from regard.run.preparation import redraw_with
from regard.text import train_tokenizer

WORDS = ["lowest newest widest", "low lower lowest", "new newer newest", "wide wider widest"] * 5
KEY = (1, 0, 3, 0)


def test_without_a_rate_nothing_is_drawn() -> None:
    both = train_tokenizer(WORDS, unit="bpe", size=290)
    assert redraw_with(Texts(both, both), 0.0, 99) is None


def test_a_draw_is_another_segmentation_of_the_same_text_and_a_function_of_its_key() -> None:
    both = train_tokenizer(WORDS, unit="bpe", size=290)
    redraw = redraw_with(Texts(both, both), 0.5, 99)
    assert redraw is not None
    ids = both.encode("lowest newest").ids
    drawn = {tuple(redraw("source", ids, (1, epoch, 3, 0))) for epoch in range(20)}
    assert len(drawn) > 3
    assert {both.decode(each) for each in drawn} == {"lowest newest"}
    assert redraw("target", ids, KEY) == redraw("target", ids, KEY)


def test_units_with_one_segmentation_keep_their_ids() -> None:
    """The ids of an inflection request do not survive the way over text."""
    lemmas = train_tokenizer(["geben\tV;PST", "sehen\tV;PRS"], unit="inflection", size=100)
    pieces = train_tokenizer(WORDS, unit="bpe", size=290)
    redraw = redraw_with(Texts(lemmas, pieces), 0.5, 99)
    assert redraw is not None
    ids = lemmas.encode("geben\tV;PST").ids
    assert redraw("source", ids, KEY) == ids
    assert redraw("target", pieces.encode("lowest").ids, KEY) != pieces.encode("lowest").ids


def test_a_draw_that_is_too_long_is_not_taken() -> None:
    both = train_tokenizer(WORDS, unit="bpe", size=290)
    ids = both.encode("lowest newest").ids
    redraw = redraw_with(Texts(both, both), 0.9, len(ids))
    assert redraw is not None
    assert {len(redraw("source", ids, (1, epoch, 3, 0))) for epoch in range(20)} == {len(ids)}
