"""What can be wrong: the cases of bad corpora, by name."""

import json
import struct
import zlib
from functools import partial
from pathlib import Path

from PIL import Image

from tests.reliability.corpora import (
    BAD_LINE,
    GOOD,
    LAYOUTS,
    NOT_UTF8,
    TEXT,
    Case,
    Layout,
    escaped,
    loop,
    packed,
    pipe,
    renamed,
    replaced,
    spoiled,
)

MIB = 2**20
COLUMNS = ("tsv", "labelled", "rated", "tagged", "pictures")
INFLECTIONS = ("sigmorphon2016", "sigmorphon2017", "sigmorphon2023")
WHOLE = ("parallel", "tsv", "jsonl", "lines", "sigmorphon2017", "labelled", "tagged", "pictures")
SKIP = "data.bad_lines: skip"

FOREIGN = {
    "utf16_le": ("UTF-16", "iconv", lambda content: b"\xff\xfe" + content.decode().encode("utf-16-le")),
    "utf16_be": ("UTF-16", "iconv", lambda content: b"\xfe\xff" + content.decode().encode("utf-16-be")),
    "utf32_le": ("UTF-32", "iconv", lambda content: b"\xff\xfe\0\0" + content.decode().encode("utf-32-le")),
    "utf32_be": ("UTF-32", "iconv", lambda content: b"\0\0\xfe\xff" + content.decode().encode("utf-32-be")),
    "zstd": ("a zstd archive", "zstd -dc", lambda content: b"\x28\xb5\x2f\xfd" + content),
    "xz": ("an xz archive", "xz -dc", lambda content: b"\xfd7zXZ\0" + content),
    "bzip2": ("a bzip2 archive", "bzip2 -dc", lambda content: b"BZh91AY&SY" + content),
    "zip": ("a zip archive", "unzip -p", lambda content: b"PK\x03\x04" + content),
    "parquet": ("a Parquet file", "TSV or JSONL", lambda content: b"PAR1\x15\x04" + content),
}


def not_utf8() -> dict[str, Case]:
    return {
        f"{layout}: {kind}": Case(
            layout,
            LAYOUTS[layout].with_text(b"x" + bad),
            refusal=(f"{LAYOUTS[layout].name}:{BAD_LINE}: byte 0x", "iconv -f WINDOWS-1252 -t UTF-8"),
            kept=GOOD,
            counts={"utf8": 1},
            checked="utf8",
        )
        for layout in LAYOUTS
        for kind, bad in NOT_UTF8.items()
    }


def odd_texts() -> dict[str, Case]:
    return {
        f"{layout}: {kind}": Case(
            layout, LAYOUTS[layout].with_text(escaped(layout, text)), kept=GOOD + 1, checked=checked
        )
        for layout in ("parallel", "tsv", "jsonl", "lines", "sigmorphon2016", "labelled", "tagged")
        for kind, (text, checked) in TEXT.items()
    }


def whole_files(name: str) -> dict[str, Case]:
    """Files that are wrong, or odd, from the first byte on."""
    layout = LAYOUTS[name]
    file = layout.name

    def refused(change, place: str, remedy: str) -> Case:
        return Case(name, spoiled(layout, change), refusal=(f"{file}{place}", remedy))

    def fine(change, **counts: int) -> Case:
        return Case(name, spoiled(layout, change), kept=GOOD, counts=counts)

    def instead(make, told: str, remedy: str) -> Case:
        files = layout.contents(layout.good())
        return Case(name, files, refusal=(f"{file}: {told}", remedy), make=replaced(file, make))

    cases = {kind: refused(change, f":1: is {what}", mend) for kind, (what, mend, change) in FOREIGN.items()}
    empty_remedy = "lost or split" if name == "parallel" else "file" if name in AUTO else "There are no lines in it"
    cases |= {
        "byte_order_mark": fine(lambda content: b"\xef\xbb\xbf" + content, bom=1),
        "crlf": fine(lambda content: content.replace(b"\n", b"\r\n")),
        "no_final_newline": fine(lambda content: content[:-1]),
        "empty": refused(lambda content: b"", "", empty_remedy),
        "folder": instead(Path.mkdir, "is a folder, not a file", "Name a file in it"),
        "pipe": instead(pipe, "is a pipe or a device", "Save it in a file first"),
        "device": instead(lambda path: path.symlink_to("/dev/zero"), "is a pipe or a device", "Save it in a file"),
        "missing": instead(lambda path: None, "there is no such file", "Check the spelling"),
        "dangling": instead(lambda path: path.symlink_to("nowhere"), "there is no such file", "Check the spelling"),
        "link_loop": instead(loop, "cannot be opened: Too many levels", "symbolic links"),
        "input_error": Case(
            name,
            layout.contents(layout.good()),
            refusal=(file, "cannot be read: Input/output error"),
            make=replaced(file, lambda path: path.symlink_to("/proc/self/mem")),
        ),
        "overlong": Case(
            name,
            lambda: layout.with_text(b"w" * (16 * MIB + 1)),
            refusal=(f"{file}:{BAD_LINE}: the line has more than 16,777,216 bytes", "one text on each line"),
            kept=GOOD,
            counts={"overlong": 1},
        ),
    }
    return {f"{name}: {kind}": case for kind, case in (cases | _packed(name, layout)).items()}


def _packed(name: str, layout: Layout) -> dict[str, Case]:
    content = layout.contents(layout.good())[layout.name]
    whole = packed(content)
    flipped = bytearray(whole)
    flipped[-6] ^= 1  # the checksum
    file = f"{layout.name}.gz"

    def refused(packed_content: bytes, told: str, remedy: str) -> Case:
        return Case(name, renamed(layout, packed_content, ".gz"), refusal=(f"{file}:{told}", remedy))

    def fine(packed_content: bytes) -> Case:
        return Case(name, renamed(layout, packed_content, ".gz"), kept=GOOD)

    first, rest = content[:9], content[9:]
    return {
        "gzip": fine(whole),
        "gzip_members": fine(packed(first) + packed(b"") + packed(rest)),
        "gzip_padded": fine(whole + bytes(600)),
        "gzip_cut": refused(whole[:-4], f"{GOOD + 1}: the gzip data is damaged", "gzip -t"),
        "gzip_checksum": refused(bytes(flipped), "1: the gzip data is damaged", "gzip -t"),
        "gzip_header": refused(whole[:5], "1: the gzip data is damaged", "gzip -t"),
        "gzip_noise": refused(b"\x1f\x8b" + b"\xaa" * 99, "1: the gzip data is damaged", "gzip -t"),
        "gzip_in_name_only": refused(content, "1: is called .gz but is not gzip", "Rename it"),
        "gzip_bomb": Case(
            name,
            lambda: renamed(layout, packed(bytes(16 * MIB)) * 64, ".gz"),
            refusal=(f"{file}:1: the line has more than 16,777,216 bytes", "one text on each line"),
        ),
    }


AUTO = ("tsv", "jsonl", "labelled", "tagged", "rated")


def ragged() -> dict[str, Case]:
    cases = {}
    for name in COLUMNS:
        layout = LAYOUTS[name]
        (good,) = layout.row(GOOD, b"x")
        source, target = good.split(b"\t")
        place = f"{layout.name}:{BAD_LINE}: "
        for kind, row, told, remedy, counted in (
            ("one_column", source, "1 column", SKIP, "columns"),
            ("three_columns", good + b"\tc", "3 columns", SKIP, "columns"),
            ("spaces_for_a_tab", source + b"    " + target, "1 column", SKIP, "columns"),
            ("many_columns", b"\t".join([b"x"] * 50_000), "50000 columns", SKIP, "columns"),
            ("no_source", b"\t" + target, "", "data.empty_lines: skip", "empty"),
            ("no_target", source + b"\t", "", "data.empty_lines: skip", "empty"),
            ("only_a_tab", b"\t", "", "data.empty_lines: skip", "empty"),
        ):
            cases[f"{name}: {kind}"] = Case(
                name, layout.with_row((row,)), refusal=(place + told, remedy), kept=GOOD, counts={counted: 1}
            )
        cases[f"{name}: blank_between"] = Case(name, layout.with_row((b"",)), kept=GOOD, counts={"blank": 1})
    for name in INFLECTIONS:
        layout = LAYOUTS[name]
        (good,) = layout.row(GOOD, b"x")
        place = f"{layout.name}:{BAD_LINE}: "
        cells = good.split(b"\t")
        features = 2 if name == "sigmorphon2017" else 1
        without = [cell if place_ != features else b"" for place_, cell in enumerate(cells)]
        for kind, row, told in (
            ("two_columns", b"\t".join(cells[:2]), "2 columns"),
            ("four_columns", good + b"\tx", "4 columns"),
            ("no_lemma", b"\t".join([b"", *cells[1:]]), "no lemma"),
            ("no_features", b"\t".join(without), "no features"),
        ):
            counted = {"lemma" if kind.startswith("no_") else "columns": 1}
            cases[f"{name}: {kind}"] = Case(
                name, layout.with_row((row,)), refusal=(place + told, SKIP), kept=GOOD, counts=counted
            )
    return cases


RECORDS = {
    "nan": (b'{"source": NaN, "target": "b"}', "NaN is not JSON"),
    "infinity": (b'{"source": "a", "target": -Infinity}', "-Infinity is not JSON"),
    "duplicate_keys": (b'{"source": "a", "source": "c", "target": "b"}', "the key 'source' stands twice"),
    "deep_objects": (b'{"source":' * 100_000, "nested too deeply"),
    "deep_lists": (b'{"source": ' + b"[" * 100_000, "nested too deeply"),
    "huge_integer": (b'{"source": 1' + b"0" * 5000 + b', "target": "b"}', "4300"),
    "missing_key": (b'{"source": "a", "goal": "b"}', "no key 'target'; there are: 'source', 'goal'"),
    "no_keys": (b"{}", "no key 'source'; there are: none"),
    "null": (b'{"source": null, "target": "b"}', "must be a string or a number, and is null"),
    "list": (b'{"source": ["a"], "target": "b"}', "and is a list"),
    "object": (b'{"source": {}, "target": "b"}', "and is an object"),
    "truth": (b'{"source": true, "target": "b"}', "and is true or false"),
    "cut": (b'{"source": "a", "targ', "not JSON"),
    "two_on_a_line": (b'{"source": "a", "target": "b"} {"source": "c", "target": "d"}', "not JSON (Extra data"),
    "array": (b'[{"source": "a", "target": "b"}]', "a JSON object was expected"),
    "string": (b'"source"', "a JSON object was expected"),
    "number": (b"17", "a JSON object was expected"),
    "single_quotes": (b"{'source': 'a', 'target': 'b'}", "not JSON"),
    "trailing_comma": (b'{"source": "a", "target": "b",}', "not JSON"),
    "comment": (b'// {"source": "a", "target": "b"}', "not JSON"),
    "half_surrogate": (b'{"source": "\\ud800", "target": "b"}', "half of a surrogate pair"),
    "raw_control": (b'{"source": "a\x01b", "target": "b"}', "not JSON (Invalid control character"),
    "not_json": (b"a\tb", "not JSON"),
}


def records() -> dict[str, Case]:
    layout = LAYOUTS["jsonl"]
    cases = {
        f"jsonl: {kind}": Case(
            "jsonl",
            layout.with_row((row,)),
            refusal=(f"{layout.name}:{BAD_LINE}: ", told),
            kept=GOOD,
            counts={"json": 1},
            checked="json",
        )
        for kind, (row, told) in RECORDS.items()
    }
    numbers = json.dumps({"source": 17, "target": 1.5}).encode()
    cases["jsonl: numbers_are_texts"] = Case("jsonl", layout.with_row((numbers,)), kept=GOOD + 1)
    array = b"[\n" + b",\n".join(row for (row,) in layout.good()) + b"\n]\n"
    cases["jsonl: an_array"] = Case("jsonl", {"a.jsonl": array}, refusal=("a.jsonl:1: ", "jq -c"))
    return cases


def answers() -> dict[str, Case]:
    cases = {}
    for kind, value in {
        "word": "many",
        "nan": "nan",
        "infinite": "inf",
        "too_large": "1e999",
        "decimal_comma": "0,5",
        "two": "1 2",
        "hexadecimal": "0x10",
    }.items():
        layout = LAYOUTS["rated"]
        cases[f"rated: {kind}"] = Case(
            "rated",
            layout.with_row((f"x\t{value}".encode(),)),
            refusal=(f"a.tsv:{BAD_LINE}: the target: ", SKIP),
            kept=GOOD,
            counts={"misfit": 1},
        )
    for kind, row in {"too_many_tags": b"x y\tT T T", "too_few_tags": b"x y\tT"}.items():
        cases[f"tagged: {kind}"] = Case(
            "tagged",
            LAYOUTS["tagged"].with_row((row,)),
            refusal=(f"a.tsv:{BAD_LINE}: the source has 2 words, and the target", SKIP),
            kept=GOOD,
            counts={"misfit": 1},
        )
    return cases


def counts_off() -> dict[str, Case]:
    cases = {}
    for kind, less, more in (("by_one", 8, 9), ("by_a_thousand", 3, 1003), ("one_is_empty", 0, 5)):
        rows = [b"x\n" * less, b"x\n" * more]
        for place, (short, contents) in enumerate((("a.en", rows), ("a.de", rows[::-1]))):
            cases[f"parallel: {kind} {place}"] = Case(
                "parallel",
                dict(zip(("a.en", "a.de"), contents, strict=True)),
                refusal=(f"{short}:{less + 1}: the line is missing", "Look for a line that was lost or split"),
            )
    cases["parallel: both_empty"] = Case(
        "parallel", {"a.en": b"", "a.de": b""}, refusal=("a.de: not one example", "There are no lines in it")
    )
    cases["parallel: all_blank"] = Case(
        "parallel", {"a.en": b"\n" * 99, "a.de": b"\n" * 99}, refusal=("a.en:1: ", "data.empty_lines: skip")
    )
    blank = "passed over: 1,000"
    for name, told in (("lines", blank), ("sigmorphon2017", blank), ("tsv", "right file?")):
        file = LAYOUTS[name].name
        cases[f"{name}: all_blank"] = Case(name, {file: b"\n" * 1000}, refusal=(file, told))
    return cases


def _png(width: int, height: int) -> bytes:
    """A picture that claims a size, and holds nothing of it."""
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    pixels = b"IDAT" + zlib.compress(b"\0")
    chunks = (struct.pack(">I", len(one) - 4) + one + struct.pack(">I", zlib.crc32(one)) for one in (header, pixels))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def pictures() -> dict[str, Case]:
    def save(name: str, content: bytes):
        return lambda folder: (folder / name).write_bytes(content) and None

    def deep(folder: Path) -> None:
        Image.new("I;16", (4, 4), 70).save(folder / "x.png")

    makes = {
        "missing": (None, "there is no such picture"),
        "empty": (lambda folder: (folder / "x.png").touch(), "cannot be read as a picture"),
        "text": (save("x.png", b"no picture"), "cannot be read as a picture"),
        "cut": (save("x.png", _png(4, 4)), "cannot be read as a picture"),
        "bomb": (save("x.png", _png(60_000, 60_000)), "pixels"),
        "large": (save("x.png", _png(2_001, 2_000)), "4,000,000 pixels"),
        "sixteen_bit": (deep, "more than 8 bit"),
        "folder": (lambda folder: (folder / "x.png").mkdir(), "cannot be read as a picture"),
        "pipe": (lambda folder: pipe(folder / "x.png"), "a pipe or a device is no file"),
        "device": (lambda folder: (folder / "x.png").symlink_to("/dev/zero"), "a pipe or a device is no file"),
        "link_loop": (lambda folder: loop(folder / "x.png"), "cannot be read as a picture"),
        "postscript": (save("x.png", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n"), "cannot be read"),
    }
    layout = LAYOUTS["pictures"]
    cases = {
        f"pictures: picture_{kind}": Case(
            "pictures",
            layout.with_row((b"x.png\tcaption",)),
            refusal=(f"a.tsv:{BAD_LINE}: ", told),
            kept=GOOD,
            counts={"misfit": 1},
            make=make,
        )
        for kind, (make, told) in makes.items()
    }
    nul = layout.with_row((b"x\0.png\tcaption",))
    cases["pictures: picture_nul_in_name"] = Case(
        "pictures", nul, refusal=(f"a.tsv:{BAD_LINE}: ", SKIP), kept=GOOD, counts={"misfit": 1}
    )
    return cases


def _with_long_line(layout: Layout, piece: bytes) -> dict[str, bytes]:
    return layout.with_text(piece * (2 * MIB))


def long_lines() -> dict[str, Case]:
    """A line of 10 MB is too long for any model, and is left out and counted, or refused where words have tags."""
    cases = {}
    for name in ("parallel", "tsv", "jsonl", "lines", "sigmorphon2016", "labelled", "rated", "pictures"):
        piece = b"wwwww" if name.startswith("sig") else b"wort "
        make = partial(_with_long_line, LAYOUTS[name], piece)
        cases[f"{name}: ten_megabytes"] = Case(name, make, kept=GOOD, counts={"long": 1}, checked="long")
    cases["tagged: ten_megabytes"] = Case(
        "tagged",
        partial(_with_long_line, LAYOUTS["tagged"], b"wort "),
        refusal=(f"a.tsv:{BAD_LINE}: the source has more than 65,536 tokens", SKIP),
        kept=GOOD,
        counts={"misfit": 1},
    )
    return cases


CASES: dict[str, Case] = {
    **not_utf8(),
    **odd_texts(),
    **{name: case for layout in WHOLE for name, case in whole_files(layout).items()},
    **ragged(),
    **records(),
    **answers(),
    **counts_off(),
    **pictures(),
    **long_lines(),
}
