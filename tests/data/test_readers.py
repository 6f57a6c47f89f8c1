"""Files to examples, format by format."""

import io
import json
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data import BadLine, Ledger, Place, read_examples
from regard.errors import DataError, UsageError

CELL = st.text(alphabet=st.characters(exclude_characters="\t\n\r", exclude_categories=["Cs"]), max_size=10)


def pairs(path: Path | list[Path], **settings: object) -> list[tuple[str, str]]:
    return [(example.source, example.target) for example in read_examples(path, **settings)]  # type: ignore[arg-type]


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(CELL, CELL).filter(lambda pair: pair[0] != ""), min_size=1, max_size=6))
def test_one_text_in_every_format_reads_the_same(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]
) -> None:
    folder = tmp_path_factory.getbasetemp()
    rows = [("x" + source, target) for source, target in rows]
    tsv = write(folder / "a.tsv", "".join(f"{source}\t{target}\n" for source, target in rows))
    jsonl = write(folder / "a.jsonl", "\n".join(json.dumps({"source": s, "target": t}) for s, t in rows))
    left = write(folder / "a.left", "".join(f"{source}\n" for source, _ in rows))
    right = write(folder / "a.right", "".join(f"x{target}\n" for _, target in rows))
    assert pairs(tsv, format="tsv") == rows
    assert pairs(jsonl) == rows
    assert pairs([left, right]) == [(source, "x" + target) for source, target in rows]
    assert pairs([left, right], source=1, target=0) == [("x" + target, source) for source, target in rows]


def test_tsv_columns_by_number_and_by_name(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "id\ten\tde\n1\tcat\tKatze\n2\tdog\tHund\r\n")
    assert pairs(path, format="tsv", source="de", target="en") == [("Katze", "cat"), ("Hund", "dog")]
    assert pairs(path, source="de", target=0) == [("Katze", "1"), ("Hund", "2")]
    assert pairs(path, source=1, target=2)[0] == ("en", "de")
    assert [example.place for example in read_examples(path, source="en", target="de")] == [
        Place(str(path), 2),
        Place(str(path), 3),
    ]


def test_several_files_of_pairs_follow_each_other(tmp_path: Path) -> None:
    first = write(tmp_path / "a.tsv", "a\tb\n")
    second = write(tmp_path / "b.tsv", "c\td\te\n")
    assert pairs([first, second]) == [("a", "b"), ("c", "d")]


@pytest.mark.parametrize(
    ("format", "line"),
    [
        ("sigmorphon2016", "gehen\tV,IND,PST\tging"),
        ("sigmorphon2017", "gehen\tging\tV;IND;PST"),
        ("sigmorphon2023", "gehen\tV;IND;PST\tging"),
    ],
)
def test_the_three_orders_of_inflection(tmp_path: Path, format: str, line: str) -> None:
    path = write(tmp_path / "a.tsv", f"{line}\n\n{line}\n")
    ledger = Ledger()
    assert pairs(path, format=format, ledger=ledger) == [("gehen\tV;IND;PST", "ging")] * 2
    assert ledger.counts == {"blank": 1}
    bad = write(tmp_path / "bad.tsv", f"{line}\n\tx\ty\nx\ty\n")
    with pytest.raises(BadLine, match=r"bad\.tsv:2: no lemma in the line\. Found: \\tx\\ty"):
        pairs(bad, format=format)
    assert len(pairs(bad, format=format, bad_lines="skip", ledger=ledger)) == 1
    assert ledger.counts == {"blank": 1, "lemma": 1, "columns": 1}


def test_inflection_without_features(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "gehen\tging\t\n")
    with pytest.raises(BadLine, match=r"a\.tsv:1: no features in the line"):
        pairs(path, format="sigmorphon2017")


def test_dotted_keys_reach_inside_and_plain_keys_win(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"t": {"en": "inner", "de": "x"}, "t.de": "outer"}')
    assert pairs(path, source="t.en", target="t.de") == [("inner", "outer")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"source": "a"}', "no key 'target'; there are: 'source'. Found: {"),
        ("{}", "no key 'source'; there are: none"),
        ('{"source": null, "target": "b"}', "the value of 'source' must be a string or a number, and is null"),
        ('{"source": true, "target": "b"}', "must be a string or a number, and is true or false"),
        ('{"source": [], "target": "b"}', "must be a string or a number, and is a list"),
        ('{"source": {}, "target": "b"}', "must be a string or a number, and is an object"),
        ('{"source": "a", "target": "b", "source": "c"}', "the key 'source' stands twice in one object"),
        ('{"source": "a", "target": "b", "n": NaN}', "NaN is not JSON"),
        ('{"source": "a", "target": "b", "n": -Infinity}', "-Infinity is not JSON"),
        ('{"source": "a", "target": "b", "n": ' + "[" * 100_000, "nested too deeply"),
        ('{"source": "a", "target": "\\ud800"}', "the value of 'target' holds half of a surrogate pair"),
        ('["a", "b"]', "a JSON object was expected, such as {...}, and found is a list"),
        ('"a"', "and found is a string"),
        ("{'source': 'a'}", "not JSON (Expecting property name enclosed in double quotes at character 2)"),
        ('{"source": "a", "target": "b"} x', "not JSON (Extra data at character 32)"),
        ('{"source": "a", "target": "b", "n": ' + "9" * 5000 + "}", "Exceeds the limit (4300"),
    ],
)
def test_bad_records(tmp_path: Path, line: str, message: str) -> None:
    good = '{"source": "good", "target": "gut", "n": 1' + "0" * 400 + "}"
    path = write(tmp_path / "a.jsonl", f"{good}\n{line}\n{good}\n")
    with pytest.raises(BadLine) as caught:
        pairs(path, source="source", target="target")
    assert str(caught.value).startswith(f"{path}:2: ")
    assert message in str(caught.value)
    assert str(caught.value).endswith("set `data.bad_lines: skip` to leave such lines out and have them listed")
    ledger = Ledger()
    assert pairs(path, bad_lines="skip", ledger=ledger) == [("good", "gut")] * 2
    assert ledger.findings("json")[0].place == Place(str(path), 2)


@pytest.mark.parametrize(
    ("content", "settings", "message"),
    [
        ("a\tb\nc\n", {}, ":2: 1 column separated by tabs, expected at least 2, for source in column 0 and target in"),
        ("a\tb\nc\td\te\n", {}, ":2: 3 columns separated by tabs, expected 2, as in line 1. Found: c\\td\\te"),
        ("a\tb\n", {"source": 5}, ":1: 2 columns separated by tabs, expected at least 6, for source in column 5"),
        ("a\tb\n", {"source": "x"}, ":1: the header has no column 'x'; it has: 'a', 'b'"),
        ("a\ta\n", {"source": "a"}, ":1: the header has more than one column 'a'; it has: 'a', 'a'"),
    ],
)
def test_wrong_columns(tmp_path: Path, content: str, settings: dict[str, object], message: str) -> None:
    path = write(tmp_path / "a.tsv", content)
    with pytest.raises(DataError) as caught:
        pairs(path, format="tsv", **settings)
    assert str(caught.value).startswith(f"{path}{message}")


def test_a_header_that_cannot_be_decoded_is_never_skipped(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", b"s\xff\tt\nt\ts\n")
    with pytest.raises(DataError, match=r"a\.tsv:1: byte 0xFF.*This line is the header, so it cannot be skipped"):
        pairs(path, format="tsv", source="s", target="t", bad_lines="skip")


@pytest.mark.parametrize(
    ("left", "right", "counts", "missing"),
    [(3, 2, (3, 2), "b:3"), (2, 3, (2, 3), "a:3"), (1005, 5, ("1,005", 5), "b:6"), (1, 0, (1, 0), "b:1")],
)
def test_unequal_line_counts(
    tmp_path: Path, left: int, right: int, counts: tuple[object, object], missing: str
) -> None:
    first, second = write(tmp_path / "a", "x\n" * left), write(tmp_path / "b", "y\n" * right)
    with pytest.raises(DataError) as caught:
        pairs([first, second], bad_lines="skip")
    message = str(caught.value)
    assert message.startswith(
        f"{tmp_path / missing}: the line is missing. Parallel files need the same number of lines"
    )
    assert f"{first} has {counts[0]}, {second} has {counts[1]}." in message


def test_a_bad_line_of_either_side_takes_the_pair_out(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a", b"1\n\xff\n3\n4\n"), write(tmp_path / "b", b"1\n2\n\xff\n4\n")
    with pytest.raises(BadLine, match="a:2: byte 0xFF"):
        pairs([first, second])
    ledger = Ledger()
    assert pairs([first, second], bad_lines="skip", ledger=ledger) == [("1", "1"), ("4", "4")]
    assert [str(finding.place) for finding in ledger.findings("utf8")] == [f"{first}:2", f"{second}:3"]


def test_empty_sides_are_left_to_whoever_prepares(tmp_path: Path) -> None:
    assert pairs(write(tmp_path / "a.tsv", "a\t\n\tb\n")) == [("a", ""), ("", "b")]


def test_files_without_an_example_are_refused(tmp_path: Path) -> None:
    empty = write(tmp_path / "a", "")
    with pytest.raises(DataError, match=r"a, .*a: not one example could be read\. There are no lines in it"):
        pairs([empty, empty])
    path = write(tmp_path / "a.tsv", "x\ny\n")
    with pytest.raises(
        DataError, match=r"not one example.*lines with a wrong number of columns, skipped: 2 \(.*a\.tsv:1"
    ):
        pairs(path, format="tsv", bad_lines="skip")


def test_standard_input(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\tb\n")))
    (example,) = read_examples("-", format="tsv")
    assert (example.source, example.target, str(example.place)) == ("a", "b", "<stdin>:1")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\n")))
    assert pairs(["-", write(tmp_path / "b", "b\n")], format="parallel") == [("a", "b")]  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("paths", "settings", "message"),
    [
        (["a"], {"source": -1}, "columns are counted from 0: source -1, target 1 cannot be"),
        (["a"], {"source": "k", "target": "k"}, "source and target are the same column or key: 'k'"),
        (["a"], {"format": "sigmorphon2017", "target": 2}, "format sigmorphon2017 has its own columns"),
        (["a.jsonl"], {"format": "jsonl", "target": 2}, "JSONL has keys, not columns: source 0 and target 2"),
        (["a", "b"], {"source": "en"}, "parallel files are numbered 0 and 1: source 'en', target 1 cannot be"),
        (["a"], {"format": "parallel"}, "parallel text is two files, and 1 were given"),
        (["-", "-"], {"format": "parallel"}, "only one of two parallel files can be standard input"),
    ],
)
def test_usage(tmp_path: Path, paths: list[str], settings: dict[str, object], message: str) -> None:
    write(tmp_path / "a.jsonl", '{"source": "a", "target": "b"}')
    full = [path if path == "-" else str(tmp_path / path) for path in paths]
    with pytest.raises(UsageError) as caught:
        pairs(full, **settings)  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_columns_named_for_an_inflection_file_read_it_as_tsv(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "gehen\tging\tV;IND;PST\n")
    assert pairs(path, source=2, target=1) == [("V;IND;PST", "ging")]


def test_jsonl_finds_its_keys_when_none_are_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", '{"src": "a", "tgt": "b"}')
    assert pairs(path, format="jsonl") == [("a", "b")]


def test_what_is_asked_to_be_jsonl_and_is_not(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "a\tb\n")
    with pytest.raises(DataError, match=r"a\.tsv:1: not JSON objects a line each, but columns separated by tabs"):
        pairs(path, format="jsonl")


def test_jsonl_keeps_gold_alignments(tmp_path: Path) -> None:
    file = tmp_path / "gold.jsonl"
    file.write_text('{"source": "a b", "target": "c d", "alignment": "0-1 1-0", "tags": "X Y"}\n', encoding="utf-8")
    (example,) = read_examples(file)
    assert dict(example.fields) == {"source": "a b", "target": "c d", "alignment": "0-1 1-0"}


def test_further_columns_stand_behind_the_source(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "en\tpos\tde\ttopic\ncat eats\tN V\tKatze\tpets\n dog \t\tHund\t\n")
    named = {"source": "en", "target": "de", "further": ("pos", "topic")}
    assert pairs(path, **named) == [("cat eats\tN V\tpets", "Katze"), (" dog \t\t", "Hund")]
    assert pairs(path, format="tsv", source=0, target=2, further=(3,))[1] == ("cat eats\tpets", "Katze")
    records = [
        {"en": "cat eats", "pos": "N V", "de": "Katze", "about": {"topic": "pets"}},
        {"en": "a\tb", "pos": "X", "de": "c\td", "about": {"topic": ""}},
    ]
    path = write(tmp_path / "a.jsonl", "".join(json.dumps(record) + "\n" for record in records))
    assert pairs(path, **(named | {"further": ("pos", "about.topic")})) == [
        ("cat eats\tN V\tpets", "Katze"),
        ("a\tb\tX\t", "c\td"),
    ]


def test_sides_that_are_not_there(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "pets\tcat\nwork\tdesk\n")
    assert pairs(path, source=None, target=1) == [("", "cat"), ("", "desk")]
    assert pairs(path, source=1, target=None) == [("cat", ""), ("desk", "")]
    assert pairs(path, source=None, target=1, further=(0,)) == [("pets", "cat"), ("work", "desk")]
    assert pairs(path, source=1, target=None, further=(0,)) == [("cat\tpets", ""), ("desk\twork", "")]


def test_plain_lines_are_one_side(tmp_path: Path) -> None:
    ledger = Ledger()
    path = write(tmp_path / "a.txt", "a b\n\n c\td \n")
    assert pairs(path, format="lines", source=None, target=0, ledger=ledger) == [("", "a b"), ("", " c\td ")]
    assert pairs(path, format="lines", source=0, target=None) == [("a b", ""), (" c\td ", "")]
    assert [finding.place.line for finding in ledger.findings("blank")] == [2]
    both = [path, write(tmp_path / "b.txt", "e\n")]
    assert [target for _, target in pairs(both, format="lines", source=None, target=0)] == ["a b", " c\td ", "e"]


def test_a_tab_in_a_further_value_is_a_bad_line(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"s": "a", "t": "b", "k": "x\\ty"}\n{"s": "c\\td", "t": "e", "k": "z"}\n')
    keys = {"source": "s", "target": "t", "further": ("k",)}
    with pytest.raises(BadLine, match=r"a\.jsonl:1: the value of 'k' has a tab in it.*data\.bad_lines: skip"):
        pairs(path, **keys)
    ledger = Ledger()
    assert pairs(path, **keys, bad_lines="skip", ledger=ledger) == [("c\td\tz", "e")]
    assert ledger.counts == {"columns": 1}


def test_a_line_without_a_further_column_says_which_were_wanted(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "a\tb\n")
    with pytest.raises(
        BadLine,
        match=r"2 columns .* 4, for source in column 0 and further 1 in column 3 and target in column 1",
    ):
        pairs(path, format="tsv", further=(3,))
    with pytest.raises(DataError, match="the header has no column 'pos'; it has: 'a', 'b'"):
        pairs(path, format="tsv", source="a", target="b", further=("pos",))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"source": None, "target": None}, "neither a source nor a target is read: name at least one of them"),
        ({"source": None, "target": 1, "further": (1,)}, "one column or key is asked for twice: 1, 1"),
        ({"source": None, "target": -1}, "columns are counted from 0: -1 cannot be"),
        ({"format": "lines"}, "format lines has one text a line, no pairs: set source or target to null"),
        (
            {"format": "lines", "source": None, "target": 0, "further": (1,)},
            "format lines has one text a line: one of source and target must be null, without further columns",
        ),
        ({"format": "jsonl", "source": None}, "JSONL has keys, not columns: 1 must be names"),
        (
            {"format": "sigmorphon2017", "source": None},
            "format sigmorphon2017 has a source and a target, and no further columns; take tsv, jsonl, conllu or lines",
        ),
    ],
)
def test_columns_that_cannot_be(tmp_path: Path, settings: dict[str, object], message: str) -> None:
    path = write(tmp_path / "a.tsv", "a\tb\n")
    with pytest.raises(UsageError) as caught:
        pairs(path, **settings)
    assert str(caught.value) == message
