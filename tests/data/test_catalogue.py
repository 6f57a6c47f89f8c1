"""The corpora of a folder, as its manifest lists them."""

from pathlib import Path

import pytest

from regard.data.catalogue import Corpus, corpora
from regard.errors import DataError

HEADER = "task\tname\tpath\tbytes\texamples\tlicence\n"


def manifest(folder: Path, content: str) -> Path:
    (folder / "MANIFEST.tsv").write_text(content, encoding="utf-8")
    return folder


@pytest.mark.parametrize("header", [HEADER, ""])
def test_what_is_listed_and_there(tmp_path: Path, header: str) -> None:
    (tmp_path / "mt").mkdir()
    (tmp_path / "mt" / "wörter.tsv").write_text("")
    lines = "translation\tWörter\tmt/wörter.tsv\t12\t3\tCC0\ntranslation\tgone\tmt/gone.tsv\t1\t1\tMIT\n"
    expected = Corpus(name="Wörter", task="translation", path=tmp_path / "mt" / "wörter.tsv", examples=3, licence="CC0")
    assert corpora(manifest(tmp_path, header + lines)) == [expected]


def test_a_folder_without_a_manifest(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"there is no MANIFEST\.tsv; REGARD_DATA must name a folder of corpora"):
        corpora(tmp_path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a\tb\n", r"MANIFEST\.tsv:2: expected 6 columns separated by tabs \(task, .*\), and found 2: a\\tb"),
        ("\n", r"MANIFEST\.tsv:2: expected 6 columns .* found 1: $"),
        ("t\tn\tp\t1\tmany\tl\n", r"MANIFEST\.tsv:2: the number of examples is many, not a whole number"),
        ("t\tn\tp\t1\t²\tl\n", r"MANIFEST\.tsv:2: the number of examples is ², not a whole number"),
    ],
)
def test_a_line_that_cannot_be_read(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        corpora(manifest(tmp_path, HEADER + line))
