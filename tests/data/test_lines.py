"""Lines of files, held against an oracle that has the whole file in memory."""

import gzip
import io
import os
import sys
import tracemalloc
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data import BadLine, Ledger, Place, read_lines, read_raw_lines
from regard.data.lines import LONGEST_LINE, RawLine, split_lines
from regard.errors import DataError

PIECES = st.sampled_from(
    [
        b"\n",
        b"\r\n",
        b"\r",
        b"\n\r",
        b"\r\r\n",
        b"\0",
        b"\x0b",
        b"\x0c",
        b"\xc2\x85",
        b"\xe2\x80\xa8",
        b"a",
        b"\xff",
        b"",
    ]
)
CONTENT = st.one_of(st.binary(max_size=60), st.lists(PIECES, max_size=20).map(b"".join))


def oracle(content: bytes) -> list[bytes]:
    lines = content.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    return [line[:-1] if line.endswith(b"\r") else line for line in lines]


def blocks(content: bytes, cuts: list[int]) -> Iterator[bytes]:
    places = [0, *sorted(cut % (len(content) + 1) for cut in cuts), len(content)]
    return (content[start:end] for start, end in pairwise(places))


@settings(max_examples=2000, deadline=None)
@given(CONTENT, st.lists(st.integers(0, 1000), max_size=8))
def test_lines_equal_the_oracle_however_blocks_fall(content: bytes, cuts: list[int]) -> None:
    lines = list(split_lines(blocks(content, cuts)))
    assert [line.content for line in lines] == oracle(content)
    assert [line.number for line in lines] == list(range(1, len(lines) + 1))
    assert sum(line.crlf for line in lines) == content.count(b"\r\n")


@settings(max_examples=1000, deadline=None)
@given(CONTENT, st.lists(st.integers(0, 1000), max_size=8), st.integers(1, 6))
def test_overlong_lines_are_marked_and_disturb_no_other(content: bytes, cuts: list[int], longest: int) -> None:
    lines = list(split_lines(blocks(content, cuts), longest))
    expected = oracle(content)
    assert [line.number for line in lines] == list(range(1, len(expected) + 1))
    for line, whole in zip(lines, expected, strict=True):
        assert bool(line.overlong) == (len(whole) > longest)
        assert line.content == whole or (line.overlong == longest and whole.startswith(line.content[:longest]))


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=40), st.booleans())
def test_files_and_gzip_files_give_the_same_texts(
    tmp_path_factory: pytest.TempPathFactory, text: str, packed: bool
) -> None:
    content = b"x" + text.encode()  # the first letter keeps byte order marks out of this test
    path = tmp_path_factory.getbasetemp() / ("oracle.gz" if packed else "oracle.txt")
    path.write_bytes(gzip.compress(content) if packed else content)
    assert list(read_lines(path)) == [line.decode() for line in oracle(content)]


@pytest.mark.parametrize(
    ("content", "byte", "offset"),
    [
        (b"ok\nab\xe4cd\n", 0xE4, 3),
        (b"ok\n\x80", 0x80, 1),
        (b"ok\nab\xc3", 0xC3, 3),
        (b"ok\n\xc0\xaf\n", 0xC0, 1),
        (b"ok\nx\xed\xa0\x80\n", 0xED, 2),
        (b"ok\n\xf4\x90\x80\x80\n", 0xF4, 1),
        ("ok\nü".encode() + b"\xff\n", 0xFF, 3),
    ],
)
def test_a_bad_byte_is_named_with_its_place(tmp_path: Path, content: bytes, byte: int, offset: int) -> None:
    path = tmp_path / "bad.txt"
    path.write_bytes(content)
    with pytest.raises(BadLine) as caught:
        list(read_lines(path))
    message = str(caught.value)
    assert message.startswith(f"{path}:2: byte 0x{byte:02X} at byte {offset} of the line is not UTF-8")
    assert f"iconv -f WINDOWS-1252 -t UTF-8 {path} > NEWFILE" in message
    assert caught.value.place == Place(str(path), 2)
    assert caught.value.exit_code == 4


def test_bad_lines_can_stand_as_blanks(tmp_path: Path) -> None:
    path = tmp_path / "bad.txt"
    path.write_bytes(b"one\n\xff\n\nfour")
    ledger = Ledger()
    assert list(read_lines(path, bad_lines="blank", ledger=ledger)) == ["one", "", "", "four"]
    assert list(read_lines(path, bad_lines="blank")) == ["one", "", "", "four"]
    assert ledger.counts == {"utf8": 1}
    assert ledger.findings("utf8")[0].place == Place(str(path), 2)


def test_a_byte_order_mark_is_taken_off_and_listed(tmp_path: Path) -> None:
    path = tmp_path / "bom.txt"
    path.write_bytes(b"\xef\xbb\xbfone\n\xef\xbb\xbftwo\n")
    ledger = Ledger()
    assert list(read_lines(path, ledger=ledger)) == ["one", "\ufefftwo"]
    assert ledger.counts == {"bom": 1}
    assert list(read_lines(path)) == ["one", "\ufefftwo"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("é\n".encode("utf-16"), "is UTF-16, not UTF-8 text. Convert it: iconv -f UTF-16 -t UTF-8 FILE > NEWFILE"),
        (b"\xfe\xff\x00a", "is UTF-16"),
        ("é\n".encode("utf-32"), "is UTF-32"),
        (b"\x00\x00\xfe\xff\x00\x00\x00a", "is UTF-32"),
        (b"\x28\xb5\x2f\xfd....", "is a zstd archive, not UTF-8 text. Unpack it first: zstd -dc FILE > NEWFILE"),
        (b"\xfd7zXZ\x00....", "is an xz archive"),
        (b"BZh91AY&SY....", "is a bzip2 archive"),
        (b"PK\x03\x04....", "is a zip archive"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "is a PNG picture, not UTF-8 text. Pictures are named in a file of text"),
        (b"a.txt" + bytes(252) + b"ustar\x0000" + bytes(248), "is a tar archive, not UTF-8 text. Unpack it first: tar"),
        (b"%PDF-1.7\n", "is a PDF document, not UTF-8 text. Take the text out of it first: pdftotext"),
        (b"PAR1\x15\x04....", "is a Parquet file, not UTF-8 text. Write it as TSV or JSONL first"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_foreign_files_are_recognised(tmp_path: Path, content: bytes, message: str, packed: bool) -> None:
    path = tmp_path / ("foreign.gz" if packed else "foreign")
    path.write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(DataError) as caught:
        list(read_lines(path))
    assert str(caught.value).startswith(f"{path}:1: {message}")


def test_what_is_no_text_is_not_to_be_converted(tmp_path: Path) -> None:
    path = tmp_path / "strange"
    path.write_bytes(b"ab\xff\0\0c\n")
    with pytest.raises(DataError) as caught:
        list(read_lines(path))
    assert f"The line has NUL bytes, which no text has: see what the file is with: file {path}" in str(caught.value)


def test_gzip_is_told_by_its_bytes_and_members_are_joined(tmp_path: Path) -> None:
    path = tmp_path / "plain.txt"
    path.write_bytes(gzip.compress(b"one\ntw") + gzip.compress(b"o\nthree\n") + b"\0" * 512)
    assert list(read_lines(path)) == ["one", "two", "three"]


@pytest.mark.parametrize("keep", [0.3, 0.7, 0.999])
def test_a_gzip_file_that_is_cut_off_names_the_line_reached(tmp_path: Path, keep: float) -> None:
    rows = [f"{number * 7919 % 10007} is line {number}" for number in range(20000)]
    whole = gzip.compress("\n".join(rows).encode())
    path = tmp_path / "cut.gz"
    path.write_bytes(whole[: int(len(whole) * keep)])
    seen = []
    with pytest.raises(DataError) as caught:
        seen.extend(read_lines(path))
    assert seen == rows[: len(seen)]
    assert seen
    assert str(caught.value).startswith(
        f"{path}:{len(seen) + 1}: the gzip data is damaged or cut off after line {len(seen)} (the end is missing). "
    )


def test_who_keeps_an_error_does_not_keep_the_file(tmp_path: Path) -> None:
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(b"one\n") + b"\x1f\x8b" + b"\xaa" * 99)
    with pytest.raises(DataError, match="damaged") as caught:
        list(read_lines(path))
    assert str(path) not in {str(one.readlink()) for one in Path("/proc/self/fd").iterdir() if one.is_symlink()}
    assert caught.value.__traceback__ is not None


def test_a_gzip_file_with_a_wrong_checksum_or_a_tail_is_damaged(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(b"one\n"))
    packed[-6] ^= 1
    tail = gzip.compress(b"one\n") + b"garbage"
    for name, content, reached in (("sum.gz", bytes(packed), 0), ("tail.gz", tail, 1)):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(
            DataError, match=f"{name}:{reached + 1}: the gzip data is damaged or cut off after line {reached}"
        ):
            list(read_lines(tmp_path / name))


def test_a_name_that_lies_about_gzip(tmp_path: Path) -> None:
    (tmp_path / "plain.gz").write_bytes(b"text\n")
    with pytest.raises(DataError, match=r"plain\.gz:1: is called \.gz but is not gzip data"):
        list(read_lines(tmp_path / "plain.gz"))


def test_a_gzip_bomb_is_read_in_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(bytes(2**24)) * 64)  # 1 MB of gzip, 1 GB of zeros
    tracemalloc.start()
    with pytest.raises(BadLine, match=r"bomb\.gz:1: the line has more than 16,777,216 bytes; it begins: (\\x00){60}…"):
        list(read_lines(path))
    lines = list(read_raw_lines(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [line.overlong for line in lines] == [LONGEST_LINE]
    assert peak < 100 * 2**20


def test_what_is_no_file_is_refused_in_plain_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "file").write_bytes(b"")
    cases = {
        tmp_path / "missing.tsv": "there is no such file. Check the spelling",
        tmp_path / "dangling": "there is no such file",
        tmp_path: "is a folder, not a file. Name a file in it",
        tmp_path / "fifo": "is a pipe or a device, which can be read only once. Save it in a file first",
        Path("/dev/null"): "is a pipe or a device",
        tmp_path / "loop": "cannot be opened: Too many levels of symbolic links",
        tmp_path / "file" / "below": "cannot be opened: Not a directory",
        tmp_path / ("x" * 300): "cannot be opened: File name too long",
    }
    for path, message in cases.items():
        with pytest.raises(DataError) as caught:
            list(read_lines(path))
        assert str(caught.value).startswith(f"{path}: {message}")
    with pytest.raises(DataError, match=r"a\\x00b: not the name of a file: it holds a NUL character"):
        list(read_lines("a\0b"))

    def forbid(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", forbid)
    with pytest.raises(DataError, match=r"file:1: cannot be read: Permission denied"):
        list(read_lines(tmp_path / "file"))


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    for content in (b"one\r\ntwo", gzip.compress(b"one\ntwo\n")):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        assert list(read_lines("-")) == ["one", "two"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one\n\xff")))
    with pytest.raises(BadLine, match="<stdin>:2: byte 0xFF"):
        list(read_lines("-"))
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(DataError, match=r"<stdin>: standard input is closed\. Name a file instead"):
        list(read_lines("-"))


def test_a_typed_line_does_not_wait_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    read_end, write_end = os.pipe()
    with os.fdopen(read_end, "rb") as reader, os.fdopen(write_end, "wb", buffering=0) as writer:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(reader))
        lines = read_lines("-")
        for text in ("a", "", "ü"):
            writer.write(f"{text}\n".encode())
            assert next(lines) == text
        lines.close()
        sys.stdin.detach()


def test_a_raw_line_says_how_it_ended(tmp_path: Path) -> None:
    (tmp_path / "ends").write_bytes(b"one\r\ntwo\nthree\r")
    assert list(read_raw_lines(tmp_path / "ends")) == [
        RawLine(1, b"one", True, 0),
        RawLine(2, b"two", False, 0),
        RawLine(3, b"three", False, 0),
    ]
