"""Corpora that nobody wants: every format that is read, with everything that can be wrong with its files."""

import gzip
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image

from regard.recipe import recipe_from
from regard.recipe.schema import Recipe

NOT_UTF8 = {
    "latin1": b"stra\xdfe",
    "lone_continuation": b"\x80",
    "two_continuations": b"\xbf\xbf",
    "cut_two_byte": b"\xc3",
    "cut_three_byte": b"\xe2\x82",
    "cut_four_byte": b"\xf0\x9f\x98",
    "overlong_slash": b"\xc0\xaf",
    "overlong_nul": b"\xc0\x80",
    "surrogate": b"\xed\xa0\x80",
    "beyond_unicode": b"\xf4\x90\x80\x80",
    "five_byte": b"\xf8\x88\x80\x80\x80",
    "byte_ff": b"\xff",
}

TEXT = {
    "nul": ("a\0b", "nul"),
    "lone_cr": ("a\rb", "control"),
    "line_separator": ("a\u2028b", "separator"),
    "next_line": ("a\x85b", "separator"),
    "vertical_tab": ("a\x0bb", "control"),
    "form_feed": ("a\x0cb", "control"),
    "zalgo": ("a" + "\u0300\u0323\u0489" * 60, "not_nfc"),
    "bidi": ("\u202eabc\u2066", "direction"),
    "typed_names": ("<s> <pad> </s> <unk> <mask>", "markup"),
    "quotes": ('"a "quoted" text', ""),
    "noncharacter": ("a\ufffe\uffffb", ""),
    "byte_order_mark_inside": ("a\ufeffb", "invisible"),
    "emoji": ("👩‍👩‍👧‍👦", ""),
    "private_use": ("\ue000", ""),
    "terminal_escape": ("\x1b[2J\x1b]0;x\x07", "control"),
    "backslashes": ("\\n\\t\\", ""),
    "entities": ("<b>&lt;</b>", "entity"),
    "replacement": ("caf\ufffd", "replacement"),
    "mojibake": ("caf\u00c3\u00a9", "mojibake"),
}
"""Texts that are kept as they are, and what `regard data check` calls them."""

GOOD = 8
BAD_LINE = 3


@dataclass(frozen=True)
class Layout:
    """A format: the names of its files, the line that holds a text, and the recipe that reads it."""

    names: tuple[str, ...]
    row: Callable[[int, bytes], tuple[bytes, ...]]
    sections: Mapping[str, Any]
    checkable: bool = True

    def good(self, count: int = GOOD) -> list[tuple[bytes, ...]]:
        return [self.row(number, b"w%d" % number) for number in range(count)]

    def contents(self, rows: list[tuple[bytes, ...]]) -> dict[str, bytes]:
        return {
            name: b"".join(row[place] + b"\n" for row in rows if len(row) > place)
            for place, name in enumerate(self.names)
        }

    def with_row(self, row: tuple[bytes, ...]) -> dict[str, bytes]:
        """Good rows, and another one in line `BAD_LINE`."""
        rows = self.good()
        return self.contents([*rows[: BAD_LINE - 1], row, *rows[BAD_LINE - 1 :]])

    def with_text(self, text: bytes) -> dict[str, bytes]:
        return self.with_row(self.row(GOOD, text))

    @property
    def name(self) -> str:
        """The file that is spoiled."""
        return self.names[-1]


def tags_of(text: bytes) -> bytes:
    return b" ".join(b"T" for word in text.split(b" ") if word)


WORDS = {"unit": "word", "size": 200}
DRAWN = {"kind": "transformer", "heads": 2}
PLAIN = {"text": WORDS, "model": {}}
INFLECTION = {"text": {"shared": False, "source": {"unit": "inflection"}, "target": {"unit": "character"}}, "model": {}}


def answers(unit: str) -> dict[str, Any]:
    return {"text": WORDS | {"shared": False, "target": {"unit": unit}}, "model": {"shape": "acceptor"}}


LAYOUTS: dict[str, Layout] = {
    "parallel": Layout(("a.en", "a.de"), lambda number, text: (b"v%d" % number, text), PLAIN),
    "tsv": Layout(("a.tsv",), lambda number, text: (text + b"\tb",), PLAIN),
    "jsonl": Layout(("a.jsonl",), lambda number, text: (b'{"source": "' + text + b'", "target": "b"}',), PLAIN),
    "lines": Layout(
        ("a.txt",),
        lambda number, text: (text,),
        {
            "text": WORDS,
            "model": {"shape": "language-model"},
            "data": {"format": "lines", "source": None, "target": 0},
        },
        checkable=False,
    ),
    "sigmorphon2016": Layout(
        ("a.tsv",),
        lambda number, text: (text + b"\tpos=V,tense=PST\tform",),
        INFLECTION | {"data": {"format": "sigmorphon2016"}},
    ),
    "sigmorphon2017": Layout(
        ("a.tsv",), lambda number, text: (text + b"\tform\tV;PST",), INFLECTION | {"data": {"format": "sigmorphon2017"}}
    ),
    "sigmorphon2023": Layout(
        ("a.tsv",), lambda number, text: (text + b"\tV;PST\tform",), INFLECTION | {"data": {"format": "sigmorphon2023"}}
    ),
    "labelled": Layout(("a.tsv",), lambda number, text: (text + b"\tyes",), answers("label")),
    "rated": Layout(("a.tsv",), lambda number, text: (text + b"\t0.5",), answers("number")),
    "tagged": Layout(
        ("a.tsv",),
        lambda number, text: (text + b"\t" + tags_of(text),),
        {"text": WORDS | {"shared": False, "target": {"unit": "word"}}, "model": {"shape": "transducer"}},
    ),
    "pictures": Layout(
        ("a.tsv",),
        lambda number, text: (b"0.png\t" + text,),
        {
            "text": WORDS,
            "model": {"encoder": {"kind": "convolution", "channels": 1}, "decoder": {"kind": "rnn"}},
            "data": {"format": "tsv"},
        },
    ),
}


@dataclass(frozen=True)
class Case:
    """Files of training data, and what must come of them: examples and counts, or a refusal with a remedy.

    `make` makes what no bytes can be, such as a pipe. With `kept`, so many examples are left where bad lines are
    skipped, and `counts` is what was counted; without it, the refusal stands. Large files are made when needed.
    """

    layout: str
    files: Mapping[str, bytes] | Callable[[], Mapping[str, bytes]]
    refusal: tuple[str, str] | None = None
    kept: int | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    checked: str = ""
    make: Callable[[Path], None] | None = None

    def write(self, folder: Path) -> list[str]:
        """The files, among good pictures; their names."""
        Image.new("L", (4, 4), 7).save(folder / "0.png")
        files = self.files() if callable(self.files) else self.files
        for name, content in files.items():
            (folder / name).write_bytes(content)
        if self.make:
            self.make(folder)
        return [f"{folder}/{name}" for name in files]

    def recipe(self, folder: Path, paths: list[str], *, lenient: bool) -> Recipe:
        """Trains on the files; validation and test data are good."""
        layout = LAYOUTS[self.layout]
        held = []
        for name, content in layout.contents(layout.good()).items():
            (folder / f"held-{name}").write_bytes(content)
            held.append(str(folder / f"held-{name}"))
        rules = {"bad_lines": "skip", "empty_lines": "skip"} if lenient else {}
        sets = {"train": paths, "valid": held, "test": held}
        data = {name: files if len(files) > 1 else files[0] for name, files in sets.items()}
        sides = {"encoder": DRAWN, "decoder": DRAWN} if "decoder" not in layout.sections["model"] else {}
        if layout.sections["model"].get("shape") in ("acceptor", "transducer", "language-model"):
            sides = {"decoder" if self.layout == "lines" else "encoder": DRAWN}
        return recipe_from(
            {
                "run": str(folder / "run"),
                "data": data | rules | layout.sections.get("data", {}),
                "text": layout.sections["text"],
                "model": {"width": 8, "layers": 1, "dropout": 0.0, **sides, **layout.sections["model"]},
                "training": {"steps": 1, "batch_tokens": 100},
            }
        )


def packed(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)


def renamed(layout: Layout, content: bytes, ending: str) -> dict[str, bytes]:
    """Good files, the spoiled one under a longer name."""
    files = layout.contents(layout.good())
    del files[layout.name]
    return {**files, f"{layout.name}{ending}": content}


def spoiled(layout: Layout, change: Callable[[bytes], bytes]) -> dict[str, bytes]:
    files = layout.contents(layout.good())
    return {**files, layout.name: change(files[layout.name])}


def replaced(name: str, make: Callable[[Path], None]) -> Callable[[Path], None]:
    """Something else stands under the name of a file."""

    def do(folder: Path) -> None:
        (folder / name).unlink()
        make(folder / name)

    return do


def escaped(layout: str, text: str) -> bytes:
    return json.dumps(text)[1:-1].encode() if layout == "jsonl" else text.encode()


def loop(path: Path) -> None:
    path.symlink_to(path.name)


def pipe(path: Path) -> None:
    os.mkfifo(path)
