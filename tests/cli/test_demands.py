"""`regard predict` with demands on its outputs."""

import json
from pathlib import Path

import pytest

from regard.cli.demands import read_constraint
from regard.errors import DataError
from tests.cli.conftest import Command

CONTENT = b"a b c\n\nh g\n"


def test_words_patterns_and_lists(regard: Command, run: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_text("A\n\nH\n")
    (tmp_path / "only.txt").write_text("C C\nD\n")
    (tmp_path / "pairs.tsv").write_text("h\tE E\n\nb\tF\n")
    for value in ("A,H", tmp_path / "bad.txt"):
        result = regard("predict", run, "--forbid", value, stdin=CONTENT)
        assert result.code == 0
        assert not {"A", "H"} & set(result.out.split())
    forced = regard("predict", run, "--force", "D D,E", stdin=CONTENT).out.splitlines()
    assert all("D D" in forced[line] and "E" in forced[line].split() for line in (0, 2))
    assert forced[1] == ""
    only = regard("predict", run, "--only", tmp_path / "only.txt", stdin=CONTENT).out.splitlines()
    assert set(only) <= {"C C", "D", ""}
    glossed = regard("predict", run, "--glossary", tmp_path / "pairs.tsv", stdin=CONTENT).out.splitlines()
    assert "F" in glossed[0].split()
    assert "E E" in glossed[2]
    assert regard("predict", run, "--matching", "A{1,2} [BC]", stdin=b"a b\n").out == "A B\n"
    out = regard("predict", run, "--sample", "--nbest", "3", "--forbid", "A", "--min-length", "3", stdin=b"a b\n").out
    texts = [line.split("\t")[2].split() for line in out.splitlines()]
    assert len(texts) == 3
    assert all("A" not in text and len(text) >= 2 for text in texts)


def test_what_cannot_be_is_counted_and_told(regard: Command, run: Path) -> None:
    result = regard("predict", run, "--numbers", "same", "--jsonl", stdin=b"a b\n1 b\n")
    first, second = map(json.loads, result.out.splitlines())
    assert (first["text"], "remark" in first) == ("A B", False)
    assert second["text"] == ""
    assert "the output must have exactly the numbers of the source ('1')" in second["remark"]
    assert "1 line with something to tell (--jsonl tells all of them); the first: line 2: no output" in result.err
    for option in ("--brackets", "--bio"):
        assert "is as demanded: the output must be" in regard("predict", run, option, "S", stdin=b"a\n").err


def test_shards_are_predicted_under_the_same_demands(regard: Command, run: Path, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_bytes(CONTENT)
    demands = ["--forbid", "A", "--block-ngrams", "2", "--length-formula", "gnmt", "--length-penalty", "0.8"]
    expected = regard("predict", run, *demands, stdin=CONTENT).out
    folder = tmp_path / "out.txt"
    assert regard("predict", run, tmp_path / "in.txt", "--output", folder, *demands).code == 0
    assert folder.read_text() == expected


def test_what_is_wrong_with_demands_is_told(regard: Command, run: Path, tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("h\tE\nb\n")
    result = regard("predict", run, "--glossary", tmp_path / "pairs.tsv", stdin=CONTENT)
    assert result.code == 4
    assert "pairs.tsv:2: a line of a glossary is SOURCE, a tab and TARGET; this one is 'b'" in result.err
    result = regard("predict", run, "--matching", "^A", stdin=CONTENT)
    assert result.code == 2
    assert "has a ^, which is not needed" in result.err
    assert regard("predict", run, "--groups", "2", "--beam", "4", stdin=b"a b\n").code == 0
    assert "groups (1) and diversity (2.0)" in regard("predict", run, "--diversity", "2", stdin=CONTENT).err


@pytest.mark.parametrize("name", ["forbid", "force", "brackets", "bio"])
def test_a_file_that_is_not_there_is_no_word(name: str, tmp_path: Path) -> None:
    for value in ("words.txt", str(tmp_path / "words")):
        with pytest.raises(DataError, match=rf"--{name} {value}: there is no such file"):
            read_constraint({name: value})


def test_words_with_a_slash_or_a_full_stop_are_words() -> None:
    for value in ("km/h", "e.g.", "3.txt.", "a.txt, b"):
        constraint = read_constraint({"forbid": value})
        assert constraint is not None
        assert constraint.forbid == tuple(word.strip() for word in value.split(","))
