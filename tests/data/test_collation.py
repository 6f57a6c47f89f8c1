"""From examples to batches, for every shape of model, against batches made by hand."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.data import Ledger, Store, prepare
from regard.data.batch import Batch, Category, Ids
from regard.data.collation import (
    AnswerCollation,
    Collation,
    MaskCollation,
    Masking,
    SourceTexts,
    TagCollation,
    TextCollation,
)
from regard.data.example import Example, Misfit, NothingToLearn, Place
from regard.special import END, FIRST_FREE, MASK, PAD, START, UNKNOWN
from regard.text import CharacterTokenizer, LabelTokenizer, NumberTokenizer, WordTokenizer

A, B, C, D = range(FIRST_FREE, FIRST_FREE + 4)
WORDS = WordTokenizer(words=("a", "b", "c", "d"))
LETTERS = CharacterTokenizer(characters=("a", "b", " "))
TAGS = WordTokenizer(words=("N", "V"))
TOPICS = LabelTokenizer(labels=("news", "sport"))
FACTORS = (WordTokenizer(words=("x", "y")), WordTokenizer(words=("1", "2", "3")))
PLAIN = SourceTexts(text=WORDS)


def batch_of(collation: Collation, *pairs: tuple[str, str]) -> Batch:
    encoded = [collation.encode(source, target) for source, target in pairs]
    assert all(tuple(rows) == collation.streams for rows in encoded)
    rows = {name: [one[name] for one in encoded] for name in collation.streams}
    return collation.batch(rows, [(1, 0, number) for number in range(len(pairs))])


def store_of(folder: Path, collation: Collation, pairs: Sequence[tuple[str, str]], ledger: Ledger) -> Store:
    examples = [Example({"source": one, "target": two}, Place("x", line)) for line, (one, two) in enumerate(pairs, 1)]
    return prepare(
        examples,
        streams=collation.streams,
        encode=collation.encode,
        folder=folder,
        key="k",
        bad_lines="refuse",
        empty_lines="skip",
        long_lines="refuse",
        max_length=9,
        ledger=ledger,
    )


def ids_of(source: object) -> list[list[list[int]]]:
    assert isinstance(source, Ids)
    return source.ids.tolist()


def test_texts_to_texts() -> None:
    batch = batch_of(TextCollation(source=PLAIN, target=WORDS), ("a b", "c"), ("d", "a zzz b"))
    assert ids_of(batch.sources["source"]) == [[[A], [B], [END]], [[D], [END], [PAD]]]
    assert batch.sources["source"].mask.tolist() == [[True, True, True], [True, True, False]]
    assert batch.inputs.tolist() == [[START, C, PAD, PAD], [START, A, UNKNOWN, B]]
    assert batch.outputs.tolist() == [[C, END, PAD, PAD], [A, UNKNOWN, B, END]]
    assert batch.mask.tolist() == [[True, True, False, False], [True] * 4]
    assert batch.tokens == 6
    assert batch.sources.keys() == {"source"}


def test_texts_of_nothing() -> None:
    collation = TextCollation(source=SourceTexts(text=None), target=WORDS)
    assert collation.streams == ("target",)
    batch = batch_of(collation, ("", "a b"), ("", "c"))
    source = batch.sources["source"]
    assert isinstance(source, Category)
    assert source.values.shape == source.mask.shape == (2, 0)
    assert source.values.dtype == torch.long
    assert batch.outputs.tolist() == [[A, B, END], [C, END, PAD]]


def test_texts_of_attributes_alone() -> None:
    source = SourceTexts(text=None, attributes=(TOPICS, LabelTokenizer(labels=("me",))))
    batch = batch_of(TextCollation(source=source, target=WORDS), ("sport\tme", "a"), ("\tme", "b"))
    found = batch.sources["source"]
    assert isinstance(found, Category)
    assert found.values.tolist() == [[FIRST_FREE + 1, FIRST_FREE], [PAD, FIRST_FREE]]
    assert found.mask.tolist() == [[True, True], [False, True]]
    assert batch.sources.keys() == {"source"}
    assert source.encode(" \tyou")["attributes"] == [PAD, PAD]
    assert (source.unseen(" \tyou"), source.unseen("news\tme"), source.unseen("\t")) == (["you"], [], [])


def test_attributes_stand_beside_a_text_which_may_have_tabs() -> None:
    source = SourceTexts(text=WORDS, attributes=(TOPICS,))
    batch = batch_of(TextCollation(source=source, target=WORDS), ("a\tb\tnews", "c"), ("d\t", "c"))
    assert ids_of(batch.sources["source"]) == [[[UNKNOWN], [END]], [[D], [END]]]
    found = batch.sources["attributes"]
    assert isinstance(found, Category)
    assert found.values.tolist() == [[FIRST_FREE], [PAD]]
    assert found.mask.tolist() == [[True], [False]]


def test_factors_stand_beside_their_words() -> None:
    source = SourceTexts(text=WORDS, factors=FACTORS)
    assert source.streams == ("source", "factor1", "factor2")
    batch = batch_of(TextCollation(source=source, target=WORDS), ("a b\tx y\t3 1", "c"), ("d\ty\t2", "c"))
    x, y = FIRST_FREE, FIRST_FREE + 1
    one, two, three = range(FIRST_FREE, FIRST_FREE + 3)
    assert ids_of(batch.sources["source"]) == [
        [[A, x, three], [B, y, one], [END, END, END]],
        [[D, y, two], [END, END, END], [PAD, PAD, PAD]],
    ]


def test_factors_of_parts_of_words_are_those_of_their_words() -> None:
    source = SourceTexts(text=LETTERS, factors=FACTORS[:1])
    rows = source.encode("ab  b\ty x")
    pieces = [LETTERS.piece(id_) for id_ in rows["source"]]
    assert len(pieces) == 5
    assert list(rows["factor1"]) == [FIRST_FREE + 1, FIRST_FREE + 1, PAD, PAD, FIRST_FREE]


def test_a_label_is_one_answer() -> None:
    collation = AnswerCollation(source=PLAIN, target=TOPICS)
    batch = batch_of(collation, ("a b", " sport "), ("c", "news"))
    assert batch.outputs.tolist() == [[FIRST_FREE + 1], [FIRST_FREE]]
    assert batch.mask.tolist() == [[True]] * 2
    assert batch.inputs.shape == (2, 0)
    assert batch.rows == batch.tokens == 2


def test_answers_that_training_did_not_have_are_nothing_to_learn() -> None:
    with pytest.raises(NothingToLearn, match=r"^training did not have the label 'weather', so it has no probability$"):
        AnswerCollation(source=PLAIN, target=TOPICS).encode("c", " weather ")
    with pytest.raises(NothingToLearn, match=r"^training did not have the tag 'ADV', so it has no probability$"):
        TagCollation(source=PLAIN, target=TAGS).encode("a b", "N  ADV")


def test_a_number_is_one_answer() -> None:
    collation = AnswerCollation(source=PLAIN, target=NumberTokenizer())
    batch = batch_of(collation, ("a b", "-2.5"), ("c", "0"), ("c", "1e10"))
    assert batch.outputs.dtype == torch.float32
    assert batch.outputs.tolist() == [[-2.5], [0.0], [1e10]]
    with pytest.raises(Misfit, match=r"^the target: a number was expected, such as 3\.5, and found is 'many'$"):
        collation.encode("a", "many")


def test_tags_stand_at_the_first_token_of_their_words() -> None:
    collation = TagCollation(source=SourceTexts(text=LETTERS), target=TAGS)
    n, v = FIRST_FREE, FIRST_FREE + 1
    batch = batch_of(collation, ("ab a", "N V"), ("b", "V"))
    assert collation.starts("ab a") == [0, 3]
    assert batch.outputs.tolist() == [[n, PAD, PAD, v, PAD], [v, PAD, PAD, PAD, PAD]]
    assert batch.mask.tolist() == [[True, False, False, True, False], [True, False, False, False, False]]
    assert batch.sources["source"].mask.tolist() == [[True] * 5, [True, True, False, False, False]]
    assert batch.tokens == 3
    assert not batch.mask[batch.outputs == PAD].any()


@pytest.mark.parametrize(
    ("collation", "source", "target", "message"),
    [
        (TagCollation(source=PLAIN, target=TAGS), "a b", "N", "the source has 2 words, and the target 1 items"),
        (TagCollation(source=PLAIN, target=TAGS), "a", "N V", "the source has 1 words, and the target 2 items"),
        (
            TextCollation(source=SourceTexts(text=WORDS, factors=FACTORS[:1]), target=WORDS),
            "a b\tx",
            "c",
            "the source has 2 words, and a factor of it 1 items: 'x'",
        ),
        (
            TextCollation(source=SourceTexts(text=WORDS, factors=FACTORS), target=WORDS),
            "a b\tx y",
            "c",
            "a source of 3 columns separated by tabs was expected (source, factor1, factor2), and there are 2",
        ),
        (
            TextCollation(source=SourceTexts(text=WORDS, attributes=(TOPICS,)), target=WORDS),
            "a b",
            "c",
            "a source of 2 columns separated by tabs was expected (source, attributes), and there is 1",
        ),
        (
            TextCollation(source=SourceTexts(text=None, attributes=(TOPICS,)), target=WORDS),
            "sport\tnews",
            "c",
            "a source of 1 column was expected (attributes), and there are 2",
        ),
    ],
)
def test_what_does_not_fit_together_is_told(collation: Collation, source: str, target: str, message: str) -> None:
    with pytest.raises(Misfit) as caught:
        collation.encode(source, target)
    assert str(caught.value) == message


def test_words_end_at_spaces_only() -> None:
    """A number such as `10 000` with a narrow blank in it is one word with one tag, as it is one token."""
    collation = TagCollation(source=PLAIN, target=TAGS)
    assert collation.encode("a\u2003b", "N")["starts"] == [0]
    with pytest.raises(Misfit, match=r"^the source has 1 words, and the target 2 items$"):
        collation.encode("a\u2003b", "N V")


@pytest.mark.parametrize(
    ("collation", "source", "target", "good", "side"),
    [
        (TextCollation(source=SourceTexts(text=LETTERS), target=LETTERS), "  ", "a", "a", "source"),
        (TextCollation(source=SourceTexts(text=LETTERS), target=LETTERS), "a", " \t", "a", "target"),
        (
            TextCollation(source=SourceTexts(text=LETTERS, attributes=(TOPICS,)), target=WORDS),
            " \tnews",
            "a",
            "a",
            "source",
        ),
        (TagCollation(source=SourceTexts(text=LETTERS), target=TAGS), " ", "N", "N", "source"),
        (TagCollation(source=SourceTexts(text=LETTERS), target=TAGS), "a", " ", "N", "target"),
        (AnswerCollation(source=PLAIN, target=TOPICS), "a", " ", "news", "target"),
        (AnswerCollation(source=PLAIN, target=NumberTokenizer()), "a", " ", "1", "target"),
        (MaskCollation(source=SourceTexts(text=LETTERS), masking=Masking()), "  ", "", "", "source"),
    ],
)
def test_blanks_alone_are_an_empty_side(
    tmp_path: Path, collation: Collation, source: str, target: str, good: str, side: str
) -> None:
    ledger = Ledger()
    text = "a\tnews" if collation.source.attributes else "a"
    store = store_of(tmp_path, collation, ((source, target), (text, good)), ledger)
    assert len(store) == 1
    assert [finding.detail for finding in ledger.findings("empty")] == [f"the {side} side is empty"]


@pytest.mark.parametrize(
    ("collation", "pairs", "lengths"),
    [
        (TextCollation(source=PLAIN, target=WORDS), (("a b c", "a"), ("a", "b b")), [[3, 1], [1, 2]]),
        (TextCollation(source=SourceTexts(text=None), target=WORDS), (("", "a b"), ("", "c")), [[2, 2], [1, 1]]),
        (
            TextCollation(source=SourceTexts(text=None, attributes=(TOPICS,)), target=WORDS),
            (("news", "a b"), ("news", "c")),
            [[2, 2], [1, 1]],
        ),
        (AnswerCollation(source=PLAIN, target=TOPICS), (("a b c", "news"), ("a", "news")), [[3, 3], [1, 1]]),
        (
            TagCollation(source=SourceTexts(text=LETTERS), target=TAGS),
            (("ab b", "N N"), ("a", "V")),
            [[4, 4], [1, 1]],
        ),
        (MaskCollation(source=PLAIN, masking=Masking()), (("a b c", ""), ("a", "")), [[3, 3], [1, 1]]),
    ],
)
def test_lengths_are_those_of_what_is_computed(
    tmp_path: Path, collation: Collation, pairs: tuple[tuple[str, str], ...], lengths: list[list[int]]
) -> None:
    store = store_of(tmp_path, collation, pairs, Ledger())
    assert collation.lengths(store).tolist() == lengths


def test_what_is_hidden_is_asked_for_and_nothing_else() -> None:
    collation = MaskCollation(source=PLAIN, masking=Masking(share=0.5, masked=1.0, replaced=0.0))
    batch = batch_of(collation, ("a b c d", "ignored"), ("c", ""))
    read = torch.tensor(ids_of(batch.sources["source"]))[..., 0]
    assert batch.outputs.tolist() == [[A, B, C, D, END], [C, END, PAD, PAD, PAD]]
    assert batch.mask.sum(1).tolist() == [2, 1]
    assert torch.equal(read == MASK, batch.mask)
    assert torch.equal(read[~batch.mask], batch.outputs[~batch.mask])
    assert batch.inputs.shape == (2, 0)
    assert collation.streams == ("source",)


def test_draws_have_the_shares_of_devlin() -> None:
    """χ² of the fates of chosen items, and of the places that are chosen, over many draws."""
    masking, vocabulary = Masking(), FIRST_FREE + 50
    row = [FIRST_FREE + 5] * 20
    fates: Counter[str] = Counter()
    places: Counter[int] = Counter()
    replacements: Counter[int] = Counter()
    for number in range(4000):
        read, chosen = masking.draw(row, vocabulary, (1, 2, number))
        assert len(chosen) == 3
        places.update(chosen)
        for place, id_ in enumerate(read):
            if place not in chosen:
                assert id_ == row[place]
                continue
            fates["masked" if id_ == MASK else "kept" if id_ == row[place] else "replaced"] += 1
            if id_ not in (MASK, row[place]):
                replacements[id_] += 1
    total = 12000
    same = 0.1 / 50
    expected = {"masked": 0.8 * total, "replaced": (0.1 - same) * total, "kept": (0.1 + same) * total}
    assert chi_square(fates, expected) < 13.8  # 0.999 of 2 degrees
    assert chi_square(places, dict.fromkeys(range(20), total / 20)) < 43.8  # 19 degrees
    others = [id_ for id_ in range(FIRST_FREE, vocabulary) if id_ != row[0]]
    assert set(replacements) <= set(others)
    assert chi_square(replacements, dict.fromkeys(others, sum(replacements.values()) / 49)) < 84.0  # 48 degrees


def chi_square(found: Mapping[Hashable, int], expected: Mapping[Hashable, float]) -> float:
    return sum((found.get(key, 0) - value) ** 2 / value for key, value in expected.items())


def test_draws_follow_from_the_key_alone() -> None:
    masking, row = Masking(share=0.4), list(range(FIRST_FREE, FIRST_FREE + 30))
    first = masking.draw(row, 60, (1, 2, 3))
    np.random.default_rng(1).random(5)
    assert masking.draw(np.array(row, dtype=np.int32), 60, (1, 2, 3)) == first
    others = [masking.draw(row, 60, key) for key in ((2, 2, 3), (1, 3, 3), (1, 2, 4))]
    assert all(other != first for other in others)


@pytest.mark.parametrize(
    ("length", "share", "count"), [(1, 0.15, 1), (3, 0.01, 1), (10, 0.15, 2), (20, 0.15, 3), (4, 0.99, 4)]
)
def test_at_least_one_item_is_chosen(length: int, share: float, count: int) -> None:
    row = [A] * length
    for number in range(20):
        _, chosen = Masking(share=share).draw(row, 20, (number,))
        assert len(chosen) == len(set(chosen)) == count
        assert chosen == sorted(chosen)
        assert 0 <= chosen[0] <= chosen[-1] < length


def test_the_end_is_never_hidden() -> None:
    collation = MaskCollation(source=PLAIN, masking=Masking(share=0.9))
    rows = {"source": [[A, B, C]] * 50 + [[D]] * 50}
    batch = collation.batch(rows, [(number,) for number in range(100)])
    read = torch.tensor(ids_of(batch.sources["source"]))[..., 0]
    ends = batch.outputs == END
    assert ends.sum() == 100
    assert (read[ends] == END).all()
    assert not batch.mask[ends].any()
