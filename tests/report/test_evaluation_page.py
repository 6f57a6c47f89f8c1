"""The page of an evaluation: everything is on it, nothing of it is obeyed, nothing is loaded."""

import math
import re

from regard.metrics import Score
from regard.metrics.breakdown import Bucket
from regard.report import SetScore
from regard.report.evaluation import BucketTable, EvaluationPage, JudgedSample, bucket_chart, render_evaluation
from regard.report.markup import content_hash
from tests.report.test_report_page import EVIL, Checker


def score(value: float, low: float | None = None, high: float | None = None) -> Score:
    return Score(name="BLEU", value=value, low=low, high=high, signature="nrefs:1", count=9)


def table(*buckets: Bucket) -> BucketTable:
    return BucketTable(title="By length", caption="BLEU by length.", what="words", counted="segments", buckets=buckets)


def page(text: str = "the cat") -> EvaluationPage:
    sample = JudgedSample(number=7, source=text, reference=text, output=f"{text} x", value=12.3)
    return EvaluationPage(
        title=f"translation: {text}",
        run=f"runs/{text}",
        scores=[SetScore(set_name=text, score=score(31.2, 30, 32))],
        tables=[table(Bucket(text, 4, 0.4, score(20, 10, 30)), Bucket("10+", 1_234, 0.6, score(40)))],
        judge="chrF",
        worst=[sample],
        best=[sample],
        notes=[text],
    )


def test_everything_is_on_the_page() -> None:
    checker = Checker(render_evaluation(page()))
    for text in ("31.2", "30.0 to 32.0", "By length", "BLEU by length.", "1,234", "10.0 to 30.0", "chrF 12.3"):
        assert text in checker.text
    assert checker.text.count("segment 7") == 2
    assert [tag for tag, _ in checker.tags].count("circle") == 3  # the bar of the table of scores, and two parts


def test_nothing_of_the_text_is_obeyed_and_nothing_is_loaded() -> None:
    text = render_evaluation(page(EVIL))
    checker = Checker(text)
    assert not {"script", "img", "iframe"} & {tag for tag, _ in checker.tags}
    assert EVIL in checker.text
    assert not re.search(r'(?:src|href)="(?!#|data:,)', text)
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)
    assert style is not None
    assert f"style-src {content_hash(style[1])};" in text.replace("&#x27;", "'")


def test_empty_pages_and_odd_values_are_drawn() -> None:
    empty = render_evaluation(EvaluationPage(title="t", run="r", scores=[]))
    for text in ("has not been evaluated yet", "nothing that this set could be taken apart by", "no outputs to show"):
        assert text in Checker(empty).text
    drawn = bucket_chart(table(Bucket("0", 1, 1.0, score(math.inf)), Bucket("1", 1, 1.0, score(5, 1, math.inf))))
    assert "nan" not in drawn
    assert "inf" not in drawn.replace("interval", "")
    assert "nothing to show" in bucket_chart(table())
