"""The ledger counts everything, keeps what it must, and comes back from disk as it was."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data import Finding, Ledger, Place
from regard.data.excerpt import excerpt
from regard.errors import DataError

TEXT = st.text(alphabet="ab\\\t\n\r\u2028é", max_size=8)
NAME = TEXT.filter(bool)


def filled(rows: list[tuple[str, str, int, str]], keep: int) -> Ledger:
    ledger = Ledger(keep=keep)
    for kind, file, line, detail in rows:
        ledger.add(kind, Place(file, line), detail)
    return ledger


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(NAME, NAME, st.integers(1, 10**9), TEXT), max_size=12), st.integers(0, 5))
def test_write_and_read_are_inverse(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, int, str]], keep: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "ledger.tsv"
    ledger = filled(rows, keep)
    ledger.write(path)
    again = Ledger.read(path)
    assert again.counts == ledger.counts
    assert all(again.findings(kind) == ledger.findings(kind) for kind in ledger.counts)


def test_all_are_counted_and_the_first_are_kept() -> None:
    ledger = filled([("utf8", "a.tsv", number, "bad") for number in range(1, 8)], keep=3)
    assert ledger.counts == {"utf8": 7}
    assert ledger.total == 7
    assert [finding.place.line for finding in ledger.findings("utf8")] == [1, 2, 3]
    assert ledger.findings("other") == ()
    assert ledger.summary(places=2) == "lines that are not UTF-8, skipped: 7 (a.tsv:1, a.tsv:2, …)"


def test_summary_of_one_of_none_and_of_an_own_kind() -> None:
    assert Ledger().summary() == ""
    assert filled([("odd_thing", "f", 3, "")], keep=9).summary() == "odd thing: 1 (f:3)"
    ledger = Ledger()
    ledger.add_unlisted("cut", 1200)
    assert ledger.summary() == "sides longer than the limit, cut: 1,200"


def test_since_and_include_divide_and_join() -> None:
    ledger = filled([("a", "f", 1, "x"), ("b", "f", 2, "y")], keep=2)
    before = ledger.counts
    for line in (3, 4):
        ledger.add("a", Place("f", line), "z")
    ledger.add("c", Place("f", 5), "w")
    later = ledger.since(before)
    assert later.counts == {"a": 2, "c": 1}
    assert later.findings("a") == (Finding("a", Place("f", 3), "z"),)
    joined = filled([("a", "f", 1, "x"), ("b", "f", 2, "y")], keep=2)
    joined.include(later)
    assert joined.counts == ledger.counts
    assert joined.findings("a") == ledger.findings("a")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", ":1: not a list of findings; its first line must be"),
        ("kind\tfile\tline\tdetail\nutf8\tf\tx\td\n", ":2: not a finding (kind, file, line, detail): utf8"),
        ("kind\tfile\tline\tdetail\nutf8\n", ":2: not a finding"),
        ("kind\tfile\tline\tdetail\nutf8\t\t0\tmany more\n", ":2: not a finding"),
    ],
)
def test_a_damaged_list_is_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "ledger.tsv"
    path.write_text(content)
    with pytest.raises(DataError) as caught:
        Ledger.read(path)
    assert str(caught.value).startswith(f"{path}{message}")


def test_a_missing_list_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the list of findings cannot be read: No such file or directory"):
        Ledger.read(tmp_path / "none.tsv")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ü", "plain ü"),
        ("a\tb\x1b[31m", "a\\tb\\x1b[31m"),
        ("\u202eabc\u2028\U000e0001", "\\u202eabc\\u2028\\U000e0001"),
        ("x" * 61, "x" * 60 + "…"),
        ("x" * 60, "x" * 60),
        ("\ud800", "\\ud800"),
    ],
)
def test_excerpts_are_safe_to_print(text: str, shown: str) -> None:
    assert excerpt(text) == shown
