"""Scores of all pairs at once against the metric itself, called for each pair, and against sacrebleu for segments."""

import random
from collections.abc import Sequence

import numpy as np
import pytest
import sacrebleu

from regard.metrics import Metric, metric, pairwise
from regard.metrics.overlap import bleu
from regard.metrics.pairwise import pairwise_scores, shared
from regard.metrics.resampling import Statistics

WORDS = ["the", "cat", "sat", "on", "a", "mat", ",", "mats", "do", "n't", "like", "cats", ".", "Häuser"]
DRAW = random.Random(4)
TEXTS = ["", "  ", "a", "a a a a", "the cat", *(" ".join(DRAW.choices(WORDS, k=DRAW.randint(1, 11))) for _ in range(9))]
OTHERS = ["", "cat", *TEXTS[3:9], *(" ".join(DRAW.choices(WORDS, k=DRAW.randint(1, 11))) for _ in range(5))]
TAGS = ["O B-A I-A", "B-A O O", "", "B-B B-B O O"]
TREES = ["(S (NP a b) c)", "(S (NP a) b c)", "(S a b c)"]

CASES: list[tuple[Metric, list[str], list[str]]] = [
    *((metric(name), TEXTS, OTHERS) for name in ("BLEU", "chrF", "TER", "METEOR", "exact", "accuracy")),
    *((metric(name), TEXTS, OTHERS) for name in ("edit_distance", "WER", "CER")),
    (bleu(effective=True), TEXTS, OTHERS),
    (bleu(tokenize="none", order=2), TEXTS, OTHERS),
    (metric("span_F1"), TAGS, TAGS),
    (metric("bracket_F1"), TREES, TREES),
]


@pytest.mark.parametrize(("measure", "left", "right"), CASES, ids=[one.name for one, _, _ in CASES])
def test_all_pairs_at_once_are_each_pair_alone(measure: Metric, left: list[str], right: list[str]) -> None:
    found = pairwise_scores(measure, left, right)
    each = [[measure.aggregate(measure.statistics([one], [[other]])[0])[0] for other in right] for one in left]
    assert found.shape == (len(left), len(right))
    np.testing.assert_allclose(found, np.array(each), rtol=0, atol=1e-9)


def test_bleu_of_segments_is_that_of_sacrebleu() -> None:
    found = pairwise_scores(bleu(effective=True), TEXTS, OTHERS)
    each = [[sacrebleu.sentence_bleu(one, [other]).score for other in OTHERS] for one in TEXTS]
    np.testing.assert_allclose(found, np.array(each), rtol=0, atol=1e-9)
    assert found[TEXTS.index("the cat"), OTHERS.index("the cat")] == pytest.approx(100)
    assert bleu(effective=True).signature.startswith("case:mixed|eff:yes|tok:13a|smooth:exp")


def test_equal_texts_are_compared_once() -> None:
    calls: list[tuple[str, int]] = []
    real = metric("WER")

    class Counting:
        name, signature, higher_is_better, aggregate = real.name, real.signature, False, real.aggregate

        def statistics(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Statistics:
            calls.append((hypotheses[0], len(references)))
            return real.statistics(hypotheses, references)

    found = pairwise_scores(Counting(), ["a b", "a", "a b", "a b"], ["a", "b b", "a"])
    assert sorted(calls) == [("a", 2), ("a b", 2)]
    np.testing.assert_array_equal(found[0], found[2])
    assert found.tolist() == [[100, 50, 100], [0, 100, 0], [100, 50, 100], [100, 50, 100]]


def test_what_is_shared_is_counted_as_often_as_both_have_it_in_blocks_of_any_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left, right = ["aab", "ccc", ""], ["aaa", "abcc", "b"]
    whole = shared(left, right)
    assert whole.tolist() == [[2, 2, 1], [0, 2, 0], [0, 0, 0]]
    monkeypatch.setattr(pairwise, "CELLS_AT_ONCE", 7)
    assert shared(left, right).tolist() == whole.tolist()
