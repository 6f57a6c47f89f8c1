"""`regard predict --output`: whole files, and options that would have no effect."""

from pathlib import Path

import pytest

from tests.cli.conftest import Command

CONTENT = b"\xef\xbb\xbfa b c\r\n\nc \xff d\nh g\n" + b"a " * 300


def test_files_go_to_a_folder_as_they_go_to_standard_output(regard: Command, run: Path, tmp_path: Path) -> None:
    files = [tmp_path / "one.txt", tmp_path / "two.txt"]
    files[0].write_bytes(CONTENT)
    files[1].write_bytes(b"a\n")
    plain = [regard("predict", run, file) for file in files]
    command = ("predict", run, *files, "--output", tmp_path / "out", "--shard-lines", "2")
    result = regard(*command)
    assert (result.code, result.out) == (0, "")
    for file, one in zip(files, plain, strict=True):
        assert (tmp_path / "out" / file.name).read_text() == one.out
    told = result.err.splitlines()
    assert told[:3] == [
        "6 lines, in this process",
        f"{tmp_path}/out/one.txt: 5 lines",
        f"{tmp_path}/out/two.txt: 1 lines",
    ]
    assert told[3:] == plain[0].err.splitlines()
    again = regard(*command)
    assert (again.code, again.err.splitlines()) == (0, ["6 lines, all of them finished before", *told[3:]])
    changed = regard(*command, "--beam", "1")
    assert (changed.code, "begin anew with --overwrite" in changed.err) == (2, True)
    assert regard(*command, "--beam", "1", "--overwrite").code == 0


def test_one_file_goes_to_a_file(regard: Command, run: Path, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(CONTENT)
    result = regard("predict", run, tmp_path / "in", "-o", tmp_path / "out.txt", "--jsonl")
    assert result.code == 0
    assert (tmp_path / "out.txt").read_text() == regard("predict", run, tmp_path / "in", "--jsonl").out


def test_a_place_is_enough(regard: Command, run: Path, tmp_path: Path) -> None:
    """Without --output the folder of outputs stands beside the run, as those of sweeps do."""
    (tmp_path / "run").symlink_to(run)
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_bytes(CONTENT)
    command = ("predict", tmp_path / "run", tmp_path / "a.txt", tmp_path / "b.txt", "--on", "here")
    result = regard(*command)
    assert (result.code, result.out) == (0, "")
    plain = regard("predict", run, tmp_path / "a.txt").out
    for name in ("a.txt", "b.txt"):
        assert (tmp_path / "run-predictions" / name).read_text() == plain
        assert f"{tmp_path}/run-predictions/{name}: 5 lines" in result.err
    again = regard(*command)
    assert (again.code, "lines, in this process" in again.err) == (0, False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a", "--workers", "2", "--at-once"], "--workers: lines that are answered at once, or by an engine, have one"),
        (["a", "--workers", "2", "--engine", "native"], "have one process; leave it out"),
        (["a", "--shard-lines", "4", "--overwrite"], "--shard-lines, --overwrite: only for whole files"),
        (["--on", "ray"], "--on: only for whole files; say where they go with --output FOLDER"),
        (["a", "--on", "ray", "--engine", "native"], "--on ray: an engine searches in this process; leave it out"),
        (["a", "b"], "2 files: say where their outputs go with --output FOLDER"),
        (["-o", "out"], "--output is for whole files: name them after the run"),
        (["a", "-o", "out", "--at-once"], "--at-once is for pipes; leave it out, or leave out --output"),
        (["a", "-o", "out", "--on", "slurm"], "--on slurm: shards are predicted `here`, on `ray`, or on `ray=ADDRESS`"),
        (["a", "-o", "out", "--on", "ray="], "--on ray=: shards are predicted"),
        (["a", "-o", "out", "--prefix", "§"], "outputs cannot begin with '§'"),
        (["-", "-o", "out"], "standard input can be read only once"),
    ],
)
def test_what_makes_no_sense(
    regard: Command, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"a\n")
    result = regard("predict", run, *arguments)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert not (tmp_path / "out").exists()


def test_a_cluster_that_is_not_there(regard: Command, run: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    (tmp_path / "a").write_bytes(b"a\n")
    result = regard("predict", run, tmp_path / "a", "-o", tmp_path / "out", "--on", "ray=127.0.0.1:1")
    assert (result.code, result.out) == (7, "")
    assert "the Ray cluster at 127.0.0.1:1 cannot be used" in result.err
