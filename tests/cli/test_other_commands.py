"""`regard score`, `evaluate`, `inspect` and `data`."""

import json
from pathlib import Path

import pytest

from regard.run.training import Trained
from tests.cli.conftest import Command
from tests.toys import toy_pairs, write_tsv


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    return write_tsv(tmp_path / "held.tsv", toy_pairs(30, seed=8))


# score


def test_scores_are_a_line_each(regard: Command, run: Path, pairs: Path, trained: Trained) -> None:
    result = regard("score", run, pairs)
    assert result.code == 0
    expected = [trained.model.score(*pair).log_probability for pair in toy_pairs(30, seed=8)]
    assert [float(line) for line in result.out.splitlines()] == pytest.approx(expected, abs=2e-5)
    assert result.err.startswith("30 pairs, ")
    assert "perplexity (teacher-forced) " in result.err
    records = [json.loads(line) for line in regard("score", run, pairs, "--jsonl").out.splitlines()]
    assert [record["log_probability"] for record in records] == pytest.approx(expected, abs=2e-5)
    assert [token["piece"] for token in records[0]["tokens"]] == [*records[0]["target"].split(), "</s>"]


def test_parallel_files_are_scored_too(regard: Command, run: Path, tmp_path: Path) -> None:
    (tmp_path / "x.en").write_text("a b\nc\n")
    (tmp_path / "x.de").write_text("A B\nC\n")
    assert len(regard("score", run, tmp_path / "x.en", tmp_path / "x.de").out.splitlines()) == 2
    (tmp_path / "x.de").write_text("A B\n")
    result = regard("score", run, tmp_path / "x.en", tmp_path / "x.de")
    assert (result.code, result.out) == (4, "")
    assert "x.de:2: the line is missing" in result.err
    assert regard("score", run, "a", "b", "c").code == 2


# evaluate


def test_evaluating_twice_gives_the_same_numbers(regard: Command, run: Path, trained: Trained) -> None:
    held = str(trained.model.recipe.data.test)
    first, second = regard("evaluate", run, held), regard("evaluate", run, held)
    assert first == second
    assert (first.code, first.err) == (0, "")
    assert first.out.startswith(f"{held} (40 pairs)\n")
    assert "  exact" in first.out
    assert "  alignment error" in first.out
    record = json.loads(regard("evaluate", run, held, "--json").out)
    saved = json.loads((run / "metrics.json").read_text())
    assert record == {"format": 1, "metrics": saved["metrics"]}
    assert all(entry["signature"] in first.out for entry in saved["metrics"].values())


def test_outputs_can_be_kept(regard: Command, run: Path, pairs: Path, tmp_path: Path) -> None:
    result = regard("evaluate", run, pairs, "--beam", "1", "-o", tmp_path / "out.txt")
    assert result.code == 0
    outputs = (tmp_path / "out.txt").read_text(encoding="utf-8").splitlines()
    sources = "".join(f"{source}\n" for source, _ in toy_pairs(30, seed=8)).encode()
    assert outputs == regard("predict", run, "--beam", "1", stdin=sources).out.splitlines()
    nowhere = regard("evaluate", run, pairs, "-o", tmp_path / "nowhere" / "out.txt")
    assert nowhere.code == 2
    assert "out.txt: cannot be written (No such file or directory)" in nowhere.err


def test_blank_lines_between_records_are_told(regard: Command, run: Path, tmp_path: Path) -> None:
    (tmp_path / "held.tsv").write_text("a b\tA B\n\nc\tC\n")
    for verb in ("evaluate", "score"):
        result = regard(verb, run, tmp_path / "held.tsv")
        assert result.code == 0
        assert "regard: blank lines between records, passed over: 1" in result.err


# inspect


def test_inspect_draws_in_the_terminal(regard: Command, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = regard("inspect", run, "c a e")
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[0] == "C A E"
    assert result.out.count("C A E") == 1
    assert "\x1b" not in result.out
    monkeypatch.setenv("COLUMNS", "40")
    narrow = regard("inspect", run, "c a e b d f g h a b c d e f g h")
    assert all(len(line) <= 40 for line in narrow.out.splitlines()[1:])
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b" in regard("inspect", run, "c a e").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in regard("inspect", run, "c a e").out


def test_inspect_writes_pages_and_pictures(regard: Command, run: Path, tmp_path: Path) -> None:
    html, svg = tmp_path / "a b.html", tmp_path / "ü.svg"
    result = regard("inspect", run, "c a", "--target", "X Y", "--html", html, "--svg", svg)
    assert (result.code, result.out) == (0, "")
    assert result.err == f"wrote {html}\nwrote {svg}\n"
    assert svg.read_text(encoding="utf-8").startswith("<svg")
    page = html.read_text(encoding="utf-8")
    assert "<html" in page
    assert ">X<" in page
    nowhere = regard("inspect", run, "c a", "--svg", tmp_path / "nowhere" / "x.svg")
    assert nowhere.code == 2
    assert "cannot be written" in nowhere.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["  "], "regard: the sentence is blank; there is nothing to look at"),
        (["a b", "--target", " "], "regard: the output is empty; there is nothing to align. Give a target"),
        (["a b", "--layer", "3"], "regard: there is no layer 3: the decoder has 1"),
        (["a b", "--head", "2"], "regard: there is no head 2: the layer has 2"),
    ],
    ids=str,
)
def test_what_cannot_be_inspected(regard: Command, run: Path, arguments: list[str], message: str) -> None:
    result = regard("inspect", run, *arguments)
    assert (result.code, result.out) == (2, "")
    assert message in result.err


def test_layers_and_heads_can_be_chosen(regard: Command, run: Path) -> None:
    outputs = {regard("inspect", run, "c a e", "--layer", "0", "--head", head).out for head in ("0", "1")}
    assert len(outputs) == 2


# data


def test_data_list(regard: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = regard("data", "list")
    assert result.code == 0
    assert "pocket translation: en, de, fr" in result.out
    assert "set REGARD_DATA" in result.err
    (tmp_path / "mt").mkdir()
    (tmp_path / "MANIFEST.tsv").write_text("translation\tsmall\tmt\t10\t1234\tCC0\n")
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    listed = regard("data", "list")
    assert (listed.code, listed.err) == (0, "")
    assert f"small: translation, 1,234 examples, CC0\n    {tmp_path / 'mt'}" in listed.out
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "mt"))
    assert regard("data", "list").code == 4


def test_data_make(regard: Command, tmp_path: Path) -> None:
    out = tmp_path / "pocket world"
    result = regard("data", "make", "pocket", "--task", "translation", "--size", "50", out)
    assert (result.code, result.out) == (0, "")
    for name in ("train", "valid", "test", "combinations"):
        lines = (out / f"{name}.tsv").read_text(encoding="utf-8").splitlines()
        assert f"{out / name}.tsv: {len(lines):,} pairs" in result.err
        assert (out / f"{name}.jsonl").is_file()
    assert len((out / "train.tsv").read_text(encoding="utf-8").splitlines()) == 50
    assert regard("data", "make", "pocket", out, "--size", "0").code == 2
    assert regard("data", "make", "pocket", out, "--target", "en").code == 2
    assert regard("data", "make", "pocket", out, "--task", "juggling").code == 2


def test_data_check(regard: Command, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = regard("data", "check", pairs, pairs)
    assert (good.code, good.err) == (0, "")
    assert "30 lines, 30 examples" in good.out
    assert "Nothing here keeps a model from being trained." in good.out
    (tmp_path / "bad.tsv").write_bytes(b"a\tb\nc\xff\td\n")
    monkeypatch.setenv("COLUMNS", "50")
    bad = regard("data", "check", tmp_path / "bad.tsv")
    assert (bad.code, bad.err) == (4, "")
    assert "lines that are not UTF-8: 1" in bad.out
    record = regard("data", "check", tmp_path / "bad.tsv", "--json")
    assert record.code == 4
    assert json.loads(record.out)
    missing = regard("data", "check", tmp_path / "nowhere.tsv")
    assert missing.code == 4
    assert "there is no such file" in " ".join(missing.out.split())
