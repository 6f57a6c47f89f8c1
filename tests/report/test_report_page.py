"""The page of a run: everything is on it, nothing of it is obeyed, nothing is loaded."""

import re
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

from regard.metrics import Score
from regard.report import AlignmentPicture, ReportData, Sample, SetScore, TrainingPoint, ValidationPoint, render_report
from regard.report.markup import content_hash
from regard.report.sections import figure, marked, score_table

EVIL = "<script>alert('1')</script>\"><img src=x onerror=alert(1)>"
VOID = {"meta", "link", "img", "br", "wbr", "circle", "rect", "line", "polyline"}


class Checker(HTMLParser):
    """Holds that tags are balanced, and collects tags and text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "script"):
            self.text += data


def score(name: str, value: float, low: float | None = None, high: float | None = None) -> Score:
    return Score(name=name, value=value, low=low, high=high, signature=f"nrefs:1|for:{name}", count=9)


def full() -> ReportData:
    return ReportData(
        title="English to German",
        run="runs/demo",
        recipe="task: translation\nseed: 7\n",
        facts=[("Parameters", "1,482,240")],
        data=[("Training pairs", "20,000")],
        findings=["train.tsv:17: longer than 256 tokens"],
        training=[
            TrainingPoint(step=s, loss=5 - s / 100, learning_rate=1e-3, tokens_per_second=900, seconds=s)
            for s in range(1, 300)
        ],
        validation=[ValidationPoint(step=s, loss=3.0, metrics={"BLEU": s / 10}, seconds=1.0) for s in (100, 200)],
        best_step=200,
        scores=[
            SetScore(set_name="test", score=score("BLEU", 97.123, 96.21, 97.9)),
            SetScore(set_name="test", score=score("perplexity (teacher-forced)", 1.124)),
            SetScore(set_name="combinations", score=score("BLEU", 88.8, 87.0, 90.1)),
        ],
        samples=[Sample(source="the cat", reference="die Katze", output="der Katze", log_probability=-1.5)],
        alignments=[AlignmentPicture(source=["cat"], target=["Katze"], weights=np.ones((1, 1)), title="one word")],
        notes=["log.jsonl: line 3 could not be read"],
    )


def test_everything_is_on_the_page() -> None:
    page = render_report(full())
    checker = Checker(page)
    for text in (
        *("English to German", "runs/demo", "97.1", "96.2 to 97.9", "1.12", "88.8", "combinations", "1,482,240"),
        *("20,000", "train.tsv:17", "task: translation", "one word", "log p = −1.50", "log.jsonl: line 3", "the cat"),
        *("Loss per token", "BLEU on validation data", "Learning rate", "Target tokens per second", "best"),
    ):
        assert text in checker.text, text
    assert "nrefs:1|<wbr>for:BLEU" in page
    assert "step 200 · BLEU 20" in page
    assert 'class="empty"' not in page


def test_the_page_is_accessible() -> None:
    checker = Checker(render_report(full()))
    names = [tag for tag, _ in checker.tags]
    assert dict(checker.tags)["html"] == {"lang": "en"}
    assert names.count("h1") == names.count("main") == names.count("table") == names.count("caption") == 1
    identities = {attrs["id"] for tag, attrs in checker.tags if tag == "h2"}
    assert {attrs["href"] for tag, attrs in checker.tags if tag == "a"} == {f"#{name}" for name in identities}
    assert all("scope" in attrs for tag, attrs in checker.tags if tag == "th")
    drawings = [attrs for tag, attrs in checker.tags if tag == "svg" and "rg-drawing" in str(attrs.get("class"))]
    assert len(drawings) == 5
    assert all(attrs.get("aria-label") for attrs in drawings)


def luminance(colour: str) -> float:
    digits = colour.lstrip("#")
    digits = "".join(2 * digit for digit in digits) if len(digits) == 3 else digits
    channels = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", [0, 1])
def test_text_has_contrast_in_light_and_dark(scheme: int) -> None:
    style = re.search(r"<style>(.*?)</style>", render_report(full()), re.DOTALL)[1]
    colours = dict(re.findall(r"--(\w+):(#\w+)", style.split("prefers-color-scheme:dark")[scheme]))
    pairs = [(ink, ground) for ink in ("ink", "soft", "one", "two", "three") for ground in ("paper", "card")]
    for ink, ground in [*pairs, ("soft", "wash"), ("ink", "good"), ("ink", "bad")]:
        dark, light = sorted((luminance(colours[ink]), luminance(colours[ground])))
        assert (light + 0.05) / (dark + 0.05) >= 4.5, (ink, ground)


def test_text_of_users_is_never_obeyed() -> None:
    picture = AlignmentPicture(source=[EVIL], target=[EVIL], weights=np.ones((1, 1)), title=EVIL)
    page = render_report(
        ReportData(
            title=EVIL,
            run=EVIL,
            recipe=EVIL,
            facts=[(EVIL, EVIL)],
            data=[(EVIL, EVIL)],
            findings=[EVIL],
            notes=[EVIL],
            validation=[ValidationPoint(step=1, loss=1.0, metrics={EVIL: 1.0}, seconds=0.0)],
            scores=[SetScore(set_name=EVIL, score=score(EVIL, 1.0))],
            samples=[Sample(source=EVIL, reference=EVIL, output=f"{EVIL} x")],
            alignments=[picture],
        )
    )
    checker = Checker(page)
    names = [tag for tag, _ in checker.tags]
    assert names.count("script") == 1
    assert "img" not in names
    assert not any(key.startswith("on") for _, attrs in checker.tags for key in attrs)
    assert checker.text.count("alert('1')") >= 12


@pytest.mark.parametrize("data", [full(), ReportData(title="t", run="r", recipe="")])
def test_nothing_is_loaded_and_only_our_own_blocks_are_permitted(data: ReportData) -> None:
    page = render_report(data)
    checker = Checker(page)
    for tag, attrs in checker.tags:
        assert "style" not in attrs, tag
        assert "src" not in attrs, tag
        assert str(attrs.get("href", "#")).startswith(("#", "data:,"))
    assert not re.search(r"@import|url\(|@font-face", page)
    assert "https://" not in page
    assert set(re.findall(r'http://[^"]*', page)) <= {"http://www.w3.org/2000/svg"}
    rules = next(str(attrs["content"]) for _, attrs in checker.tags if attrs.get("http-equiv"))
    blocks = {tag: re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL) for tag in ("style", "script")}
    assert "default-src 'none'" in rules
    assert "unsafe" not in rules
    assert re.findall("'sha256-[^']*'", rules) == [content_hash(b) for b in blocks["style"] + blocks["script"]]
    assert len(blocks["style"]) == 1
    assert len(blocks["script"]) == bool(data.alignments)


def test_empty_parts_say_so() -> None:
    text = Checker(render_report(ReportData(title="t", run="r", recipe=" "))).text
    for sentence in (
        *("The model has not been evaluated yet.", "No samples were kept.", "No alignments were drawn."),
        *("Training has not logged a step yet.", "Nothing is known about the model yet.", "The run has no recipe."),
        "Nothing is known about the data yet.",
    ):
        assert sentence in text
    assert "Nothing was skipped" not in text


def test_a_run_that_has_not_validated_shows_its_loss_and_says_so() -> None:
    points = [TrainingPoint(step=1, loss=2.0, learning_rate=0.1, tokens_per_second=1.0, seconds=1.0)]
    text = Checker(render_report(ReportData(title="t", run="r", recipe="", training=points, data=[("a", "b")]))).text
    assert "Loss per token" in text
    assert "Training has not validated yet." in text
    assert "Nothing was skipped, cut or found suspicious." in text


def test_an_error_rate_beyond_the_bar_is_an_arrow_at_its_end() -> None:
    for value, beyond in ((99.0, False), (100.0, False), (100.5, True), (240.0, True)):
        score = Score(name="TER", value=value, low=value - 5, high=value + 5, signature="s", count=9)
        drawn = score_table([SetScore(set_name="test", score=score)])
        assert ('<path class="point"' in drawn) is beyond
        assert ('<circle class="point"' in drawn) is not beyond


def test_of_a_single_set_the_first_four_scores_are_large() -> None:
    scores = [SetScore(set_name="test", score=score(name, 50.0)) for name in "abcde"]
    page = render_report(ReportData(title="t", run="r", recipe="", scores=scores))
    assert page.count('class="card tile"') == 4
    assert "no interval" in page


@pytest.mark.parametrize(
    ("reference", "output", "expected"),
    [
        ("a b c", "a b c", ("a b c", "a b c")),
        ("die Katze mag", "der Katze mag", ("<mark>die</mark> Katze mag", "<mark>der</mark> Katze mag")),
        ("a b", "a", ("a <mark>b</mark>", "a")),
        ("ging", "gang", ("g<mark>i</mark>ng", "g<mark>a</mark>ng")),
        ("<b>", "<i>", ("&lt;<mark>b</mark>&gt;", "&lt;<mark>i</mark>&gt;")),
        ("x", "", ("<mark>x</mark>", "")),
        ("a  b", "a  b", ("a  b", "a  b")),
    ],
)
def test_differences_are_marked(reference: str, output: str, expected: tuple[str, str]) -> None:
    assert marked(reference, output) == expected


@pytest.mark.parametrize(
    ("value", "text"),
    [(97.123, "97.1"), (2.1, "2.10"), (12345.6, "12,345.6"), (float("inf"), "∞"), (float("nan"), "–")],
)
def test_figures(value: float, text: str) -> None:
    assert figure(value) == text


def test_reports_and_metrics_import_neither_torch_nor_sacrebleu() -> None:
    program = "import sys, regard.report, regard.metrics; print({'torch', 'sacrebleu'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert result.stdout == "set()\n"
