"""Model cards: a head that YAML reads, a body in which users' text is only text."""

import math
import re
import shlex

import pytest
import yaml
from markdown_it import MarkdownIt

from regard.metrics import Score
from regard.report import CardData, SetScore, render_card
from regard.report.markup import fenced, markdown

SIGNATURE = "nrefs:1|bs:1000|seed:12345|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"


def entry(set_name: str, name: str, value: float, low: float | None = None, high: float | None = None) -> SetScore:
    score = Score(
        name=name, value=value, low=low, high=high, signature=SIGNATURE, count=9, higher_is_better=name != "TER"
    )
    return SetScore(set_name=set_name, score=score)


def card(**changes: object) -> CardData:
    values: dict[str, object] = {
        "name": "Pocket: English–German",
        "task": "translation",
        "run": "runs/demo",
        "data": [("Training pairs", "20,000")],
        "model": [("Parameters", "1,482,240")],
        "text": [("Unit", "word")],
        "scores": [
            entry("test", "BLEU", 97.125, 96.2, 97.9),
            entry("test", "TER", 2.1),
            entry("new set", "BLEU", 88.8),
        ],
        "minutes": 1.7,
        "hardware": "2 cores",
        "example": "cats don't sleep",
        "limits": ["Knows 412 words."],
        "skipped": ["train.tsv:17: too long"],
        "recipe": "task: translation\n",
    }
    return CardData(**(values | changes))  # type: ignore[arg-type]


def head(text: str) -> dict[str, object]:
    _, block, _ = text.split("---\n", 2)
    return dict(yaml.safe_load(block))


def body(text: str) -> str:
    return MarkdownIt("gfm-like", {"linkify": False}).render(text.split("---\n", 2)[2])


def test_the_head_is_what_hubs_read() -> None:
    read = head(render_card(card()))
    assert read["library_name"] == "regard"
    assert read["pipeline_tag"] == "translation"
    assert read["metrics"] == ["bleu", "ter"]
    (index,) = read["model-index"]
    assert index["name"] == "Pocket: English–German"
    first, second = index["results"]
    assert first["dataset"] == {"type": "test", "name": "test"}
    assert second["dataset"] == {"type": "new-set", "name": "new set"}
    assert first["metrics"][0] == {
        "type": "bleu",
        "name": "BLEU",
        "value": 97.125,
        "args": {"signature": SIGNATURE, "low": 96.2, "high": 97.9},
        "verified": False,
    }
    assert first["metrics"][1]["args"] == {"signature": SIGNATURE}


def test_the_body_tells_everything() -> None:
    page = body(render_card(card()))
    for text in (
        *("<h1>Pocket: English–German</h1>", "97.1", "96.2 to 97.9", SIGNATURE, "lower", "20,000", "1,482,240"),
        *("1.7 minutes of training on 2 cores.", "Knows 412 words.", "train.tsv:17: too long", "Unit: word"),
        *("regard predict runs/demo", "regard.load", "task: translation"),
    ):
        assert text in page, text
    assert page.count("<tr>") == 4
    assert page.count("<td") == 3 * 6


def test_commands_can_be_pasted() -> None:
    text = render_card(card(run="my runs/$x", example="it's `so` $HOME"))
    command = re.search(r"`{3,}sh\n(.*?)\n`{3,}", text, re.DOTALL)[1]
    words = shlex.split(command)
    assert words[2] == "it's `so` $HOME"
    assert words[-1] == "my runs/$x"
    python = re.search(r"`{3,}python\n(.*?)\n`{3,}", text, re.DOTALL)[1]
    compile(python, "card", "exec")


def test_a_card_of_nothing_says_what_is_missing() -> None:
    text = render_card(CardData(name="x", task="inflection", run="r"))
    assert "model-index" not in head(text)
    for sentence in (
        *("The model has not been evaluated yet.", "Not measured.", "Not recorded."),
        "Not examined beyond the scores above.",
    ):
        assert sentence in text
    assert "Nothing was skipped" not in text
    assert "Nothing was skipped or cut." in render_card(card(skipped=[]))
    assert "30 seconds of training on unknown hardware." in render_card(card(minutes=0.5, hardware=""))


def test_infinite_scores_stay_out_of_the_head() -> None:
    read = head(
        render_card(card(scores=[entry("test", "perplexity (teacher-forced)", math.inf), entry("test", "exact", 1.0)]))
    )
    assert read["metrics"] == ["exact_match"]


@pytest.mark.parametrize(
    "text",
    [
        *(
            "<script>alert(1)</script>",
            "[a](http://x)",
            "*a* _b_ `c` ~~d~~",
            "a | b",
            "# h",
            "- item",
            "1. item",
            "12) x",
        ),
        *("+ x", "&lt;", "\\*", "$x$", "= ==", "> quote", "![i](x)", "a\n# b", "***"),
    ],
)
def test_markdown_of_users_is_text(text: str) -> None:
    rendered = MarkdownIt("gfm-like", {"linkify": False}).render(f"- {markdown(text)}")
    plain = (
        text.replace("\n", " ").replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
    )
    assert rendered == f"<ul>\n<li>{plain}</li>\n</ul>\n"


def test_fences_are_longer_than_those_inside() -> None:
    assert fenced("a\n```\nb", "yaml") == "````yaml\na\n```\nb\n````"
    assert fenced("a\n") == "```\na\n```"
