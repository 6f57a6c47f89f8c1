"""A write that fails leaves what was there, says why, and leaves nothing behind."""

import errno
import os
from contextlib import nullcontext
from pathlib import Path

import pytest

from regard.errors import ResourceError, UsageError
from regard.files import make_folder, remove_waiting, replace_file, sync_folder, write_synced


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "x.json"
    replace_file(path, b"old")
    replace_file(path, b"new")
    assert path.read_bytes() == b"new"
    assert [file.name for file in path.parent.iterdir()] == ["x.json"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_replacement_that_fails_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = tmp_path / "file.json"
    replace_file(path, b"old")

    def failing(*arguments: object) -> None:
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    monkeypatch.setattr(os if call == "fsync" else Path, call, failing)
    with pytest.raises(
        ResourceError,
        match=r"file\.json: there is no room to write 3 bytes \(Disk quota exceeded\)\. What was saved before",
    ):
        replace_file(path, b"new")
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["file.json"]


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UsageError, match=r"x\.json: cannot be written \(.*\)\. What was saved before is intact"):
        replace_file(tmp_path / "file" / "x.json", b"")


def test_a_new_file_is_never_written_over_another(tmp_path: Path) -> None:
    write_synced(tmp_path / "x", b"1")
    with pytest.raises(FileExistsError):
        write_synced(tmp_path / "x", b"2")


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (errno.EIO, rf"the disk does not take 3 bytes \({os.strerror(errno.EIO)}\)\. What was saved"),
        (
            errno.EROFS,
            rf"the disk does not take 3 bytes \({os.strerror(errno.EROFS)}\)\. What was saved .* \(it was mounted so",
        ),
    ],
    ids=["EIO", "EROFS"],
)
def test_a_disk_that_fails_is_not_a_matter_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, told: str
) -> None:
    def failing(handle: int, content: bytes) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "write", failing)
    with pytest.raises(ResourceError, match=rf"x\.json: {told}") as caught:
        replace_file(tmp_path / "x.json", b"new")
    assert caught.value.exit_code == 7
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_the_place_of_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "x.json").mkdir()
    with pytest.raises(UsageError, match=r"x\.json: is a folder, and a file must be written there\. Remove it"):
        replace_file(tmp_path / "x.json", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]


def test_a_write_that_takes_a_part_is_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda handle, content: real(handle, content[:3]))
    write_synced(tmp_path / "x", b"a long content")
    assert (tmp_path / "x").read_bytes() == b"a long content"


def test_folders_are_synced_into_those_around_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    monkeypatch.setattr("regard.files.sync_folder", synced.append)
    make_folder(tmp_path / "a" / "b" / "c")
    assert synced == [tmp_path.parent, tmp_path, tmp_path / "a", tmp_path / "a" / "b"]
    synced.clear()
    make_folder(tmp_path / "a" / "b" / "c")
    assert synced == [tmp_path / "a" / "b"]
    assert (tmp_path / "a" / "b" / "c").is_dir()


def test_a_folder_around_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(folder: Path) -> None:
        if folder == tmp_path.parent:
            raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("regard.files.sync_folder", forbidden)
    make_folder(tmp_path / "a")
    assert (tmp_path / "a").is_dir()


@pytest.mark.parametrize(("number", "told"), [(errno.EINVAL, False), (errno.EBADF, False), (errno.EIO, True)])
def test_file_systems_that_cannot_sync_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, told: bool
) -> None:
    def failing(handle: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(OSError, match="Input/output") if told else nullcontext():
        sync_folder(tmp_path)


def test_what_waits_is_removed_by_who_holds_the_folder(tmp_path: Path) -> None:
    for name in (".x.json.1.2.tmp", ".y.json.1.2.tmp", ".x.json.tmp"):
        (tmp_path / name).write_text("")
    remove_waiting(tmp_path, lambda name: name == "x.json")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".x.json.tmp", ".y.json.1.2.tmp"]
    remove_waiting(tmp_path / "nowhere", lambda name: True)
