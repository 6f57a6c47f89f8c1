"""The page of what is promised: written from what tests counted, and a row is held only if all of it is there."""

import json
import re
from pathlib import Path

import pytest
import reliability
from reliability import Counted, Outcome, counted, judged, outcomes, page, rows_of
from reliability_plan import EXIT_CODES, PROMISES, ROWS, Row

from regard import errors
from regard.training.interrupt import SIGNALS, Interrupted

ROOT = Path(__file__).parents[2]
ROW = Row(name="R5", tried="two", holds="one", asked={"refused": 20, "recovered": 3})
SOURCE = """
def tried(tally):
    tally("R2b", states=1)

def test_one(tally):
    tally("R2a", kills=3)

def test_through_another(tmp_path, tally):
    tried(tally)

def test_none(tmp_path):
    pass
"""


def test_the_page_is_what_the_script_makes_of_the_figures() -> None:
    record = json.loads((ROOT / "docs/reliability.json").read_text(encoding="utf-8"))
    assert (ROOT / "docs/reliability.md").read_text(encoding="utf-8") == page(record)


@pytest.mark.parametrize(
    ("entry", "verdict"),
    [
        (None, "not run"),
        (Counted(skipped=4), "not run"),
        (Counted(counts={"refused": 20, "recovered": 3}, passed=2), "held"),
        (Counted(counts={"refused": 21, "recovered": 9, "more": 1}, passed=1, skipped=1), "held"),
        (Counted(counts={"refused": 20, "recovered": 3}, passed=2, failed=1), "failed: 1 of 3 tests"),
        (Counted(counts={"refused": 19, "recovered": 3}, passed=2), "too few: refused"),
        (Counted(counts={}, passed=2), "too few: refused, recovered"),
    ],
)
def test_a_row_is_held_only_if_all_of_it_is_there(entry: Counted | None, verdict: str) -> None:
    assert judged(ROW, entry) == verdict


def test_a_test_counts_for_the_rows_it_names() -> None:
    both = {"R2a", "R2b"}
    assert rows_of(SOURCE) == {"": both, "test_one": {"R2a"}, "test_through_another": both, "test_none": set()}


def test_counts_add_up_and_a_failure_has_its_row() -> None:
    file = "tests/reliability/test_x.py"
    tests = [
        Outcome(file, "test_one[0]", "passed", 1.5),
        Outcome(file, "test_one[1]", "passed", 2.0),
        Outcome(file, "test_through_another", "failed", 1.0),
        Outcome(file, "test_none", "passed", 0.2),
    ]
    records = [{"plan": "R2a", "counts": {"kills": 50}}, {"plan": "R2a", "counts": {"kills": 150, "others": 1}}]
    assert counted(tests, records, {file: SOURCE}) == {
        "R2a": Counted(counts={"kills": 200, "others": 1}, passed=2, failed=1, seconds=4.5),
        "R2b": Counted(failed=1, seconds=1.0),
        "other": Counted(passed=1, seconds=0.2),
    }


def test_the_report_of_pytest_is_read(tmp_path: Path) -> None:
    (tmp_path / "junit.xml").write_text(
        "<testsuites><testsuite>"
        '<testcase classname="tests.reliability.test_x" name="test_a[1]" time="1.5"/>'
        '<testcase classname="tests.reliability.test_x" name="test_b" time="0.5"><failure message="no"/></testcase>'
        '<testcase classname="tests.reliability.test_x" name="test_c" time="0"><error message="no"/></testcase>'
        '<testcase classname="tests.reliability.test_x" name="test_d" time="0"><skipped/></testcase>'
        "</testsuite></testsuites>"
    )
    file = "tests/reliability/test_x.py"
    assert outcomes(tmp_path / "junit.xml") == [
        Outcome(file, "test_a[1]", "passed", 1.5),
        Outcome(file, "test_b", "failed", 0.5),
        Outcome(file, "test_c", "failed", 0.0),
        Outcome(file, "test_d", "skipped", 0.0),
    ]


def test_the_plan_is_whole() -> None:
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names)
    assert all(row.asked and all(asked > 0 for asked in row.asked.values()) for row in ROWS)
    assert [promise.name for promise in PROMISES] == [f"P{number}" for number in range(1, 8)]
    assert {name for promise in PROMISES for name in promise.rows} <= set(names)


def test_tests_name_only_rows_of_the_plan() -> None:
    names = {row.name for row in ROWS}
    for path in (ROOT / reliability.TESTS).rglob("test_*.py"):
        assert rows_of(path.read_text(encoding="utf-8"))[""] <= names, path


def test_exit_codes_are_those_of_the_errors() -> None:
    codes = {int(code) for key in EXIT_CODES for code in re.findall(r"\d+", key)}
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    assert codes == {
        0,
        *(each.exit_code for each in classes),
        *(Interrupted(number, 1).exit_code for number in SIGNALS),
    }


def test_figures_and_page_are_written(tmp_path: Path) -> None:
    entry = Counted(counts={"damages_detected": 302}, passed=2, skipped=1, seconds=12.3)
    reliability.write({"R4": entry}, tmp_path)
    text = (tmp_path / "docs/reliability.md").read_text(encoding="utf-8")
    assert "| 300 damages detected | 302 damages detected | 2 passed, 1 skipped | 12 | **held** |" in text
    assert "1 are held" in text
    assert (
        "**Damage is noticed.** A damaged checkpoint is told, set aside and never used; the one before it is." in text
    )
    assert "Rows R4: held." in text
    assert "Rows R6: not shown yet by this run: R6." in text
    assert text == page(json.loads((tmp_path / "docs/reliability.json").read_text(encoding="utf-8")))
