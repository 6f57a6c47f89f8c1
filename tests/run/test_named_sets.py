"""Sets that a user names beside a run are read as the run's own data was, wherever they are of that kind."""

import gzip
import io
import sys
from pathlib import Path

import pytest

from regard.data import Ledger
from regard.errors import DataError, UsageError
from regard.recipe import recipe_from
from regard.recipe.schema import Recipe
from regard.run.sets import read_set


def recipe(**data: object) -> Recipe:
    return recipe_from({"data": {"train": "train.tsv", **data}})


def pairs(found: Recipe, *files: Path | str) -> list[tuple[str, str]]:
    return [(example.source, example.target) for example in read_set(found, [str(file) for file in files])]


@pytest.mark.parametrize("name", ["test.tsv", "test.txt", "test", "test.tsv.gz"])
@pytest.mark.parametrize("format", ["tsv", "auto"])
def test_columns_of_the_recipe_hold_whatever_the_name(tmp_path: Path, name: str, format: str) -> None:
    path = tmp_path / name
    content = b"a\tb\tc\nd\te\tf\n"
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    assert pairs(recipe(format=format, source=2, target=0), path) == [("c", "a"), ("f", "d")]
    assert pairs(recipe(format=format), path) == [("a", "b"), ("d", "e")]


def test_names_of_a_header_hold(tmp_path: Path) -> None:
    path = tmp_path / "test.tsv"
    path.write_text("de\ten\nHut\that\n")
    assert pairs(recipe(format="tsv", source="en", target="de"), path) == [("hat", "Hut")]


def test_keys_of_the_recipe_hold_where_they_are(tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl"
    other.write_text('\n{"en": "hat", "de": "Hut", "fr": "chapeau"}\n')
    split = tmp_path / "split.jsonl"
    split.write_text('{"source": "hat", "target": "Hut", "place": {"file": "x", "line": 1}}\n')
    for format in ("jsonl", "auto"):
        found = recipe(format=format, source="en", target="fr")
        assert pairs(found, other) == [("hat", "chapeau")]
        assert pairs(found, split) == [("hat", "Hut")]
    assert pairs(recipe(), split) == [("hat", "Hut")]


def test_the_order_of_a_shared_task_holds(tmp_path: Path) -> None:
    path = tmp_path / "test"
    path.write_text("geben\tgab\tV;PST\n")
    found = recipe(format="sigmorphon2017")
    assert pairs(found, path) == [("geben\tV;PST", "gab")]
    split = tmp_path / "test.jsonl"
    split.write_text('{"source": "geben\\tV;PST", "target": "gab"}\n')
    assert pairs(found, split) == [("geben\tV;PST", "gab")]


def test_two_files_are_parallel(tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("x\ny\n")
    (tmp_path / "a.de").write_text("u\nv\n")
    found = recipe(format="jsonl", source="en", target="fr")
    assert pairs(found, tmp_path / "a.en", tmp_path / "a.de") == [("x", "u"), ("y", "v")]
    (tmp_path / "a.de").write_text("u\n")
    with pytest.raises(DataError, match=r"a\.de:2: the line is missing"):
        pairs(found, tmp_path / "a.en", tmp_path / "a.de")


def test_standard_input_is_of_the_format_of_the_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\tb\n")))
    assert pairs(recipe(format="tsv", source=1, target=0), "-") == [("b", "a")]


@pytest.mark.parametrize("count", [0, 3])
def test_other_numbers_of_files_are_refused(count: int) -> None:
    with pytest.raises(UsageError, match=f"one file of pairs or two parallel files are needed, and {count} were given"):
        read_set(recipe(), ["x"] * count)


def test_what_is_passed_over_is_listed(tmp_path: Path) -> None:
    (tmp_path / "test.tsv").write_text("a\tb\n\nc\td\n")
    ledger = Ledger()
    assert len(read_set(recipe(), [str(tmp_path / "test.tsv")], ledger)) == 2
    assert ledger.counts == {"blank": 1}
