"""`regard data check`: every kind is found where it is, and nothing is found where there is nothing."""

import json
import random
from pathlib import Path

import pytest

from regard.data import CheckReport, FileReport, check_files, render
from regard.data.check import split_argument
from regard.data.checkreport import KINDS
from regard.data.suspicion import Scripts, SideWords, odd_in
from regard.errors import UsageError

ENGLISH = "the cat sat on a mat while it was raining and she did not see them because of this"
GERMAN = "die Katze saß auf der Matte während es regnete und sie sah ihn nicht wegen diesem Wetter heute"


def clean(n: int, seed: int = 0) -> list[tuple[str, str]]:
    draw = random.Random(seed)
    return [
        (f"{' '.join(draw.choices(ENGLISH.split(), k=8))} {n}", f"{' '.join(draw.choices(GERMAN.split(), k=8))} {n}")
        for n in range(n)
    ]


def write(path: Path, rows: list[tuple[str, str]]) -> str:
    path.write_bytes("".join(f"{source}\t{target}\n" for source, target in rows).encode())
    return str(path)


def found(report: FileReport) -> dict[str, list[int]]:
    return {issue.kind: [finding.place.line for finding in issue.first] for issue in report.issues}


def test_a_clean_file_has_no_issues(tmp_path: Path) -> None:
    report = check_files([write(tmp_path / "a.tsv", clean(300))])
    (file,) = report.files
    assert found(file) == {}
    assert report.ok
    assert (file.lines, file.examples, file.format) == (300, 300, "tsv")
    assert [side.script for side in file.sides] == ["Latin", "Latin"]
    assert "nothing odd" in render(report)
    assert render(report).endswith("Nothing here keeps a model from being trained.")


@pytest.mark.parametrize(
    ("kind", "source", "target"),
    [
        ("empty", "something", ""),
        ("empty", "  ", "etwas"),
        ("same", "take away", "take away"),
        ("ratio", "a" * 200, "b"),
        ("ratio", "a b", "b c d e f " * 20 + "g"),
        ("script", "кошка сидит", "die Katze"),
        ("script", "the cat", "猫が座る"),
        ("exchanged", "die Katze saß auf der Matte", "the cat sat on a mat while"),
        ("entity", "fish &amp; chips", "Fisch"),
        ("entity", "it&#39;s", "es"),
        ("markup", "a <b>bold</b> word", "ein Wort"),
        ("mojibake", "caf\u00c3\u00a9", "Kaffee"),
        ("mojibake", "it\u00e2\u20ac\u2122s", "es"),
        ("mojibake", "gro\u00c3\u0178", "big"),
        ("mojibake", "привет".encode().decode("latin1"), "hi"),
        ("mojibake", "don’t".encode().decode("latin1"), "nicht"),
        ("replacement", "caf\ufffd", "Kaffee"),
        ("nul", "a\0b", "ab"),
        ("control", "a\x1bb", "ab"),
        ("direction", "a\u202eb", "ab"),
        ("invisible", "a\u200bb", "ab"),
        ("separator", "a\u2028b", "ab"),
        ("spaces", " a", "b"),
        ("spaces", "a", "b  c"),
        ("not_nfc", "u\u0308ber", "over"),
    ],
)
def test_each_kind_is_found_in_its_line(tmp_path: Path, kind: str, source: str, target: str) -> None:
    rows = clean(200)
    rows[136] = (source, target)
    report = check_files([write(tmp_path / "a.tsv", rows)])
    assert found(report.files[0])[kind] == [137]
    assert report.ok == (KINDS[kind][0] != "error")
    assert KINDS[kind][1][:30] in render(report, width=200)


@pytest.mark.parametrize(
    "text",
    [
        "Ärger über Öl",
        "R&D; costs",
        "a < b > c",
        "São João",
        "naïve — “quoted”",
        "Â la carte",
        "naïf Ã",
        "x &c. y",
        "é",
    ],
)
def test_honest_texts_are_not_suspected(text: str) -> None:
    assert odd_in(text) == []


def test_duplicates_and_several_targets(tmp_path: Path) -> None:
    rows = [("a", "1"), ("b", "1"), ("a", "1"), ("a", "2"), ("a", "1"), ("c", "3"), ("b", "1")]
    file = check_files([write(tmp_path / "a.tsv", rows)]).files[0]
    assert found(file) == {"duplicate": [3, 5, 7], "several": [1], "few": [1]}
    details = {issue.kind: [finding.detail for finding in issue.first] for issue in file.issues}
    assert details["duplicate"] == ["as line 1", "as line 1", "as line 2"]


def test_counts_go_on_where_places_end(tmp_path: Path) -> None:
    file = check_files([write(tmp_path / "a.tsv", [("a", "b")] * 1000)]).files[0]
    issue = next(issue for issue in file.issues if issue.kind == "duplicate")
    assert (issue.count, len(issue.first)) == (999, 5)


def test_overlap_between_files(tmp_path: Path) -> None:
    train = write(tmp_path / "train.tsv", [("a", "1"), ("b", "2"), ("c", "3")])
    test = write(tmp_path / "test.tsv", [("x", "1"), ("b", "2"), ("c", "4"), ("b", "2")])
    other = write(tmp_path / "other.tsv", [("z", "1")])
    report = check_files([train, test, other])
    assert [(overlap.pairs, overlap.sources) for overlap in report.overlaps] == [(2, 3), (0, 0), (0, 0)]
    assert [(finding.place.line, finding.detail) for finding in report.overlaps[0].places] == [
        (2, "pair"),
        (3, "source"),
        (4, "pair"),
    ]
    text = render(report, width=200)
    assert "in both: pairs 2, sources 3\n    line 2; line 3; line 4\n" in text
    assert "looks better than it is" in text
    assert "no source in common" in text


def test_bad_lines_are_counted_and_the_rest_is_still_checked(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes(b"\xef\xbb\xbfa b\tb\r\nx\n\xff\ty\n\nlong one\td\r\n")
    report = check_files([str(path)])
    (file,) = report.files
    assert found(file) == {"columns": [2], "utf8": [3], "crlf": [1, 5], "bom": [1], "blank": [4], "few": [1]}
    assert (file.lines, file.examples, file.ok, report.ok) == (5, 2, False, False)
    assert (file.sides[0].characters.minimum, file.sides[0].characters.maximum) == (3, 8)
    assert (file.sides[0].words.median, file.sides[1].words.maximum) == (2.0, 1)
    assert "Training stops at lines that cannot be read: mend them, or set data.bad_lines: skip." in render(report, 99)


def told(path: Path, rows: list[tuple[str, str]]) -> list[str]:
    """What a report ends with."""
    text = render(check_files([write(path, rows)]), 200)
    return text.split("\n\n")[-1].split("\n")


NOTHING = "Nothing here keeps a model from being trained."


@pytest.mark.parametrize(
    ("rows", "advice"),
    [
        ([], [NOTHING]),
        ([("a", "")], ["Training stops at empty sides: fill them, or set data.empty_lines: skip."]),
        ([("x" * 3000, "y" * 2000)], [NOTHING, "A side of more than data.max_length tokens is left out, unless"]),
        ([("caf\u00c3\u00a9", "Kaffee")], [NOTHING, "Convert the file again from its first encoding: letters are"]),
        ([("a b", "a b")], [NOTHING, "Look at the pairs named above: they may not be translations."]),
        (clean(1), [NOTHING, "Take out pairs that stand there twice: they count double, in training and in tests."]),
        (
            [("a", ""), ("one", "one"), *clean(1)],
            ["Training stops at empty sides", "Look at the pairs named above", "Take out pairs that stand there twice"],
        ),
    ],
    ids=["clean", "empty", "long", "mojibake", "same", "duplicate", "several at once"],
)
def test_a_report_ends_with_what_there_is_to_do(tmp_path: Path, rows: list[tuple[str, str]], advice: list[str]) -> None:
    lines = told(tmp_path / "a.tsv", [*clean(1), *clean(60, seed=3), *rows])
    assert len(lines) == len(advice)
    assert all(line.startswith(start) for line, start in zip(lines, advice, strict=True))


def test_pairs_in_two_files_and_files_that_cannot_be_read_are_advised_on(tmp_path: Path) -> None:
    train = write(tmp_path / "train.tsv", clean(30))
    both = render(check_files([train, write(tmp_path / "test.tsv", clean(9)[3:])]), 200)
    assert both.endswith(f"{NOTHING}\nTake pairs that are in two files out of one of them.")
    broken = render(check_files([train, str(tmp_path / "none.tsv")]), 200)
    assert broken.endswith("\n\nA file cannot be used as it is: see above what is wrong with it.")


@pytest.mark.parametrize(("different", "few"), [(1, True), (4, True), (5, False)])
def test_too_few_sources_to_split_are_told(tmp_path: Path, different: int, few: bool) -> None:
    rows = [(f"source {number % different}", f"target {number}") for number in range(40)]
    report = check_files([write(tmp_path / "a.tsv", rows)])
    assert ("few" in found(report.files[0])) == few
    text = render(report, 200)
    assert (f"line 1 ({different} of at least 5)" in text) == few
    assert ("Give data.valid and data.test, or more data: at least 5 different sources" in text) == few
    assert report.ok


@pytest.mark.parametrize("count", [12, 200])
def test_single_sides_that_are_far_too_long_are_told(tmp_path: Path, count: int) -> None:
    rows = clean(count)
    rows[7] = ("the " * 900, "die " * 901)
    report = check_files([write(tmp_path / "a.tsv", rows)])
    (issue,) = (issue for issue in report.files[0].issues if issue.kind == "long")
    assert [str(finding.place) for finding in issue.first] == [f"{tmp_path / 'a.tsv'}:8"] * 2
    assert [finding.detail.split(" ")[:2] for finding in issue.first] == [["source:", "3,600"], ["target:", "3,604"]]
    assert "sides far longer than the others: 2" in render(report)
    even = check_files([write(tmp_path / "b.tsv", [("the " * 900 + str(n), "die " * 900) for n in range(count)])])
    assert "long" not in found(even.files[0])


def test_parallel_files_with_unequal_counts(tmp_path: Path) -> None:
    (tmp_path / "a.en").write_bytes(b"one\ntwo\n")
    (tmp_path / "a.de").write_bytes(b"eins\n")
    report = check_files([f"{tmp_path / 'a.en'},{tmp_path / 'a.de'}"])
    (file,) = report.files
    assert "a.en has 2, " in (file.fault or "")
    assert (file.examples, file.format, report.ok) == (1, "parallel", False)
    assert "cannot be used as it is" in render(report)


def test_places_in_the_second_of_two_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.en").write_bytes(b"one\ntwo\nthree\n")
    (tmp_path / "a.de").write_bytes(b"eins\nzw\xff\ndrei\r\n")
    report = check_files([f"{tmp_path / 'a.en'},{tmp_path / 'a.de'}"])
    places = {issue.kind: str(issue.first[0].place) for issue in report.files[0].issues}
    assert places == {
        "utf8": f"{tmp_path / 'a.de'}:2",
        "crlf": f"{tmp_path / 'a.de'}:3",
        "few": f"{tmp_path / 'a.en'}:1",
    }


def test_format_and_columns_can_be_said(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"x": "a", "y": "b", "z": "c"}\n')
    (file,) = check_files([str(tmp_path / "a.jsonl")], source="x", target="z").files
    assert (file.examples, file.format, file.reason, file.fault) == (1, "jsonl", "as asked for", None)


def test_the_report_is_json(tmp_path: Path) -> None:
    report = check_files([write(tmp_path / "a.tsv", [("a", "a"), ("b", "c")]), str(tmp_path / "none.tsv")])
    data = json.loads(report.to_json())
    assert data["format"] == 1
    assert data["ok"] is False
    assert data["files"][0]["issues"][0]["first"][0]["place"] == {"file": str(tmp_path / "a.tsv"), "line": 1}
    assert data["files"][1]["fault"].endswith("there is no such file. Check the spelling and the folder you are in")


@pytest.mark.parametrize("width", [40, 60, 100])
def test_a_report_fits_its_width(tmp_path: Path, width: int) -> None:
    rows = [*clean(50), ("a\u202e" * 30, ""), ("x" * 500, "y"), *clean(3)]
    folder = tmp_path / ("deep" * 20)
    folder.mkdir()
    report = check_files([write(folder / "a.tsv", rows), write(folder / "b.tsv", rows)])
    lines = [
        line for line in render(report, width).split("\n") if not line.lstrip().startswith(("min", "source", "target"))
    ]
    assert max(map(len, lines)) <= max(width, 50)


def test_arguments(tmp_path: Path) -> None:
    assert split_argument("a.tsv") == ("a.tsv",)
    assert split_argument("a.en,a.de") == ("a.en", "a.de")
    own = tmp_path / "a,b.tsv"
    own.write_text("")
    assert split_argument(str(own)) == (str(own),)
    for wrong in ("a,b,c", "a,"):
        with pytest.raises(UsageError, match=f"{wrong}: two parallel files are written as train.en,train.de"):
            split_argument(wrong)
    with pytest.raises(UsageError, match=r"no file was given: name files of pairs, such as train\.tsv"):
        check_files([])
    with pytest.raises(UsageError, match="standard input cannot be checked"):
        check_files(["-"])


def test_scripts() -> None:
    scripts = Scripts()
    names = [
        scripts.name(scripts.code(text)) for text in ("abc", "über", "кот cat мир", "猫とネコ", "123 !", "ſ", "Ａ")
    ]
    assert names == ["Latin", "Latin", "Cyrillic", "Han and Kana", "", "Latin", "Latin"]


def test_sides_without_telling_words_are_never_called_exchanged() -> None:
    assert not SideWords([("a", "b")] * 100).exchanged("b b", "a a")


def test_an_empty_report_is_fine() -> None:
    assert CheckReport(files=(), overlaps=()).ok
