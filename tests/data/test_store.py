"""The store gives back what went in, appears whole or not at all, and tells its findings again."""

import errno
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data import Example, Ledger, Place, Store, cache_folder, prepare, store_key
from regard.errors import DataError, ResourceError, UsageError

KEY = "0123abcd"


def letters(text: str) -> list[int]:
    return [ord(letter) for letter in text] if text.strip() else []


def both(source: str, target: str) -> dict[str, list[int]]:
    return {"source": letters(source), "target": letters(target)}


def examples(*rows: tuple[str, str]) -> list[Example]:
    return [Example({"source": s, "target": t}, Place("a.tsv", n)) for n, (s, t) in enumerate(rows, start=1)]


def make(folder: Path, rows: Iterable[Example], ledger: Ledger | None = None, **changes: object) -> Store:
    settings: dict[str, object] = {"empty_lines": "skip", "long_lines": "skip", "max_length": 5, "key": KEY} | changes
    settings = {"streams": ("source", "target"), "encode": both, "bad_lines": "refuse"} | settings
    return prepare(rows, folder=folder, ledger=ledger or Ledger(), **settings)  # type: ignore[arg-type]


def rows_of(store: Store) -> list[tuple[str, str]]:
    return [
        tuple("".join(map(chr, store.ids(name, index))) for name in store.streams)  # type: ignore[misc]
        for index in range(len(store))
    ]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.text("abé𐍈", min_size=1), st.text("xyz", min_size=1)), min_size=1, max_size=30))
def test_what_goes_in_comes_out(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]) -> None:
    store = make(tmp_path_factory.mktemp("store"), examples(*rows), max_length=1000)
    assert rows_of(store) == rows
    assert store.lengths("source").tolist() == [len(source) for source, _ in rows]
    assert [store.place(index).line for index in range(len(store))] == list(range(1, len(rows) + 1))
    store.verify()


def test_many_examples_pass_through_the_buffers(tmp_path: Path) -> None:
    rows = [(str(number), str(number * 7)) for number in range(70_000)]
    store = make(tmp_path, examples(*rows), max_length=9)
    assert store.ids("source", 69_999).dtype == np.int32
    assert rows_of(store) == rows
    store.verify()


def test_places_in_several_files(tmp_path: Path) -> None:
    rows = [Example({"source": "a", "target": "b"}, Place(file, line)) for file, line in (("x", 3), ("y", 1), ("x", 9))]
    store = make(tmp_path, rows)
    assert [str(store.place(index)) for index in range(3)] == ["x:3", "y:1", "x:9"]
    with pytest.raises(IndexError, match="example 3 of a store with 3"):
        store.place(3)
    with pytest.raises(IndexError, match="example -1 of a store with 3"):
        store.ids("source", -1)


def test_several_examples_are_read_at_once(tmp_path: Path) -> None:
    store = make(tmp_path, examples(("ab", "c"), ("d", "efg"), ("h", "i")))
    found = store.rows("target", np.array([2, 0, 1, 1]))
    assert ["".join(map(chr, ids)) for ids in found] == ["i", "c", "efg", "efg"]
    assert store.rows("source", np.array([], dtype=np.int64)) == []
    for wrong in (3, -1):
        with pytest.raises(IndexError, match=f"example {wrong} of a store with 3"):
            store.rows("source", np.array([1, wrong]))


def test_empty_and_long_sides_are_skipped_or_cut_and_listed(tmp_path: Path) -> None:
    rows = examples(("a", "b"), ("", "b"), ("a", " \t"), ("a" * 6, "b"), ("c", "d" * 9))
    ledger = Ledger()
    store = make(tmp_path / "skip", rows, ledger)
    assert rows_of(store) == [("a", "b")]
    assert ledger.counts == {"empty": 2, "long": 2}
    assert ledger.findings("empty")[1].detail == "the target side is empty"
    assert ledger.findings("long")[0].detail == "the source side has 6 tokens, the limit is 5"
    ledger = Ledger()
    store = make(tmp_path / "cut", rows, ledger, long_lines="cut")
    assert rows_of(store) == [("a", "b"), ("a" * 5, "b"), ("c", "d" * 5)]
    assert ledger.counts == {"empty": 2, "cut": 2}
    assert ledger.findings("cut")[1].detail == "target: 9 tokens cut to 5"
    assert ledger.findings("cut")[1].place == Place("a.tsv", 5)


@pytest.mark.parametrize(
    ("row", "changes", "message"),
    [
        (("x", ""), {"empty_lines": "refuse"}, "a.tsv:2: the target side is empty. Fill it or take the line out"),
        (
            ("x" * 6, "y"),
            {"long_lines": "refuse"},
            "a.tsv:2: the source side has 6 tokens, the limit is 5. Raise `data",
        ),
    ],
)
def test_refusals_leave_nothing_behind(
    tmp_path: Path, row: tuple[str, str], changes: dict[str, str], message: str
) -> None:
    with pytest.raises(DataError) as caught:
        make(tmp_path, examples(("a", "b"), row), **changes)
    assert str(caught.value).startswith(message)
    assert list(tmp_path.iterdir()) == []


def test_a_store_without_examples_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"not one pair is left to learn from\. There were no examples"):
        make(tmp_path, [])
    with pytest.raises(DataError, match=r"not one pair is left.*pairs with an empty side, skipped: 1 \(a\.tsv:1\)"):
        make(tmp_path, examples(("", "")))


def test_using_a_store_again_reads_nothing_and_tells_the_same(tmp_path: Path) -> None:
    first = Ledger()
    first.add("bom", Place("other.tsv", 1), "from before")

    def reading() -> Iterable[Example]:
        first.add("utf8", Place("a.tsv", 7), "while reading")
        yield from examples(("a", "b"), ("", "b"))

    make(tmp_path, reading(), first)

    def nothing() -> Iterable[Example]:
        raise AssertionError("the examples were read again")
        yield

    again = Ledger()
    store = make(tmp_path, nothing(), again)
    assert again.counts == {"utf8": 1, "empty": 1}
    assert again.findings("utf8")[0].place == Place("a.tsv", 7)
    assert store.key == KEY
    assert store.streams == ("source", "target")


@pytest.mark.parametrize("name", ["source.ids.npy", "target.offsets.npy", "lines.npy", "ledger.tsv", "manifest.json"])
def test_damage_is_found_and_the_store_made_again(tmp_path: Path, name: str) -> None:
    store = make(tmp_path, examples(("a", "b")))
    path = store.folder / name
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match=r"the prepared store is damaged: .*Delete the folder; it will be made again"):
        Store.open(store.folder)
    assert rows_of(make(tmp_path, examples(("c", "d")))) == [("c", "d")]
    path = tmp_path / KEY / name
    path.unlink()
    with pytest.raises(DataError, match=r"damaged|is not a prepared store: it has no manifest\.json"):
        Store.open(tmp_path / KEY)
    assert rows_of(make(tmp_path, examples(("e", "f")))) == [("e", "f")]
    assert [path.name for path in tmp_path.iterdir()] == [KEY]


def test_verify_finds_a_flipped_bit(tmp_path: Path) -> None:
    store = make(tmp_path, examples(("abc", "b")))
    path = store.folder / "source.ids.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"the sha256 of source\.ids\.npy is not the one in the manifest"):
        Store.open(store.folder).verify()


def edit(folder: Path, changes: dict[str, object]) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 2}, "a store of format 2; this version reads format 1. Delete the folder"),
        ({"streams": ["../../x"]}, "manifest.json lacks entries or holds wrong ones"),
        ({"contents": {}}, "manifest.json lacks entries or holds wrong ones"),
        ({"examples": "many"}, "manifest.json lacks entries or holds wrong ones"),
        ({"files": None}, "manifest.json lacks entries or holds wrong ones"),
        ({"examples": 2}, "lines.npy has 1 entries for 2 examples"),
    ],
)
def test_a_manifest_is_not_trusted(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    store = make(tmp_path, examples(("a", "b")))
    edit(store.folder, changes)
    with pytest.raises(DataError) as caught:
        Store.open(store.folder)
    assert message in str(caught.value)


def replace_array(store: Store, name: str, array: np.ndarray) -> None:  # type: ignore[type-arg]
    """Write an array and tell the manifest of it."""
    np.save(store.folder / name, array)
    contents = json.loads((store.folder / "manifest.json").read_text())["contents"]
    contents[name]["bytes"] = (store.folder / name).stat().st_size
    edit(store.folder, {"contents": contents})


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("source.offsets.npy", np.array([0, 9]), "the offsets of source do not span its 1 ids"),
        (
            "source.offsets.npy",
            np.array([0.0, 1.0]),
            "source.offsets.npy holds float64 of 1 dimensions, expected 1 of int64",
        ),
        ("lines.npy", np.array([[1]]), "lines.npy holds int64 of 2 dimensions"),
        ("lines.npy", np.array([{}], dtype=object), "lines.npy cannot be mapped"),
    ],
)
def test_arrays_are_not_trusted(tmp_path: Path, name: str, array: np.ndarray, message: str) -> None:  # type: ignore[type-arg]
    store = make(tmp_path, examples(("a", "b")))
    replace_array(store, name, array)
    with pytest.raises(DataError) as caught:
        Store.open(store.folder)
    assert message in str(caught.value)


def test_verify_finds_offsets_that_fall(tmp_path: Path) -> None:
    store = make(tmp_path, examples(("aa", "b"), ("a", "b")))
    replace_array(store, "source.offsets.npy", np.array([0, 4, 3]))
    contents = json.loads((store.folder / "manifest.json").read_text())["contents"]
    contents["source.offsets.npy"]["sha256"] = store_hash(store.folder / "source.offsets.npy")
    edit(store.folder, {"contents": contents})
    with pytest.raises(DataError, match="the offsets of source do not rise"):
        Store.open(store.folder).verify()


def store_hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_leftovers_of_killed_processes_are_removed_after_a_day(tmp_path: Path) -> None:
    for name, age in (("old", 25 * 3600), ("new", 3600)):
        (tmp_path / f".tmp-{name}").mkdir()
        os.utime(tmp_path / f".tmp-{name}", (time.time() - age,) * 2)
    make(tmp_path, examples(("a", "b")))
    assert sorted(path.name for path in tmp_path.iterdir()) == [".tmp-new", KEY]


@pytest.mark.parametrize(
    ("number", "error", "message"),
    [
        (
            errno.ENOSPC,
            ResourceError,
            "no room for the prepared data (No space left on device). Free some, or set REGARD",
        ),
        (errno.EROFS, UsageError, "the prepared data cannot be written (Read-only file system); set REGARD_CACHE to a"),
    ],
)
def test_a_disk_that_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, error: type[Exception], message: str
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(error) as caught:
        make(tmp_path, examples(("a", "b")))
    assert message in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_cache_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="the prepared data cannot be written"):
        make(tmp_path / "file", examples(("a", "b")))


RACER = """
import sys
from pathlib import Path
from regard.data import Example, Ledger, Place, prepare
rows = [Example({"source": str(n), "target": "b"}, Place("a", n)) for n in range(1, 3000)]
both = lambda *sides: {name: [ord(letter) for letter in side] for name, side in zip(("source", "target"), sides)}
Path(sys.argv[2]).touch()
while len(list(Path(sys.argv[2]).parent.glob("ready-*"))) < 4:
    pass
for key in range(10):
    store = prepare(rows, streams=("source", "target"), encode=both, folder=Path(sys.argv[1]), key=str(key),
                    bad_lines="refuse", empty_lines="refuse", long_lines="refuse", max_length=9, ledger=Ledger())
    store.verify()
    assert len(store) == 2999
"""


def test_processes_that_prepare_the_same_store_all_succeed(tmp_path: Path) -> None:
    folder = tmp_path / "stores"
    commands = [[sys.executable, "-c", RACER, str(folder), str(tmp_path / f"ready-{number}")] for number in range(4)]
    racers = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for command in commands]
    for racer in racers:
        _, stderr = racer.communicate(timeout=120)
        assert (racer.returncode, stderr) == (0, "")
    assert sorted(path.name for path in folder.iterdir()) == [str(key) for key in range(10)]


def test_another_process_was_first(tmp_path: Path) -> None:
    def slow() -> Iterable[Example]:
        make(tmp_path, examples(("first", "one")))
        yield from examples(("second", "two"))

    assert rows_of(make(tmp_path, slow(), max_length=9)) == [("first", "one")]
    assert [path.name for path in tmp_path.iterdir()] == [KEY]


def test_another_process_left_a_damaged_store_meanwhile(tmp_path: Path) -> None:
    def slow() -> Iterable[Example]:
        (make(tmp_path, examples(("first", "one"))).folder / "lines.npy").unlink()
        yield from examples(("2nd", "two"))

    assert rows_of(make(tmp_path, slow())) == [("2nd", "two")]


def test_the_key_depends_on_names_bytes_and_settings_and_on_nothing_else(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    a.write_text("one\n")
    b.write_text("one\n")
    base = store_key([a], {"unit": "bpe", "size": 8})
    assert base == store_key([a], {"size": 8, "unit": "bpe"})
    assert len(base) == 64
    others: list[tuple[Sequence[Path], dict[str, object]]] = [
        ([b], {"unit": "bpe", "size": 8}),
        ([a, a], {"unit": "bpe", "size": 8}),
        ([a], {"unit": "bpe", "size": 9}),
        ([], {"unit": "bpe", "size": 8}),
    ]
    keys = {store_key(files, settings) for files, settings in others}
    a.write_text("two\n")
    keys.add(store_key([a], {"unit": "bpe", "size": 8}))
    assert len(keys) == 5
    assert base not in keys


def test_keys_need_files_that_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="<stdin>: standard input can be read only once"):
        store_key(["-"], {})
    with pytest.raises(DataError, match="none: there is no such file"):
        store_key([tmp_path / "none"], {})

    def forbid(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "a").write_text("")
    monkeypatch.setattr(Path, "open", forbid)
    with pytest.raises(DataError, match="a: cannot be read: Permission denied"):
        store_key([tmp_path / "a"], {})


def test_the_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.delenv("REGARD_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_folder() == Path("/home/someone/.cache/regard")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache_folder() == Path("/xdg/regard")
    monkeypatch.setenv("REGARD_CACHE", "/own")
    assert cache_folder() == Path("/own")
