"""Line charts: ticks, thinning, places of points."""

import math
import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.report import Chart, Series, line_chart
from regard.report.curves import HEIGHT, MOST_POINTS, WIDTH, nice_ticks, short_number, thinned

SVG = "{http://www.w3.org/2000/svg}"


def root(chart: Chart, *, standalone: bool = False) -> ElementTree.Element:
    return ElementTree.fromstring(line_chart(chart, standalone=standalone).encode())


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 10, [0, 2, 4, 6, 8, 10]),
        (0.3, 6.9, [2, 4, 6]),
        (0, 0.001, [0, 0.0002, 0.0004, 0.0006, 0.0008, 0.001]),
        (38, 97, [40, 60, 80]),
        (-1, 1, [-1, -0.5, 0, 0.5, 1]),
    ],
)
def test_ticks_are_round(low: float, high: float, expected: list[float]) -> None:
    assert nice_ticks(low, high) == pytest.approx(expected)


@given(st.floats(-1e3, 1e3), st.floats(1e-3, 1e9))
def test_ticks_are_inside_equally_spaced_and_few(low: float, size: float) -> None:
    ticks = nice_ticks(low, low + size)
    step = ticks[1] - ticks[0] if len(ticks) > 1 else size
    assert 2 <= len(ticks) <= 6
    assert all(low - 1e-6 * step <= tick <= low + size + 1e-6 * step for tick in ticks)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (2000, "2000"), (12000, "12k"), (2.5e6, "2.5M"), (3e9, "3G"), (0.1 + 0.2, "0.3"), (0.0007, "0.0007")],
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert short_number(value) == text


def test_thinning_keeps_the_mean_and_the_last_point() -> None:
    points = [(float(step), float(step % 2)) for step in range(10_001)]
    few = thinned(points)
    assert len(few) <= MOST_POINTS
    assert few[-1] == points[-1]
    assert all(y == pytest.approx(0.5, abs=0.02) for _, y in few[:-2])
    assert thinned(points[:5]) == points[:5]


def test_points_lie_where_their_values_say() -> None:
    chart = Chart(title="Loss", series=[Series(name="loss", points=[(0, 4.0), (50, 2.0), (100, 1.0)])])
    circles = [circle for circle in root(chart).iter(f"{SVG}circle") if circle.get("class") == "rg-hover"]
    xs, ys = ([float(circle.get(name)) for circle in circles] for name in ("cx", "cy"))
    assert xs[1] - xs[0] == pytest.approx(xs[2] - xs[1], abs=0.2)
    assert ys[1] - ys[0] == pytest.approx(2 * (ys[2] - ys[1]), abs=0.3)
    assert [circle.find(f"{SVG}title").text for circle in circles][1] == "step 50 · loss 2"


def test_names_are_escaped_and_shown_in_the_legend() -> None:
    series = [Series(name=name, points=[(1, 1.0), (2, 2.0)]) for name in ('<a href="x">', "b & c")]
    element = root(Chart(title="<script>", series=series, mark=(2, "<best>")), standalone=True)
    texts = [text.text for text in element.iter(f"{SVG}text")]
    assert {"<script>", '<a href="x">', "b & c", "<best>"} <= set(texts)
    assert element.find(f"{SVG}style") is not None
    assert element.get("aria-label") == '<script>: <a href="x"> ends at 2; b & c ends at 2'


values = st.floats(-1e30, 1e30) | st.sampled_from([math.nan, math.inf, 0.0])


@given(st.lists(st.lists(st.tuples(st.integers(0, 10**7), values), max_size=20), max_size=3), st.booleans())
def test_whatever_the_points_everything_is_drawn_inside(lines: list[list[tuple[int, float]]], zero: bool) -> None:
    series = [Series(name=str(number), points=points, dots=True) for number, points in enumerate(lines)]
    element = root(Chart(title="x", series=series, from_zero=zero))
    for circle in element.iter(f"{SVG}circle"):
        assert 0 <= float(circle.get("cx")) <= WIDTH
        assert 0 <= float(circle.get("cy")) <= HEIGHT


def test_a_chart_without_points_says_so() -> None:
    assert "no points yet" in line_chart(Chart(title="Loss", series=[]))
    assert "no points yet" in line_chart(Chart(title="Loss", series=[Series(name="a", points=[(1, math.nan)])]))
