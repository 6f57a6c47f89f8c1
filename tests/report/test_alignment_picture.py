"""Alignment pictures: SVG, page and terminal, with text of any script and of any intent."""

import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import UsageError
from regard.report import AlignmentPicture, display_width, to_html, to_svg, to_text
from regard.report.markup import content_hash

SVG = "{http://www.w3.org/2000/svg}"
SOURCE = ["the", "cat", "sleeps", "<b>", "."]
TARGET = ["die", "Katze", "schläft", '"&"', "."]


def picture(**changes: object) -> AlignmentPicture:
    weights = np.full((5, 5), 0.02) + np.eye(5) * 0.9
    values = {
        "source": SOURCE,
        "target": TARGET,
        "weights": weights,
        "gold": frozenset({(1, 1), (0, 1)}),
        "title": "a <i>",
    }
    return AlignmentPicture(**(values | changes))  # type: ignore[arg-type]


def random_picture(source: list[str], target: list[str], gold: bool, title: str) -> AlignmentPicture:
    weights = np.random.default_rng(0).dirichlet(np.full(len(source), 0.3), size=len(target))
    links = frozenset({(0, 0), (len(source) - 1, len(target) - 1)}) if gold else None
    return AlignmentPicture(source=source, target=target, weights=weights, gold=links, title=title)


words = st.lists(st.text(max_size=12), min_size=1, max_size=9)


class Elements(HTMLParser):
    """Tags, attributes and text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_svg_holds_every_word_every_value_and_the_gold_links() -> None:
    root = ElementTree.fromstring(to_svg(picture()))
    labels = list(root.iter(f"{SVG}text"))
    assert [label.find(f"{SVG}title").text for label in labels] == SOURCE + TARGET
    cells = [element for element in root.iter(f"{SVG}rect") if element.get("class") == "rg-cell"]
    assert len(cells) == 25
    notes = [cell.find(f"{SVG}title").text for cell in cells]
    assert "Katze ← cat: 0.920 (true link)" in notes
    assert "Katze ← the: 0.020 (true link)" in notes
    assert "die ← cat: 0.020" in notes
    assert sum(element.get("class") == "rg-gold" for element in root.iter(f"{SVG}rect")) == 2
    strong = next(cell for cell in cells if (cell.get("data-row"), cell.get("data-column")) == ("1", "1"))
    assert float(strong.get("fill-opacity")) == pytest.approx(0.92)
    assert "prefers-color-scheme:dark" in root.find(f"{SVG}style").text


@given(words, words, st.booleans(), st.text(max_size=20))
def test_svg_is_xml_and_all_cells_lie_inside_whatever_the_words_are(
    source: list[str], target: list[str], gold: bool, title: str
) -> None:
    root = ElementTree.fromstring(to_svg(random_picture(source, target, gold, title)).encode())
    width, height = float(root.get("width")), float(root.get("height"))
    rectangles = list(root.iter(f"{SVG}rect"))
    outlined = sum(rectangle.get("class") == "rg-gold" for rectangle in rectangles)
    assert outlined == (len({(0, 0), (len(source) - 1, len(target) - 1)}) if gold else 0)
    assert len(rectangles) == 1 + len(source) * len(target) + outlined
    for rectangle in rectangles:
        x, y, w, h = (float(rectangle.get(name)) for name in ("x", "y", "width", "height"))
        assert x >= 0
        assert y >= 0
        assert x + w <= width
        assert y + h <= height


def test_long_words_are_shortened_and_told_whole_on_hover() -> None:
    word = "Donaudampfschifffahrtsgesellschaft"
    root = ElementTree.fromstring(to_svg(picture(target=["die", word, "schläft", "x", "."])))
    label = next(label for label in root.iter(f"{SVG}text") if label.find(f"{SVG}title").text == word)
    assert label.find(f"{SVG}title").tail == "Donaudampfschifffahrtsg…"


def test_weights_outside_of_0_and_1_are_drawn_as_the_nearest() -> None:
    weights = np.array([[1.5, -0.5]])
    root = ElementTree.fromstring(to_svg(AlignmentPicture(source=["a", "b"], target=["c"], weights=weights)))
    cells = [element for element in root.iter(f"{SVG}rect") if element.get("class") == "rg-cell"]
    assert [cell.get("fill-opacity") for cell in cells] == ["1.000", "0.000"]
    assert cells[1].find(f"{SVG}title").text == "c ← b: -0.500"


def test_the_page_is_closed_to_everything_but_its_own_style_and_script() -> None:
    page = to_html(picture(title="</title><script>alert(1)</script>"))
    elements = Elements(page)
    names = [tag for tag, _ in elements.tags]
    assert names.count("script") == 1
    assert "b" not in names
    assert not [attrs for _, attrs in elements.tags if "style" in attrs or any(key.startswith("on") for key in attrs)]
    assert not re.findall(r"(?:src|href|url\()\s*=?\s*[\"'(]?(?:https?:)?//", page)
    rules = next(attrs["content"] for _, attrs in elements.tags if attrs.get("http-equiv"))
    style, script = (re.search(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)[1] for tag in ("style", "script"))
    assert rules.startswith("default-src 'none'; ")
    assert f"style-src {content_hash(style)};" in rules
    assert f"script-src {content_hash(script)};" in rules
    assert "Katze ← cat 0.92" in elements.texts
    assert sum("tabindex" in attrs for _, attrs in elements.tags) == 10


def test_content_hash_is_the_published_example_of_the_policy_standard() -> None:
    """From the section on hashes in Content Security Policy Level 2."""
    assert content_hash("alert('Hello, world.');") == "'sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng='"


def test_text_with_words_as_heads() -> None:
    lines = to_text(picture(gold=None, title=""), 80).splitlines()
    assert lines[0].split() == SOURCE
    assert lines[2].startswith("Katze   ")
    assert lines[2].index("██") == lines[0].index("cat")
    assert "Katze   ← cat 0.92" in lines


def test_text_marks_gold_links() -> None:
    text = to_text(picture(), 80)
    assert "[██]" in text
    assert "[  ]" in text
    assert "Katze   ← cat 0.92 ✓" in text
    assert "die     ← the 0.92\n" in text


def test_text_falls_back_to_numbers_and_then_to_the_list() -> None:
    source = [f"source{number}" for number in range(9)]
    wide = AlignmentPicture(source=source, target=["ja"], weights=np.full((1, 9), 0.05) + 0.5 * np.eye(1, 9, 3))
    assert "source8" in to_text(wide, 80).splitlines()[0]
    numbered = to_text(wide, 40).splitlines()
    assert numbered[0].split() == list("123456789")
    assert numbered[1].index("▓▓") == numbered[0].index("4")
    assert any("4 source3" in line for line in numbered)
    assert to_text(wide, 25) == "ja ← source3 0.55\n"


def test_wide_characters_take_two_columns() -> None:
    japanese = AlignmentPicture(
        source=["私", "は", "猫"], target=["I", "cat"], weights=np.array([[1.0, 0, 0], [0, 0, 1]])
    )
    head, first, second = to_text(japanese, 40).splitlines()[:3]
    column = display_width(second[: second.index("██")])
    assert column == display_width(head[: head.index("猫")])
    assert display_width(first[: first.index("██")]) == display_width(head[: head.index("私")])


@given(words, words, st.booleans(), st.text(max_size=90), st.integers(20, 90))
def test_no_line_is_too_wide_and_nothing_is_obeyed(
    source: list[str], target: list[str], gold: bool, title: str, width: int
) -> None:
    text = to_text(random_picture(source, target, gold, title), width)
    assert all(display_width(line) <= width for line in text.split("\n"))
    assert "\x1b" not in text
    assert "\r" not in text
    assert text.count("←") >= len(target)


def test_colour_adds_nothing_but_colour() -> None:
    plain, coloured = (to_text(picture(), 60, colour=colour) for colour in (False, True))
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[\d+m", "", coloured) == plain


@pytest.mark.parametrize(
    ("text", "width"),
    [("abc", 3), ("日本", 4), ("ｱ", 1), ("Ａ", 2), ("e\u0301", 1), ("\u200b", 0), ("한", 2), ("שלום", 4), ("", 0)],
)
def test_display_width(text: str, width: int) -> None:
    assert display_width(text) == width


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"source": []}, "needs words on both sides; there are 0 source and 5 target words"),
        ({"weights": np.zeros((5, 4))}, r"have the shape \(5, 4\); 5 target words and 5 source words need \(5, 5\)"),
        ({"weights": np.full((5, 5), np.nan)}, "must be finite numbers"),
        ({"gold": frozenset({(5, 0)})}, "gold link 5-0 lies outside of 5 source and 5 target words"),
        ({"gold": frozenset({(0, -1)})}, "gold link 0--1 lies outside"),
    ],
)
def test_pictures_that_cannot_be_drawn_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        picture(**changes)


def test_a_terminal_that_is_too_narrow_is_refused() -> None:
    with pytest.raises(UsageError, match="width = 19: an alignment needs 20 columns or more"):
        to_text(picture(), 19)


def test_a_picture_prints_plots_and_shows_itself(tmp_path: Path) -> None:
    picture = AlignmentPicture(source=["the", "cat"], target=["Katze"], weights=np.array([[0.1, 0.9]]))
    assert "Katze ← cat 0.90" in str(picture)
    assert picture.plot(tmp_path / "a.svg") == (tmp_path / "a.svg").read_text(encoding="utf-8") == picture._repr_svg_()
    assert picture.plot().startswith("<svg")
