"""Attention read as an alignment: which step, which head, tokens into words, and the reading that fits best."""

import numpy as np
import pytest
import torch

from regard.errors import UsageError
from regard.insight import Aligned, Reading, best_reading, by_words, links, read, readings
from regard.text.encoding import Encoding


def attention(*rows: list[float]) -> torch.Tensor:
    """One head."""
    return torch.tensor(rows, dtype=torch.float64).unsqueeze(0)


# Two target tokens and END look at two source tokens and END.
STEPS = attention([0.7, 0.2, 0.1], [0.3, 0.6, 0.1], [0.1, 0.1, 0.8])


def encoding(*spans: tuple[int, int]) -> Encoding:
    return Encoding(ids=tuple(range(4, 4 + len(spans))), spans=spans)


@pytest.mark.parametrize(
    ("shift", "expected"), [(0, [[0.7, 0.2], [0.3, 0.6]]), (1, [[0.3, 0.6], [0.1, 0.1]])], ids=["predicts", "reads"]
)
def test_shift_chooses_the_step_that_predicts_or_reads_a_token(shift: int, expected: list[list[float]]) -> None:
    assert read([STEPS], Reading(shift=shift)).tolist() == expected


def test_layers_and_heads_are_chosen_or_averaged() -> None:
    one = torch.stack([torch.full((3, 3), 0.25), torch.full((3, 3), 0.75)])
    layers = [one, one + 1]
    assert read(layers, Reading(layer=0, head=1)).tolist() == [[0.75, 0.75]] * 2
    assert read(layers, Reading(layer=1)).tolist() == [[1.5, 1.5]] * 2
    assert np.array_equal(read(layers, Reading(layer=-1)), read(layers, Reading(layer=1)))
    assert read(layers, Reading()).dtype == np.float64


@pytest.mark.parametrize(
    ("reading", "message"),
    [
        (Reading(layer=2), r"there is no layer 2: the decoder has 2, counted from 0; -1 is the last"),
        (Reading(layer=-3), r"there is no layer -3: the decoder has 2"),
        (Reading(head=1), r"there is no head 1: the layer has 1, counted from 0"),
        (Reading(head=-1), r"there is no head -1: the layer has 1"),
    ],
)
def test_a_reading_that_cannot_be_is_refused(reading: Reading, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read([STEPS, STEPS], reading)


def test_readings_are_all_layers_heads_and_shifts() -> None:
    two_heads = torch.zeros(2, 3, 3)
    found = list(readings([two_heads, torch.zeros(1, 3, 3)]))
    assert len(found) == len(set(found)) == 2 * (3 + 1)
    assert {reading.head for reading in found if reading.layer == 0} == {None, 0, 1}
    assert {reading.head for reading in found if reading.layer == 1} == {None}


def test_tokens_are_summed_over_a_source_word_and_averaged_over_a_target_word() -> None:
    source, target = "unlike cats", "tomcats no"
    from_ = encoding((0, 2), (2, 6), (6, 11))  # un|like| cats
    to = encoding((0, 3), (3, 7), (7, 10))  # tom|cats| no
    weights = np.array([[0.1, 0.2, 0.5], [0.3, 0.3, 0.2], [0.6, 0.1, 0.3]])
    merged = by_words(weights, source, from_, target, to)
    expected = [[(0.1 + 0.2 + 0.3 + 0.3) / 2, (0.5 + 0.2) / 2], [0.6 + 0.1, 0.3]]
    assert np.allclose(merged, expected, atol=1e-15)


def test_tokens_that_are_only_white_space_belong_to_no_word() -> None:
    weights = np.array([[0.1, 0.8, 0.1], [0.5, 0.5, 0.0], [0.0, 0.3, 0.7]])
    spaced = encoding((0, 1), (1, 2), (2, 3))
    assert by_words(weights, "a b", spaced, "c d", spaced).tolist() == [[0.1, 0.1], [0.0, 0.7]]


def test_no_words_on_a_side_give_no_weights() -> None:
    assert by_words(np.zeros((0, 2)), "a b", encoding((0, 1), (2, 3)), "", encoding()).shape == (0, 2)
    assert links(np.zeros((2, 0))) == frozenset()
    assert links(np.zeros((0, 2))) == frozenset()


def test_each_target_word_is_linked_with_what_it_attends_to_most() -> None:
    assert links(np.array([[0.1, 0.9], [0.8, 0.2], [0.4, 0.6]])) == {(1, 0), (0, 1), (1, 2)}


@pytest.mark.parametrize(
    "planted",
    [Reading(layer=0, head=1, shift=0), Reading(layer=1, head=0, shift=1), Reading(layer=1, head=2, shift=0)],
)
def test_the_planted_reading_is_found(planted: Reading) -> None:
    generator = torch.Generator().manual_seed(5)
    sentences = []
    for number in range(12):
        size = 3 + number % 4
        order = torch.randperm(size, generator=generator).tolist()
        text = " ".join("abcdefg"[:size])
        spans = encoding(*((2 * word, 2 * word + 1) for word in range(size)))
        layers = [torch.rand(3, size + 1, size + 1, generator=generator) for _ in range(2)]
        assert planted.head is not None
        for target, source in enumerate(order):
            layers[planted.layer][planted.head][target + planted.shift] = 0.0
            layers[planted.layer][planted.head][target + planted.shift][source] = 0.9
        gold = frozenset((source, target) for target, source in enumerate(order))
        sentences.append(
            Aligned(layers=layers, source=text, target=text, source_encoding=spans, target_encoding=spans, gold=gold)
        )
        assert sentences[-1].links(planted) == gold
    best, errors = best_reading(sentences)
    assert best == planted
    assert errors[planted] == 0.0
    assert len(errors) == 16
    assert sorted(errors.values())[1] > 0.0
