"""Byte-exact lines of plain files, gzip files and standard input (`-`).

A line ends at b"\\n" and nowhere else: not at a lone CR, not at U+2028, U+0085, VT or FF. One b"\\r" right before the
end is taken off (CRLF). A last line without b"\\n" counts. Lines are decoded as strict UTF-8; NUL is text. Gzip is told
by its first bytes, whatever the name, and is unpacked block by block, so that memory stays within one block and one
line. Bytes of a line are counted from 1, as lines are.
"""

import io
import shlex
import stat
import sys
import zlib
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final, Literal, NamedTuple, cast

from regard.data.example import Place
from regard.data.excerpt import excerpt
from regard.data.ledger import Ledger
from regard.errors import DataError

LONGEST_LINE: Final = 16 * 2**20
"""Bytes that a line may have, if nothing else is said."""

BLOCK: Final = 2**17
STDIN: Final = "-"

ICONV: Final = "Convert it: iconv -f {} -t UTF-8 FILE > NEWFILE"
UNPACK: Final = "Unpack it first: {} FILE > NEWFILE"
PICTURE: Final = "Pictures are named in a file of text, a line each with its answer: give that file"
FOREIGN: Final = (
    (b"\xff\xfe\x00\x00", "UTF-32", ICONV.format("UTF-32")),
    (b"\x00\x00\xfe\xff", "UTF-32", ICONV.format("UTF-32")),
    (b"\xff\xfe", "UTF-16", ICONV.format("UTF-16")),
    (b"\xfe\xff", "UTF-16", ICONV.format("UTF-16")),
    (b"\x28\xb5\x2f\xfd", "a zstd archive", UNPACK.format("zstd -dc")),
    (b"\xfd7zXZ\x00", "an xz archive", UNPACK.format("xz -dc")),
    (b"BZh91AY&SY", "a bzip2 archive", UNPACK.format("bzip2 -dc")),
    (b"PK\x03\x04", "a zip archive", UNPACK.format("unzip -p")),
    (b"PK\x05\x06", "an empty zip archive", "Is it the right file?"),
    (b"PAR1\x15", "a Parquet file", "Write it as TSV or JSONL first"),
    (b"\x89PNG\r\n\x1a\n", "a PNG picture", PICTURE),
    (b"\xff\xd8\xff", "a JPEG picture", PICTURE),
    (b"GIF87a", "a GIF picture", PICTURE),
    (b"GIF89a", "a GIF picture", PICTURE),
    (b"%PDF-1.", "a PDF document", "Take the text out of it first: pdftotext FILE NEWFILE"),
    (b"\x7fELF", "a program", "Is it the right file?"),
    (b"SQLite format 3\0", "an SQLite database", "Write its table as TSV or JSONL first"),
)
"""First bytes of files that are not UTF-8 text, what they are, and how text is made of them."""

UTF8_MARK: Final = b"\xef\xbb\xbf"
GZIP: Final = b"\x1f\x8b"
TAR: Final = (257, b"ustar")
HEAD: Final = 512
BEGINNING: Final = 256
"""Bytes that are kept of the file to recognise it, and of an overlong line to show it."""


class BadLine(DataError):
    """One line that cannot be used. A reader raises it, or skips the line and lists it, as its caller says."""

    def __init__(self, kind: str, place: Place, detail: str, mend: str = "") -> None:
        super().__init__(f"{place}: {detail}" + (f". {mend}" if mend else ""))
        self.kind = kind
        self.place = place
        self.detail = detail


class RawLine(NamedTuple):
    """A line as bytes, without its end. A tuple, because a corpus has millions of them.

    `overlong` is 0, or the largest size in bytes if the line has more; such a line holds only its beginning.
    """

    number: int
    content: bytes
    crlf: bool
    overlong: int


def file_name(path: str | Path) -> str:
    """How a file is called in messages and places."""
    return "<stdin>" if str(path) == STDIN else excerpt(str(path), 4096)


def split_lines(blocks: Iterator[bytes], longest: int = LONGEST_LINE) -> Iterator[RawLine]:
    """Lines of a stream of blocks, in memory of one block and one line."""
    number = 1
    held = bytearray()
    dropping = False
    new = tuple.__new__  # without the detour of named fields
    for block in blocks:
        *ended, rest = block.split(b"\n")
        if ended and held:
            ended[0] = bytes(held) + ended[0]
            held.clear()
        if ended and dropping:
            del ended[0]
            number += 1
            dropping = False
        for content in ended:
            if len(content) > longest or content.endswith(b"\r"):
                yield _line(number, content, longest)
            else:
                yield new(RawLine, (number, content, False, 0))
            number += 1
        if not dropping:
            held += rest
        if len(held) > longest + 1:  # one more byte may be the CR of the line's end
            yield _line(number, bytes(held), longest)
            held.clear()
            dropping = True
    if held:
        yield _line(number, bytes(held), longest, ended=False)


def _line(number: int, content: bytes, longest: int, ended: bool = True) -> RawLine:
    crlf = content.endswith(b"\r")
    if crlf:
        content = content[:-1]
    if len(content) > longest:
        return RawLine(number, content[:BEGINNING], crlf and ended, longest)
    return RawLine(number, content, crlf and ended, 0)


def read_raw_lines(path: str | Path, *, longest: int = LONGEST_LINE, ledger: Ledger | None = None) -> Iterator[RawLine]:
    """Lines of a file as bytes. What is wrong with the file as a whole is an error here, whatever the line."""
    name = file_name(path)
    reached = 0
    try:
        for line in split_lines(_text_blocks(path, ledger), longest):
            reached = line.number
            yield line
    except zlib.error as error:
        raise DataError(
            f"{name}:{reached + 1}: the gzip data is damaged or cut off after line {reached} ({error}). "
            "Fetch the file again; `gzip -t` tests it"
        ) from error
    except OSError as error:
        raise DataError(f"{name}:{reached + 1}: cannot be read: {error.strerror or error}") from error


def decode(line: RawLine, name: str) -> str:
    """The text of a line, or a `BadLine` that names the byte."""
    if line.overlong:
        beginning = excerpt(line.content.decode("utf-8", "replace"))
        detail = f"the line has more than {line.overlong:,} bytes; it begins: {beginning}"
        raise BadLine("overlong", Place(name, line.number), detail, "Is there one text on each line?")
    try:
        return line.content.decode("utf-8")
    except UnicodeDecodeError as error:
        byte, offset = line.content[error.start], error.start + 1
        beginning = excerpt(line.content.decode("utf-8", "replace"))
        raise BadLine(
            "utf8",
            Place(name, line.number),
            f"byte 0x{byte:02X} at byte {offset} of the line is not UTF-8 ({error.reason}): {beginning}",
            f"The line has NUL bytes, which no text has: see what the file is with: file {shlex.quote(name)}"
            if b"\0" in line.content
            else "If the file is in another encoding, convert it: "
            f"iconv -f WINDOWS-1252 -t UTF-8 {shlex.quote(name)} > NEWFILE",
        ) from None


def read_lines(
    path: str | Path,
    *,
    bad_lines: Literal["refuse", "blank"] = "refuse",
    ledger: Ledger | None = None,
    longest: int = LONGEST_LINE,
) -> Iterator[str]:
    """Texts of a file, one for each line. With `blank`, a line that cannot be decoded is listed and stands as ""."""
    name = file_name(path)
    for line in read_raw_lines(path, longest=longest, ledger=ledger):
        try:
            text = decode(line, name)
        except BadLine as bad:
            if bad_lines == "refuse":
                raise
            if ledger is not None:
                ledger.add(bad.kind, bad.place, bad.detail)
            text = ""
        yield text


def refuse_unreadable(path: str | Path) -> None:
    """Say plainly why a path cannot be read as a file of text."""
    name = file_name(path)
    try:
        mode = Path(path).stat().st_mode
    except FileNotFoundError:
        raise DataError(f"{name}: there is no such file. Check the spelling and the folder you are in") from None
    except ValueError:
        raise DataError(f"{name}: not the name of a file: it holds a NUL character") from None
    except OSError as error:
        raise DataError(f"{name}: cannot be opened: {error.strerror}") from error
    if stat.S_ISDIR(mode):
        raise DataError(f"{name}: is a folder, not a file. Name a file in it")
    if not stat.S_ISREG(mode):
        raise DataError(
            f"{name}: is a pipe or a device, which can be read only once. Save it in a file first, or give `-` and "
            f"let the shell read it (< {shlex.quote(name)})"
        )


def _text_blocks(path: str | Path, ledger: Ledger | None) -> Iterator[bytes]:
    """Blocks of unpacked bytes, without a byte order mark."""
    name = file_name(path)
    with closing(_file_blocks(path)) as found:  # at once: who keeps an error keeps what stood beside it
        packed, blocks = _recognise(path, found)
        if packed:
            _, blocks = _recognise(path, _unzip(blocks))
        elif name.endswith(".gz"):
            raise DataError(f"{name}:1: is called .gz but is not gzip data. Rename it, or fetch it again")
        first = next(blocks, b"")
        if first.startswith(UTF8_MARK):
            first = first[len(UTF8_MARK) :]
            if ledger is not None:
                ledger.add("bom", Place(name, 1), "the file starts with a UTF-8 byte order mark")
        yield first
        yield from blocks


def _recognise(path: str | Path, blocks: Iterator[bytes]) -> tuple[bool, Iterator[bytes]]:
    """Whether blocks are gzip, and the same blocks; refuses what is known not to be UTF-8 text."""
    head = b""
    while len(head) < HEAD and b"\n" not in head:  # a line typed by a person must not wait for the next
        block = next(blocks, b"")
        if not block:
            break
        head += block
    for start, what, mend in FOREIGN:
        if head.startswith(start):
            raise DataError(f"{file_name(path)}:1: is {what}, not UTF-8 text. {mend}")
    if head[TAR[0] :].startswith(TAR[1]):
        raise DataError(f"{file_name(path)}:1: is a tar archive, not UTF-8 text. {UNPACK.format('tar -xOf')}")
    return head.startswith(GZIP), _chain(head, blocks)


def _chain(head: bytes, blocks: Iterator[bytes]) -> Iterator[bytes]:
    yield head
    yield from blocks


def _file_blocks(path: str | Path) -> Generator[bytes]:
    if str(path) == STDIN:
        if sys.stdin is None:
            raise DataError("<stdin>: standard input is closed. Name a file instead of `-`")
        stdin = cast(io.BufferedReader, sys.stdin.buffer)
        yield from iter(lambda: stdin.read1(BLOCK), b"")
        return
    refuse_unreadable(path)
    with Path(path).open("rb", buffering=0) as file:
        yield from iter(lambda: file.read(BLOCK), b"")


def _unzip(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Unpack gzip members one after the other; zeros between and after them are padding."""
    member = None
    for block in blocks:
        while block:
            if member is None:
                block = block.lstrip(b"\0")
                if not block:
                    break
                member = zlib.decompressobj(wbits=31)
            if text := member.decompress(block, BLOCK):
                yield text
            block = member.unused_data if member.eof else member.unconsumed_tail
            if member.eof:
                member = None
    if member is not None:
        raise zlib.error("the end is missing")
