"""BLEU, chrF and TER against sacrebleu's own command line and bootstrap."""

import json
import random
import subprocess
import sys
import time
from itertools import zip_longest
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from regard.errors import UsageError
from regard.metrics import evaluate, metric
from regard.metrics.overlap import bleu

TEXT = "the cat sat on a mat , der Hund mag Katzen nicht . (hi) don't 3.5 日本 語 ¿qué? &amp; –"
WORDS = TEXT.split()


def corpus(seed: int, size: int, *, references: int = 1) -> tuple[list[str], list[list[str]]]:
    """Sentences and noisy copies of them, with empty lines on either side."""
    generator = random.Random(seed)
    hypotheses, targets = [], []
    for _ in range(size):
        words = [generator.choice(WORDS) for _ in range(generator.choice([0, 1, 3, 8, 20]))]
        noisy = [word if generator.random() < 0.8 else generator.choice(WORDS) for word in words]
        if generator.random() < 0.2:
            generator.shuffle(noisy)
        hypotheses.append(" ".join(noisy[: generator.choice([0, 5, 30, 30, 30])]))
        targets.append([" ".join(words), *(" ".join(words[k:]) for k in range(1, references))])
    return hypotheses, targets


def command_line(folder: Path, hypotheses: list[str], references: list[list[str]], *options: str) -> list[dict]:
    """What `python -m sacrebleu` says about these lines."""
    names = []
    for number, column in enumerate(zip(*references, strict=True)):
        names.append(folder / f"reference{number}.txt")
        names[-1].write_text("".join(f"{line}\n" for line in column), encoding="utf-8")
    (folder / "output.txt").write_text("".join(f"{line}\n" for line in hypotheses), encoding="utf-8")
    command = [sys.executable, "-m", "sacrebleu", *map(str, names), "-i", str(folder / "output.txt")]
    command += ["-m", "bleu", "chrf", "ter", "-w", "12", "--force", *options]
    result = subprocess.run(command, capture_output=True, check=True, text=True)
    return list(json.loads(result.stdout))


@pytest.mark.parametrize(
    ("seed", "size", "references", "tokenize"),
    [
        (1, 60, 1, "13a"),
        (2, 40, 1, "none"),
        (3, 30, 2, "13a"),
        (4, 30, 3, "none"),
        (5, 20, 1, "char"),
        (6, 1, 1, "13a"),
        (8, 25, 1, "intl"),
        (9, 12, 2, "zh"),
        (10, 3, 1, "13a"),
        (11, 80, 4, "13a"),
    ],
)
def test_values_and_signatures_are_those_of_the_sacrebleu_command(
    tmp_path: Path, seed: int, size: int, references: int, tokenize: str
) -> None:
    hypotheses, targets = corpus(seed, size, references=references)
    theirs = command_line(tmp_path, hypotheses, targets, "--tokenize", tokenize)
    for name, expected in zip(("BLEU", "chrF", "TER"), theirs, strict=True):
        score = evaluate(metric(name, tokenize=tokenize), hypotheses, targets, resamples=0)
        assert round(score.value, 12) == expected["score"]
        assert score.signature == expected["signature"]
        assert score.name in expected["name"]
        assert score.count == size


def test_intervals_are_those_of_the_sacrebleu_command(tmp_path: Path) -> None:
    hypotheses, targets = corpus(7, 50)
    theirs = command_line(tmp_path, hypotheses, targets, "--confidence", "--confidence-n", "400")
    for name, expected in zip(("BLEU", "chrF", "TER"), theirs, strict=True):
        score = evaluate(metric(name), hypotheses, targets, resamples=400)
        assert score.signature == expected["signature"]
        assert score.low is not None
        assert score.high is not None
        # sacrebleu sums in single precision and tells only half the width
        assert (score.high - score.low) / 2 == pytest.approx(expected["confidence_var"], abs=1e-4)
        assert score.low < score.value < score.high


text = st.text(st.sampled_from("ab c.,A&é日"), max_size=12)


@given(st.lists(st.tuples(text, text), min_size=1, max_size=6))
def test_values_equal_the_sacrebleu_library_to_the_last_digit(pairs: list[tuple[str, str]]) -> None:
    hypotheses = [hypothesis for hypothesis, _ in pairs]
    targets = [[target] for _, target in pairs]
    columns = [[target for _, target in pairs]]
    for name, library in (("BLEU", BLEU()), ("chrF", CHRF()), ("TER", TER())):
        expected = library.corpus_score(hypotheses, columns).score
        assert evaluate(metric(name), hypotheses, targets, resamples=0).value == expected


def test_segments_may_have_different_numbers_of_references() -> None:
    hypotheses = ["a b c d e", "f g h i"]
    targets = [["a b c d", "a b c d e f"], ["f g h i"]]
    score = evaluate(metric("BLEU"), hypotheses, targets, resamples=0)
    assert score.value == BLEU().corpus_score(hypotheses, list(zip_longest(*targets))).score
    assert score.signature.startswith("nrefs:var|")


def test_bleu_of_two_worked_by_hand() -> None:
    """Reference "Taro visited Hanako", output "the Taro visited the Hanako": √(3/5 · 1/4) · 1 = 0.387."""
    score = evaluate(bleu(order=2), ["the Taro visited the Hanako"], [["Taro visited Hanako"]])
    assert score.name == "BLEU-2"
    assert score.value / 100 == pytest.approx((3 / 5 * 1 / 4) ** 0.5)
    assert round(score.value / 100, 3) == 0.387
    assert score.parts["precision_1"] == pytest.approx(60)
    assert score.parts["precision_2"] == pytest.approx(25)
    assert score.parts["brevity_penalty"] == 1.0
    assert (score.parts["hypothesis_length"], score.parts["reference_length"]) == (5.0, 3.0)


def test_tokenisation_changes_bleu_and_its_signature() -> None:
    pair = (["It is so , he said ."], [["It is so, he said."]])
    plain, cut = (evaluate(metric("BLEU", tokenize=how), *pair) for how in ("13a", "none"))
    assert plain.value == pytest.approx(100)
    assert cut.value < 50
    assert "tok:13a" in plain.signature
    assert "tok:none" in cut.signature


def test_tokenised_text_gives_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    evaluate(metric("BLEU"), ["a b ."] * 200, [["a b ."]] * 200, resamples=0)
    assert not caplog.records


def test_a_thousand_segments_with_a_thousand_resamples_are_quick() -> None:
    generator = random.Random(3)
    targets = [" ".join(generator.choice(WORDS) for _ in range(15)) for _ in range(1000)]
    hypotheses = [" ".join(target.split()[:-2]) for target in targets]
    start = time.process_time()
    for name in ("BLEU", "chrF"):
        evaluate(metric(name), hypotheses, [[target] for target in targets])
    assert time.process_time() - start < 2


def test_unknown_tokenisation_and_order_are_refused() -> None:
    with pytest.raises(UsageError, match="tokenize = 'spacy': BLEU can cut text by 13a, none, intl, zh, char"):
        metric("BLEU", tokenize="spacy")
    with pytest.raises(UsageError, match=r"order = 0: the longest n-gram of BLEU must have 1 to 16 words"):
        bleu(order=0)
