"""The page of a sweep: every value is drawn where it belongs, and nothing of a user's text is obeyed."""

import math
import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import pytest

from regard.metrics.spread import spread
from regard.report.spreads import SpreadRow, SpreadTable, render_spreads, spread_chart

SVG = "{http://www.w3.org/2000/svg}"
ROWS = [
    SpreadRow(name="a=<script>", cells=[spread([1.0, 2.0, 3.0]), spread([7.0])], chosen=True),
    SpreadRow(name="b", cells=[spread([4.0, 5.0, 6.0]), spread([math.inf, 1.0])]),
    SpreadRow(name="c", cells=[None, None]),
]
TABLE = SpreadTable(title="T & t", place="runs/x", columns=["loss", "BLEU"], rows=ROWS, notes=["<i>"])


def test_values_lie_in_order_and_the_interval_around_their_mean() -> None:
    root = ElementTree.fromstring(spread_chart(TABLE, 0))
    places = [float(circle.attrib["cx"]) for circle in root.iter(f"{SVG}circle")]
    assert len(places) == 6
    steps = [later - earlier for earlier, later in pairwise(places)]
    assert steps == pytest.approx([steps[0]] * 5, abs=0.2)
    bars = [line for line in root.iter(f"{SVG}line") if "rg-line" in line.attrib["class"]]
    (low, high), mean = (float(bars[0].attrib[end]) for end in ("x1", "x2")), float(bars[1].attrib["x1"])
    assert (low + high) / 2 == pytest.approx(mean, abs=0.2)
    assert (high - low) / 2 / steps[0] == pytest.approx(4.30265 / math.sqrt(3), abs=0.02)


def test_what_is_not_finite_or_missing_is_not_drawn() -> None:
    root = ElementTree.fromstring(spread_chart(TABLE, 1))
    assert len(list(root.iter(f"{SVG}circle"))) == 1
    empty = SpreadTable(title="T", place="x", columns=["loss"], rows=[ROWS[2]])
    assert "no run has ended" in spread_chart(empty, 0)


def test_the_page_escapes_what_users_write() -> None:
    page = render_spreads(TABLE)
    assert "<script" not in page
    assert "a=&lt;script&gt;" in page
    assert "T &amp; t" in page
    assert "&lt;i&gt;" in page
    assert page.count("chosen by validation") == 1
    assert "default-src 'none'" in page
