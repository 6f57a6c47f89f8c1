"""What exactly is read of odd corpora, and what exactly is said of bad ones."""

import gzip
from dataclasses import dataclass
from pathlib import Path

import pytest

from regard.data import Ledger, check_files, read_examples, render
from regard.errors import RegardError
from tests.reliability.corpora import TEXT

TEXTS = {name: text for name, (text, _) in TEXT.items()} | {"long": "wort " * 200_000}


@dataclass(frozen=True)
class Case:
    """Bytes of one or two files, and what must come of them: examples, or a refusal that names a place."""

    files: dict[str, bytes]
    examples: tuple[tuple[str, str], ...] | None = None
    refusal: tuple[str, str] | None = None
    skipped: int | None = None  # examples left with `skip`; None if that is refused as well


def tsv(content: bytes, **outcome: object) -> Case:
    return Case({"a.tsv": content}, **outcome)  # type: ignore[arg-type]


CASES: dict[str, Case] = {}
for name, text in TEXTS.items():
    CASES[f"text_tsv_{name}"] = tsv(f"{text}\tb\nc\td".encode(), examples=((text, "b"), ("c", "d")))
    CASES[f"text_parallel_{name}"] = Case(
        {"a.en": b"a\nc\n", "a.de": f"x{text}\nd".encode()}, examples=(("a", f"x{text}"), ("c", "d"))
    )
CASES |= {
    "crlf": tsv(b"a\tb\r\nc\td\r\n", examples=(("a", "b"), ("c", "d"))),
    "mixed_line_ends": tsv(b"a\tb\r\nc\td\ne\tf\r", examples=(("a", "b"), ("c", "d"), ("e", "f"))),
    "double_cr": tsv(b"a\tb\r\r\n", examples=(("a", "b\r"),)),
    "only_cr": tsv(b"a\tb\rc\td\r", refusal=None, examples=(("a", "b\rc"),)),
    "no_final_newline": tsv(b"a\tb\nc\td", examples=(("a", "b"), ("c", "d"))),
    "byte_order_mark": tsv(b"\xef\xbb\xbfa\tb\n", examples=(("a", "b"),)),
    "utf16_le": tsv("a\tb\n".encode("utf-16"), refusal=("a.tsv:1: is UTF-16", "iconv")),
    "utf16_be": tsv(b"\xfe\xff" + "a\tb\n".encode("utf-16-be"), refusal=("a.tsv:1: is UTF-16", "iconv")),
    "utf32": tsv("a\tb\n".encode("utf-32"), refusal=("a.tsv:1: is UTF-32", "iconv")),
    "empty_file": tsv(b"", refusal=("a.tsv:1: the file is empty", "Is it the right file?")),
    "all_blank": tsv(b"\n" * 1000, refusal=("a.tsv:1: the file is empty or starts with 200 blank", "right file?")),
    "blank_at_end": tsv(b"a\tb\n\n", examples=(("a", "b"),)),
    "empty_side": tsv(b"a\tb\nc\t\n", examples=(("a", "b"), ("c", ""))),
    "only_a_tab": tsv(b"a\tb\n\t\n", examples=(("a", "b"), ("", ""))),
    "ragged_less": tsv(b"a\tb\tc\nd\te\n", refusal=("a.tsv:2: 2 columns", "data.bad_lines: skip"), skipped=1),
    "ragged_more": tsv(b"a\tb\nc\td\te\n", refusal=("a.tsv:2: 3 columns", "data.bad_lines: skip"), skipped=1),
    "one_column": tsv(b"a\nb\n", refusal=("a.tsv:1: no tab in the line", "two parallel files")),
    "csv": Case({"a.csv": b'"a","b"\n'}, refusal=("a.csv:1: no tab", "turn the CSV into")),
    "many_columns": tsv(b"\t".join([b"x"] * 50_000) + b"\n", examples=(("x", "x"),)),
    "zip_named_tsv": tsv(b"PK\x03\x04rest", refusal=("a.tsv:1: is a zip archive", "unzip -p")),
    "zstd": Case({"a.tsv.zst": b"\x28\xb5\x2f\xfd\x00"}, refusal=("a.tsv.zst:1: is a zstd archive", "zstd -dc")),
    "parquet": Case({"a.parquet": b"PAR1\x15\x04"}, refusal=("a.parquet:1: is a Parquet file", "TSV or JSONL")),
    "png": Case({"a.tsv": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"}, refusal=("a.tsv:1: is a PNG picture", "give that file")),
    "gzip_cut": Case(
        {"a.tsv.gz": gzip.compress(b"a\tb\n" * 999)[:-4]},
        refusal=("a.tsv.gz:1000: the gzip data is damaged", "gzip -t"),
    ),
    "gzip_empty": Case({"a.tsv.gz": b""}, refusal=("a.tsv.gz:1: is called .gz but is not gzip", "Rename it")),
    "gzip_header_only": Case(
        {"a.tsv.gz": b"\x1f\x8b\x08"}, refusal=("a.tsv.gz:1: the gzip data is damaged", "gzip -t")
    ),
    "gzip_noise": Case({"a.tsv.gz": b"\x1f\x8b" + b"\xaa" * 99}, refusal=("a.tsv.gz:1: the gzip data", "gzip -t")),
    "gzip_bomb": Case(
        {"a.tsv.gz": gzip.compress(bytes(2**24)) * 16}, refusal=("a.tsv.gz:1: the line has more than 16,777,216", "one")
    ),
    "gzip_good": Case({"a.tsv.gz": gzip.compress(b"a\tb")}, examples=(("a", "b"),)),
    "count_off_by_one": Case({"a.en": b"1\n2\n", "a.de": b"1\n"}, refusal=("a.de:2: the line is missing", "has 2, ")),
    "count_off_by_thousand": Case(
        {"a.en": b"1\n", "a.de": b"1\n" * 1001}, refusal=("a.en:2: the line is missing", "has 1,001")
    ),
    "parallel_one_empty": Case({"a.en": b"", "a.de": b"1\n"}, refusal=("a.en:1: the line is missing", "lost or split")),
    "parallel_both_empty": Case({"a.en": b"", "a.de": b""}, refusal=("a.de: not one example", "no lines in it")),
    "parallel_blank_lines": Case({"a.en": b"\n\nc\n", "a.de": b"\nb\n\n"}, examples=(("", ""), ("", "b"), ("c", ""))),
    "parallel_missing": Case({"a.en": b"1\n", "missing": b""}, refusal=("missing: there is no such file", "spelling")),
    "jsonl_nan": Case({"a.jsonl": b'{"source": NaN, "target": "b"}'}, refusal=("a.jsonl:1: no JSON records", "NaN")),
    "jsonl_depth": Case({"a.jsonl": b'{"source":' * 100_000}, refusal=("a.jsonl:1: no JSON records", "too deeply")),
    "jsonl_array_depth": Case({"a.jsonl": b"[" * 100_000}, refusal=("a.jsonl:1: no JSON records", "jq -c")),
    "jsonl_blank_between": Case(
        {"a.jsonl": b'{"source": "a", "target": "b"}\n\n{"source": "c", "target": "d"}\n'},
        examples=(("a", "b"), ("c", "d")),
    ),
    "jsonl_escapes": Case(
        {"a.jsonl": b'{"source": "\\u0000\\n\\ud83d\\ude00", "target": "\\u2028"}'}, examples=(("\0\n😀", "\u2028"),)
    ),
    "jsonl_half_surrogate": Case(
        {"a.jsonl": b'{"source": "a", "target": "b"}\n{"source": "\\udc00", "target": "b"}\n'},
        refusal=("a.jsonl:2: the value of 'source' holds half of a surrogate", "data.bad_lines: skip"),
        skipped=1,
    ),
    "jsonl_keys_change": Case(
        {"a.jsonl": b'{"src": "a", "tgt": "b"}\n{"source": "a", "target": "b"}\n'},
        refusal=("a.jsonl:2: no key 'src'; there are: 'source', 'target'", "data.bad_lines: skip"),
        skipped=1,
    ),
    "inflection_ragged": tsv(
        b"gehen\tging\tV;PST\n" * 9 + b"gehen\tging\n",
        refusal=("a.tsv:10: 2 columns separated by tabs, expected 3", "data.bad_lines: skip"),
        skipped=9,
    ),
}


def written(case: Case, folder: Path) -> list[str]:
    for name, content in case.files.items():
        if name != "missing":
            (folder / name).write_bytes(content)
    return [str(folder / name) for name in case.files]


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 60


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", CASES)
def test_read_or_refused(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    paths = written(case, tmp_path)
    if case.examples is not None:
        assert tuple((example.source, example.target) for example in read_examples(paths)) == case.examples
        return
    assert case.refusal is not None
    with pytest.raises(RegardError) as caught:
        list(read_examples(paths))
    message = str(caught.value)
    assert f"{tmp_path}/{case.refusal[0]}" in message
    assert case.refusal[1] in message
    assert caught.value.exit_code == 4
    assert message.isprintable()
    assert len(message) < 800


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.refusal])
def test_skipped_and_listed_or_still_refused(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    paths = written(case, tmp_path)
    ledger = Ledger()
    if case.skipped is None:
        with pytest.raises(RegardError):
            list(read_examples(paths, bad_lines="skip", ledger=ledger))
        return
    assert len(list(read_examples(paths, bad_lines="skip", ledger=ledger))) == case.skipped
    assert ledger.total == 1
    assert str(case.refusal).split(":")[1] in ledger.summary()


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", CASES)
def test_checked_without_a_traceback(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    report = check_files([",".join(written(case, tmp_path))])
    assert not case.refusal or not report.ok
    if case.skipped is not None:
        assert report.files[0].examples == case.skipped
    elif case.refusal and name != "gzip_bomb":
        assert f"{tmp_path}/{case.refusal[0]}" in (report.files[0].fault or "")
    text = render(report)
    assert text.replace("\n", "").isprintable()
    assert max(map(len, text.split("\n"))) <= 60
