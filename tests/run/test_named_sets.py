"""Sets that a user names beside a run are read as the run's own data was, wherever they are of that kind."""

import gzip
import io
import sys
import tracemalloc
from pathlib import Path

import pytest

from regard.data import Ledger
from regard.errors import DataError, UsageError
from regard.recipe import recipe_from
from regard.recipe.schema import Recipe
from regard.run.sets import read_set, set_layout, stream_set


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


def language(**data: object) -> Recipe:
    return recipe_from({"data": {"train": "t", "source": None, **data}, "model": {"shape": "language-model"}})


@pytest.mark.parametrize(
    ("data", "name", "content", "assumed"),
    [
        ({"format": "tsv", "target": 1}, "a.txt", "a b\nc\n", "read as lines; the run was trained on tsv"),
        (
            {"format": "lines", "target": 0},
            "a.jsonl",
            '{"id": "1", "text": "a b"}\n{"id": "2", "text": "c"}\n',
            "read as jsonl, the text being 'text'; the run was trained on lines",
        ),
        (
            {"format": "jsonl", "target": "text"},
            "a.tsv",
            "a b\t1\nc\t2\n",
            "read as tsv, the text being 0; the run was trained on jsonl",
        ),
        (
            {"format": "lines", "target": 0},
            "a.conllu",
            "\n".join(f"{word}{8 * (chr(9) + '_')}" for word in ("1\ta", "2\tb")) + f"\n\n1\tc{8 * (chr(9) + '_')}\n",
            "read as conllu, the text being 'FORM'; the run was trained on lines",
        ),
        ({"format": "lines", "target": 0}, "a.txt", "a b\nc\n", ""),
        ({"format": "tsv", "target": 0}, "a.txt", "a b\nc\n", ""),
    ],
)
def test_one_text_is_read_in_whatever_it_comes(
    tmp_path: Path, data: dict[str, object], name: str, content: str, assumed: str
) -> None:
    path = tmp_path / name
    path.write_text(content)
    found = language(**data)
    assert set_layout(found, [str(path)]).assumed == assumed
    assert pairs(found, path) == [("", "a b"), ("", "c")]


def test_further_columns_are_found_by_their_names(tmp_path: Path) -> None:
    by_keys = recipe(format="jsonl", source="en", target="de", attributes=["topic"])
    path = tmp_path / "a.tsv"
    path.write_text("topic\tde\ten\nwear\tHut\that\n")
    assert pairs(by_keys, path) == [("hat\twear", "Hut")]
    assert set_layout(by_keys, [str(path)]).assumed.startswith("read as tsv by the names of its columns")
    by_numbers = recipe(format="tsv", attributes=[2])
    other = tmp_path / "a.jsonl"
    other.write_text('{"en": "hat", "de": "Hut", "topic": "wear"}\n')
    with pytest.raises(DataError) as caught:
        pairs(by_numbers, other)
    assert str(caught.value) == (
        f"{other}:1: the run reads 0, 2, 1 of tsv, and this file is jsonl. Give a file of the same kind, or one whose "
        "columns or keys have these names"
    )
    other.write_text('{"a": "hat", "b": "Hut"}\n')
    with pytest.raises(DataError, match=r"a\.jsonl:1: which key holds the text is not told; there are a, b\. Call it"):
        pairs(language(format="lines", target=0), other)


def test_pairs_in_another_format_are_told(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"src": "hat", "tgt": "Hut"}\n')
    found = recipe(format="tsv", source=1, target=0)
    assert pairs(found, path) == [("hat", "Hut")]
    assert set_layout(found, [str(path)]).assumed == (
        "read as jsonl, the run was trained on tsv: lines are JSON objects; keys 'src' and 'tgt'"
    )
    assert set_layout(recipe(), [str(path)]).assumed == ""


def test_a_stream_has_the_same_examples_in_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "many.tsv"
    path.write_text("".join(f"source {number}\ttarget {number}\n" for number in range(20_000)))
    found = recipe(format="tsv")
    tracemalloc.start()
    try:
        whole = read_set(found, [str(path)])
        kept, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        assert all(one == other for one, other in zip(stream_set(found, [str(path)]), whole, strict=True))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept > 4e6
    assert peak - kept < kept / 4  # a block of the file, and no more than one example


def test_a_file_is_refused_before_its_first_example(tmp_path: Path) -> None:
    path = tmp_path / "bad.tsv"
    path.write_text("a\tb\n" * 3 + "c\n")
    with pytest.raises(DataError, match=r"bad\.tsv:4"):
        next(stream_set(recipe(format="tsv"), [str(path)]))
