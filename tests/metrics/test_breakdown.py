"""Parts of a set: by length, by frequency, by label, by segment; against counts by hand and the parts alone."""

import random
from collections import Counter

import pytest

from regard.errors import DataError
from regard.metrics import EditDistance, evaluate, metric
from regard.metrics.breakdown import bucket_labels, by_frequency, by_label, by_length, by_segment

WORDS = ["cat", "dog", "mat", "sat", "the", "on", "zebra"]


def corpus(seed: int, size: int) -> tuple[list[str], list[str]]:
    chance = random.Random(seed)
    references = [" ".join(chance.choices(WORDS, k=chance.randint(1, 12))) for _ in range(size)]
    outputs = [
        " ".join(word if chance.random() < 0.7 else chance.choice(WORDS) for word in text.split())
        for text in references
    ]
    return outputs, references


@pytest.mark.parametrize(
    ("edges", "labels"),
    [
        ((10, 20), ["0–9", "10–19", "20+"]),
        ((1, 2, 5), ["0", "1", "2–4", "5+"]),
        ((), ["0+"]),
        ((1000,), ["0–999", "1,000+"]),
    ],
)
def test_labels_of_buckets(edges: tuple[int, ...], labels: list[str]) -> None:
    assert bucket_labels(edges) == labels


@pytest.mark.parametrize("name", ["BLEU", "chrF", "WER"])
def test_a_bucket_scores_as_its_segments_alone(name: str) -> None:
    outputs, references = corpus(1, 60)
    lengths = [len(text.split()) for text in references]
    buckets = by_length(metric(name), outputs, [[text] for text in references], lengths, edges=(4, 8), resamples=50)
    assert [bucket.label for bucket in buckets] == ["0–3", "4–7", "8+"]
    assert sum(bucket.count for bucket in buckets) == 60
    for bucket, (low, high) in zip(buckets, ((0, 4), (4, 8), (8, 99)), strict=True):
        chosen = [number for number, length in enumerate(lengths) if low <= length < high]
        alone = evaluate(metric(name), [outputs[n] for n in chosen], [[references[n]] for n in chosen], resamples=50)
        assert (bucket.score.value, bucket.score.low, bucket.score.high) == (alone.value, alone.low, alone.high)
        assert bucket.share == len(chosen) / 60
    assert len(by_length(metric(name), outputs, [[text] for text in references], lengths, edges=(500,))) == 1


def test_frequencies_by_hand() -> None:
    counts = {"the": 100, "cat": 2, "dog": 1}
    buckets = by_frequency(["the the cat", "zebra"], ["the cat cat", "dog"], counts, edges=(1, 2, 10), resamples=0)
    found = {bucket.label: (bucket.count, bucket.score.value) for bucket in buckets}
    # never seen: zebra in the output only; once: dog in the reference only; 2 to 9: 1 of 1 and 2; 10+: 1 of 2 and 1
    assert found == {
        "0": (0, 0.0),
        "1": (1, 0.0),
        "2–9": (2, pytest.approx(200 / 3)),
        "10+": (1, pytest.approx(200 / 3)),
    }
    assert {bucket.label: bucket.share for bucket in buckets} == {"0": 0, "1": 0.25, "2–9": 0.5, "10+": 0.25}


@pytest.mark.parametrize("seed", range(3))
def test_one_bucket_is_the_f1_of_all_words(seed: int) -> None:
    outputs, references = corpus(seed, 30)
    (bucket,) = by_frequency(outputs, references, {}, edges=(1,), resamples=100)
    both = sum((Counter(a.split()) & Counter(b.split())).total() for a, b in zip(outputs, references, strict=True))
    sizes = [sum(len(text.split()) for text in side) for side in (outputs, references)]
    assert bucket.score.value == pytest.approx(200 * both / sum(sizes))
    assert bucket.score.low is not None
    assert bucket.score.low < bucket.score.value


def test_a_word_of_one_segment_has_no_interval() -> None:
    buckets = by_frequency(["a", "b", "b"], ["a", "b", "c"], {"a": 1}, edges=(1,), resamples=50)
    assert [(bucket.score.value, bucket.score.low is None) for bucket in buckets] == [(50.0, False), (100.0, True)]


def test_labels_by_hand() -> None:
    labels = [["DET", "NOUN", "DET", "NOUN"], ["VERB"]]
    buckets = by_label(["the cat", "sat sat"], ["the cat the dog", "sat"], labels, resamples=0)
    found = {bucket.label: (bucket.count, bucket.score.value) for bucket in buckets}
    assert found == {"DET": (2, 50.0), "NOUN": (2, 50.0), "VERB": (1, 100.0)}
    assert [bucket.label for bucket in buckets][-1] == "VERB"


def test_segments_come_worst_first() -> None:
    outputs, references = ["abc", "xyz", "abd"], [["abc"], ["abc"], ["abc"]]
    for name in ("chrF", "edit_distance"):
        assert [one.number for one in by_segment(metric(name), outputs, references)] == [1, 2, 0]
    found = by_segment(EditDistance(), outputs, references)
    assert [one.value for one in found] == [3.0, 1.0, 0.0]
    single = evaluate(metric("chrF"), ["abd"], [["abc"]]).value
    assert by_segment(metric("chrF"), outputs, references)[1].value == pytest.approx(single)


def test_what_does_not_fit_is_refused_with_both_numbers() -> None:
    with pytest.raises(DataError, match="2 lengths were given for 1 hypotheses"):
        by_length(EditDistance(), ["a"], [["a"]], [1, 2])
    with pytest.raises(DataError, match="2 hypotheses but 1 references"):
        by_frequency(["a", "b"], ["a"], {})
    with pytest.raises(DataError, match="labels of 1 segments were given for 2 references"):
        by_label(["a", "b"], ["a", "b"], [["X"]])
    with pytest.raises(DataError, match="segment 1 has 1 labels for 2 words of its reference"):
        by_label(["a"], ["a b"], [["X"]])
    with pytest.raises(DataError, match="1 hypotheses but references for 2 segments"):
        by_segment(EditDistance(), ["a"], [["a"], ["b"]])
