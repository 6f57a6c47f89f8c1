"""Error rates, slots, ranked lists, alignments as texts, rank correlation, bits per character."""

import math
import random
from collections.abc import Hashable, Sequence

import numpy as np
import pytest

from regard.errors import DataError, UsageError
from regard.metrics import (
    PrecisionAt,
    alignment_error,
    bits_per_character,
    evaluate,
    join_candidates,
    levenshtein,
    metric,
)
from regard.metrics.alignment import parse_gold, parse_pharaoh
from regard.metrics.numbers import ranks
from regard.metrics.slots import added_slots, missing_slots, parse_slots


def table(left: Sequence[Hashable], right: Sequence[Hashable]) -> int:
    """The edit distance by its table."""
    row = list(range(len(right) + 1))
    for i, one in enumerate(left, start=1):
        above, row[0] = row[0], i
        for j, other in enumerate(right, start=1):
            above, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, above + (one != other))
    return row[-1]


@pytest.mark.parametrize("seed", range(5))
def test_error_rates_are_those_of_the_table(seed: int) -> None:
    chance = random.Random(seed)
    lines = [
        [" ".join(chance.choices(["a", "bb", "ccc"], k=chance.randint(1, 9))) for _ in range(2)] for _ in range(20)
    ]
    outputs, references = [left for left, _ in lines], [[right] for _, right in lines]
    words = sum(table(left.split(), right.split()) for left, right in lines)
    characters = sum(table(left, right) for left, right in lines)
    rate = evaluate(metric("WER"), outputs, references, resamples=0)
    assert rate.value == pytest.approx(100 * words / sum(len(right.split()) for _, right in lines))
    assert rate.parts["edits"] == words
    rate = evaluate(metric("CER"), outputs, references, resamples=0)
    assert rate.value == pytest.approx(100 * characters / sum(len(right) for _, right in lines))
    assert not rate.higher_is_better


def test_error_rates_at_the_ends() -> None:
    assert levenshtein(["a", "b"], ["b"]) == 1
    assert evaluate(metric("WER"), ["a b c d"], [["a"]]).value == 300
    assert evaluate(metric("WER"), ["a b", "x"], [["q", "a c"], ["x"]], resamples=0).value == pytest.approx(100 / 3)
    assert evaluate(metric("CER"), [""], [[""]]).value == 0
    assert evaluate(metric("CER"), ["a"], [[""]]).value == math.inf


# ranks


@pytest.mark.parametrize("seed", range(5))
def test_spearman_is_pearson_of_ranks(seed: int) -> None:
    chance = np.random.default_rng(seed)
    left, right = chance.integers(0, 12, size=40), chance.integers(0, 9, size=40) * 1.5

    def plain(values: np.ndarray) -> list[float]:
        return [float(np.mean([sum(values < one) + k for k in range(1, sum(values == one) + 1)])) for one in values]

    assert ranks(left.astype(float)).tolist() == plain(left)
    expected = np.corrcoef(plain(left), plain(right))[0, 1]
    score = evaluate(metric("spearman"), [str(one) for one in left], [[str(one)] for one in right], resamples=100)
    assert score.value == pytest.approx(100 * expected)
    assert score.low is not None
    assert score.low < score.value


def test_spearman_without_ties_is_its_closed_form() -> None:
    """1 - 6 Σ d² / (n (n² - 1)), and only order matters."""
    left, right = ["1", "2", "3", "4", "5"], ["20", "10", "30", "5000", "40"]
    distances = [1 - 2, 2 - 1, 0, 4 - 5, 5 - 4]
    expected = 1 - 6 * sum(one * one for one in distances) / (5 * 24)
    score = evaluate(metric("spearman"), left, [[one] for one in right], resamples=0)
    assert score.value == pytest.approx(100 * expected)


# lists of answers


def test_ranked_answers_by_hand() -> None:
    outputs = [join_candidates(["yes", "no", "maybe"]), join_candidates(["no", "ma\tybe"]), ""]
    references = [["no", "never"], ["ma ybe"], ["x"]]
    assert evaluate(metric("MRR"), outputs, references, resamples=0).value == pytest.approx(100 * (1 / 2 + 1 / 2) / 3)
    for name, right in (("P@1", 0), ("P@3", 2), ("P@10", 2)):
        score = evaluate(metric(name), outputs, references, resamples=0)
        assert score.value == pytest.approx(100 * right / 3)
        assert score.parts["candidates"] == 2
    eleventh = join_candidates([*map(str, range(10)), "right"])
    assert evaluate(metric("MRR"), [eleventh], [["right"]]).value == 0
    assert evaluate(PrecisionAt(11), [eleventh], [["right"]]).value == 100
    with pytest.raises(UsageError, match="k = 0: precision is taken at 1 candidate or more"):
        PrecisionAt(0)


# alignments


def test_alignment_error_of_texts_is_that_of_links() -> None:
    outputs, gold = ["0-0 1-1 2-1", "", "0-0"], ["0-0 1?1 2-2", "0?0", "0-0 1-1"]
    score = evaluate(metric("AER"), outputs, [[line] for line in gold], resamples=0)
    sure, possible = zip(*map(parse_gold, gold), strict=True)
    expected = alignment_error([parse_pharaoh(line) for line in outputs], sure, possible, resamples=0)
    assert score.value == expected.value
    assert score.value == pytest.approx(100 * (1 - (2 + 3) / (4 + 4)))
    with pytest.raises(DataError, match="reference 1: '0:1' is not a link: write source-target for a sure one"):
        evaluate(metric("AER"), ["0-0"], [["0:1"]])
    with pytest.raises(DataError, match=r"alignment 1: '0\?1' is not a link"):
        evaluate(metric("AER"), ["0?1"], [["0-1"]])
    with pytest.raises(DataError, match="segment 1 has 2 references; an alignment is compared with one"):
        evaluate(metric("AER"), ["0-1"], [["0-1", "0-1"]])


# slots

MEANING = "name[Blue Spice], eatType[coffee shop], priceRange[more than £30], area[riverside], familyFriendly[yes]"


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("Blue Spice is an expensive, child friendly coffee shop by the river.", []),
        ("The blue-spice café by the Riverside welcomes families and costs more than £30.", []),
        ("Blue Spice is a coffee shop by the river. It is not family-friendly and pricey.", ["familyFriendly"]),
        ("Blue Spices is a pub.", ["name", "eatType", "priceRange", "area", "familyFriendly"]),
        ("", ["name", "eatType", "priceRange", "area", "familyFriendly"]),
    ],
)
def test_missing_slots(text: str, missing: list[str]) -> None:
    slots = parse_slots(MEANING)
    assert [name for name, _ in missing_slots(text, slots)] == missing
    score = evaluate(metric("slot_error"), [text, text], [[MEANING], [MEANING]], resamples=10)
    assert score.value == pytest.approx(100 * len(missing) / 5)
    assert score.parts["wrong_texts"] == (100 if missing else 0)


def test_added_slots_and_the_rate_by_hand() -> None:
    slots = parse_slots("name[Aromi], customer rating[5 out of 5]")
    assert added_slots("Aromi welcomes children", slots) == ["familyFriendly"]
    assert added_slots("Aromi has five stars", slots) == []
    outputs = ["Aromi welcomes children", "Aromi has 5 out of 5 stars", "a five-star place"]
    score = evaluate(metric("slot_error"), outputs, [["name[Aromi], customer rating[5 out of 5]"]] * 3, resamples=0)
    assert score.parts == {"missing": 2, "added": 1, "slots": 6, "wrong_texts": pytest.approx(200 / 3)}
    assert score.value == pytest.approx(50)


def test_what_is_no_meaning() -> None:
    assert parse_slots(" name [ a, b ] ,x[1]") == (("name", "a, b"), ("x", "1"))
    assert parse_slots("") == ()
    for text in ("a text", "name[x] y[z]", "name[x", "[x]"):
        with pytest.raises(DataError, match=r"segment 1: .* is no slot of a meaning representation"):
            evaluate(metric("slot_error"), ["a"], [[text]])
    with pytest.raises(DataError, match="segment 1 has 2 references; a text has one meaning"):
        evaluate(metric("slot_error"), ["a"], [["x[1]", "x[2]"]])


# bits


def test_bits_per_character_by_hand() -> None:
    """A fair coin for each character costs one bit; bits do not depend on tokens."""
    score = bits_per_character([8 * math.log(2), 2 * math.log(2)], [8, 2])
    assert score.value == pytest.approx(1)
    assert score.parts == {"bits": pytest.approx(10), "characters": 10}
    assert score.signature == "bs:1000|seed:12345|end:counted|version:regard-1"
    assert not score.higher_is_better


@pytest.mark.parametrize(
    ("sums", "counts", "message"),
    [
        ([1.0, 2.0], [1], "2 negative log-probabilities but 1 lengths"),
        ([math.nan], [1], "segment 1 has −log p = nan"),
        ([0.5], [0], "segment 1 has 0 characters: must be 1 or more"),
    ],
)
def test_impossible_bits_are_refused(sums: list[float], counts: list[int], message: str) -> None:
    with pytest.raises(DataError, match=message):
        bits_per_character(sums, counts)
