"""The folder that trainings run in, with the corpus where recipes look for it.

FOLDER/multi30k/                   the corpus, or a small part of it
FOLDER/recipes/multi30k/X.yaml     a copy, so that its paths lead into FOLDER
FOLDER/runs/                       the runs
FOLDER/state/                      what each run was begun with, and what it took so far
FOLDER/outputs/                    what each finished run wrote for the test set
"""

import contextlib
import gzip
import os
from itertools import islice
from pathlib import Path
from typing import Final

from multi30k.plan import Planned
from regard.files import replace_file

LANGUAGES: Final = ("en", "de", "fr")
SMALL: Final = {"train": 300, "val": 40, "test_2016_flickr": 30}
"""Pairs of each part of a small corpus."""

TEST: Final = "test_2016_flickr"


def place_corpus(folder: Path, *, small: bool) -> None:
    """Put the corpus that REGARD_DATA has, or the beginning of its files, into the folder."""
    data = os.environ.get("REGARD_DATA")
    if not data or not (corpus := Path(data).resolve() / "mt/multi30k").is_dir():
        raise SystemExit("set REGARD_DATA to the folder of corpora that has mt/multi30k")
    folder.mkdir(parents=True, exist_ok=True)
    there = folder / "multi30k"
    if small:
        there.mkdir(exist_ok=True)
        for part, count in SMALL.items():
            for language in LANGUAGES:
                for form in ("", "lc.norm.tok."):
                    _shorten(corpus, there, f"{part}.{form}{language}", count)
    elif not there.exists():
        with contextlib.suppress(FileExistsError):  # by another training that began at the same moment
            there.symlink_to(corpus)


def _shorten(corpus: Path, there: Path, name: str, count: int) -> None:
    if (corpus / f"{name}.gz").exists():
        with gzip.open(corpus / f"{name}.gz", "rb") as file:
            replace_file(there / f"{name}.gz", gzip.compress(b"".join(islice(file, count)), mtime=0))
    else:
        with (corpus / name).open("rb") as file:
            replace_file(there / name, b"".join(islice(file, count)))


def part_files(row: Planned, part: str) -> tuple[str, str]:
    """Source and target of a part that is judged, relative to the folder."""
    form = "" if row.raw else "lc.norm.tok."
    source, target = row.pair
    return f"multi30k/{part}.{form}{source}", f"multi30k/{part}.{form}{target}"
