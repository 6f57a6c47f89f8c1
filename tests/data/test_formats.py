"""What a file is, told by its name and its first lines."""

import gzip
from pathlib import Path

import pytest

from regard.data import DetectedFormat, detect_format
from regard.errors import DataError, UsageError

UNIMORPH = ["gehen\tging\tV;IND;PST;3;SG", "Haus\tHäuser\tN;NOM;PL", "gut\tbessere\tADJ;CMPR;ACC;SG", "je\tje\tADV"]


def swap(row: str) -> str:
    lemma, form, features = row.split("\t")
    return f"{lemma}\t{features}\t{form}"


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.tsv", "a b\tc\n", ("tsv", 0, 1, "columns separated by tabs")),
        ("a", "a\tb\tc\td\n", ("tsv", 0, 1, "columns separated by tabs; the first two of 4 are used")),
        ("a.tsv", "\n\na\tb\n", ("tsv", 0, 1, "columns separated by tabs")),
        (
            "a.tsv",
            "id\tSource\ttarget\n1\ta\tb\n",
            (
                "tsv",
                "Source",
                "target",
                "columns separated by tabs; the first line is a header with 'Source' and 'target'",
            ),
        ),
        ("a.tsv", "{a}\tb\n", ("tsv", 0, 1, "columns separated by tabs")),
        (
            "a.txt",
            '{"src": "a", "tgt": "b"}\n',
            ("jsonl", "src", "tgt", "lines are JSON objects; keys 'src' and 'tgt'"),
        ),
        (
            "a.jsonl",
            'oops\n{"id": 1, "translation": {"en": "a", "de": "b"}}\n',
            (
                "jsonl",
                "translation.en",
                "translation.de",
                "lines are JSON objects; keys 'translation.en' and 'translation.de'",
            ),
        ),
        ("a.json", '{"q": "a", "n": 1, "r": "b"}\n', ("jsonl", "q", "r", "lines are JSON objects; keys 'q' and 'r'")),
        (
            "a.tsv",
            "\n".join(UNIMORPH),
            (
                "sigmorphon2017",
                0,
                1,
                "three columns, column 3 holds features such as V;IND;PST;3;SG, as in SIGMORPHON 2017",
            ),
        ),
        (
            "a.tsv",
            "\n".join(map(swap, UNIMORPH)),
            (
                "sigmorphon2023",
                0,
                1,
                "three columns, column 2 holds features such as V;IND;PST;3;SG, as in SIGMORPHON 2023",
            ),
        ),
        (
            "a.tsv",
            "gehen\tpos=V,mood=IND,tense=PST\tging\nHaus\tpos=N,num=PL\tHäuser\n",
            (
                "sigmorphon2016",
                0,
                1,
                "three columns, column 2 holds features such as pos=V,mood=IND,tense=PST, as in SIGMORPHON 2016",
            ),
        ),
        (
            "a.tsv",
            "sam\tV;PRS;NOM(1,SG);ACC(3,PL)\tsams\n",
            (
                "sigmorphon2023",
                0,
                1,
                "three columns, column 2 holds features such as V;PRS;NOM(1,SG);ACC(3,PL), as in SIGMORPHON 2023",
            ),
        ),
        (
            "a.tsv",
            "yes\tja\tA note; with words\n",
            ("tsv", 0, 1, "columns separated by tabs; the first two of 3 are used"),
        ),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_one_file(
    tmp_path: Path, name: str, content: str, expected: tuple[str, str | int, str | int, str], packed: bool
) -> None:
    path = tmp_path / (f"{name}.gz" if packed else name)
    path.write_bytes(gzip.compress(content.encode()) if packed else content.encode())
    assert detect_format(path) == DetectedFormat(*expected)  # type: ignore[arg-type]


def test_two_files_are_parallel_unless_both_hold_pairs(tmp_path: Path) -> None:
    assert detect_format(["a.en", "a.de"]).format == "parallel"
    assert detect_format(["a.en.gz", "a.tsv"]).format == "parallel"
    (tmp_path / "a.tsv").write_text("a\tb\n")
    assert detect_format([tmp_path / "a.tsv", tmp_path / "b.tsv"]).format == "tsv"


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (b"", "a.tsv", "a.tsv:1: the file is empty or starts with 200 blank lines. Is it the right file?"),
        (b"\n \n\r\n", "a.tsv", "a.tsv:1: the file is empty"),
        (b"\xff\xff\n", "a.tsv", "a.tsv:1: is not UTF-8"),
        (b"x\xff\n", "a.tsv", "a.tsv:1: byte 0xFF at byte 2 of the line is not UTF-8"),
        (b"no tab\n", "a.tsv", "a.tsv:1: no tab in the line, so it holds no pair. Expected are two columns"),
        (b"a,b\n", "a.csv", "a.csv:1: no tab in the line, so it holds no pair (commas: turn the CSV into"),
        (b'["a", "b"]\n', "a.json", "a.json:1: no JSON records with source and target found: a JSON array; write one"),
        (
            b'{"a": 1}\n',
            "a.jsonl",
            "a.jsonl:1: no JSON records with source and target found: say which keys are source",
        ),
        (b'{"a": "", "b": "", "c": ""}\n', "a.jsonl", "there are: 'a', 'b', 'c'. Found: {"),
        (b'{"a": "\n', "a.jsonl", "not JSON (Unterminated string starting at at character 7)"),
    ],
)
def test_what_cannot_be_told_is_refused(tmp_path: Path, content: bytes, name: str, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError) as caught:
        detect_format(tmp_path / name)
    shown = str(caught.value).replace("byte 0xFF at byte 1 of the line ", "")
    assert message in shown


def test_usage(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no file was given: name one file of pairs, or two parallel files"):
        detect_format([])
    with pytest.raises(UsageError, match="standard input cannot be looked at before it is read"):
        detect_format("-")
