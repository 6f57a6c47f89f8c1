"""A write that fails leaves what was there, says why, and leaves nothing behind."""

import errno
import os
from pathlib import Path

import pytest

from regard.errors import ResourceError, UsageError
from regard.files import replace_file, write_synced


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
