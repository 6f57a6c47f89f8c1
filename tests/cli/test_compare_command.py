"""`regard compare`, and what `regard evaluate` measures when it is told to."""

import json
from pathlib import Path

import pytest

from regard.run.training import Trained
from tests.cli.conftest import Command
from tests.toys import toy_pairs, write_tsv


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    return write_tsv(tmp_path / "held.tsv", toy_pairs(30, seed=8))


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path, Path]:
    """References, outputs that are right, and outputs that are not."""
    gold = [target for _, target in toy_pairs(30, seed=8)]
    names = tmp_path / "gold.txt", tmp_path / "good.txt", tmp_path / "bad.txt"
    for name, lines in zip(names, (gold, gold, [f"Q {line[2:]}" for line in gold]), strict=True):
        name.write_text("".join(f"{line}\n" for line in lines))
    return names


def test_files_of_outputs_are_compared(regard: Command, files: tuple[Path, Path, Path]) -> None:
    gold, good, bad = files
    result = regard("compare", bad, good, bad, "--reference", gold, "--metric", "WER", "--metric", "exact")
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[0] == f"{gold} (30 segments), against {bad}"
    assert [line.split()[0] for line in lines if line.startswith("  WER  ")] == ["WER", "WER"]
    assert sum(line.endswith("better") for line in lines) == 2
    assert "  exact: nrefs:1|paired_bs:1000|seed:12345|case:mixed|version:regard-1|ar:1000|ar_seed:12345" in lines
    arguments = ("compare", bad, good, "-r", gold, "-r", gold, "--seed", "3", "--resamples", "50", "--trials", "60")
    record = json.loads(regard(*arguments, "--json").out)
    assert [entry["metric"] for entry in record["comparisons"]] == ["BLEU", "chrF", "TER"]
    assert record["first"] == str(bad)
    for entry in record["comparisons"]:
        assert entry["signature"].startswith("nrefs:2|paired_bs:50|seed:3|")
        assert entry["signature"].endswith("|ar:60|ar_seed:3")
        assert entry["low"] <= entry["difference"] <= entry["high"]
        assert entry["randomised_p_value"] == pytest.approx(1 / 61)
        assert entry["verdict"] == "better"
    meteor = regard("compare", bad, good, "-r", gold, "-m", "METEOR", "--meteor", "1.0-ranking", "--json")
    assert "|param:1.0-ranking|" in json.loads(meteor.out)["comparisons"][0]["signature"]


def test_runs_are_compared(regard: Command, run: Path, pairs: Path, files: tuple[Path, Path, Path]) -> None:
    same = regard("compare", run, run, pairs, "--beam", "1", "--json")
    assert same.code == 0
    entries = json.loads(same.out)["comparisons"]
    assert [entry["metric"] for entry in entries] == ["exact", "BLEU"]
    assert {(entry["difference"], entry["p_value"], entry["verdict"]) for entry in entries} == {(0, 1, "open")}
    mixed = regard("compare", run, files[1], "--pairs", pairs, "--json")
    assert json.loads(mixed.out)["comparisons"][0]["other"] == 100
    own = regard("compare", run, run, "--metric", "exact", "--json")
    assert own.code == 0
    assert json.loads(own.out)["comparisons"][0]["count"] == 40


def test_what_cannot_be_compared(regard: Command, run: Path, files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    gold, good, bad = files
    (tmp_path / "short.txt").write_text("a\n")
    for arguments, code, message in (
        ([good], 2, "1 system was given: a comparison needs 2 or more"),
        ([good, bad], 2, "files of outputs are compared by their references: name them with --reference FILE"),
        ([run, bad, "-r", gold], 2, "references stand beside files of outputs only"),
        ([run, run, "-m", "MRR"], 2, "MRR judge several answers, and runs are compared by one"),
        ([good, bad, "-r", gold, "-m", "bleu"], 2, "unknown metric 'bleu'"),
        ([good, tmp_path / "short.txt", "-r", gold], 4, "short.txt has 1 outputs, and there are 30 references"),
        ([good, bad, "-r", gold, "-r", tmp_path / "short.txt"], 4, "gold.txt has 30 lines and"),
        ([good, tmp_path / "none.txt", "-r", gold], 4, "none.txt: there is no such file"),
        ([good, bad, "-r", gold, "--wordnet", "x"], 2, "wordnet can only have an effect on METEOR"),
        ([good, bad, "-r", gold, "--beam", "3"], 2, "a beam (3) can only have an effect on runs"),
    ):
        result = regard("compare", *arguments)
        assert (result.code, result.out) == (code, ""), arguments
        assert message in result.err


def test_metrics_can_be_named(regard: Command, run: Path, pairs: Path) -> None:
    names = ["METEOR", "WER", "CER", "MRR", "P@1", "accuracy"]
    asked = [word for name in names for word in ("--metric", name)]
    record = json.loads(regard("evaluate", run, pairs, *asked, "--meteor", "2005", "--json").out)["metrics"]
    assert list(record) == [*names, "perplexity (teacher-forced)"]
    assert "|param:2005|" in record["METEOR"]["signature"]
    assert record["MRR"]["value"] >= record["P@1"]["value"]
    assert record["MRR"]["parts"]["candidates"] > 1
    same = json.loads(regard("evaluate", run, pairs, "--json", "-m", "exact").out)["metrics"]
    assert record["P@1"]["value"] == same["exact"]["value"]


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["-m", "rouge"], 2, "unknown metric 'rouge': must be one of BLEU"),
        (["--meteor", "1.0"], 2, "version can only have an effect on METEOR; ask for --metric METEOR, too"),
        (["-m", "METEOR", "--meteor", "7"], 2, "METEOR has no version '7'"),
        (["-m", "METEOR", "--wordnet", "nowhere"], 4, "index.noun: cannot be read"),
        (["-m", "pearson"], 4, "numbers were expected"),
        (["--tokenize", "x"], 2, "tokenize = 'x': words can cut text by 13a"),
        (["--tags", "x"], 2, "--tags have an effect on the page only: give --report FILE, too"),
    ],
)
def test_what_cannot_be_measured(
    regard: Command, run: Path, pairs: Path, options: list[str], code: int, message: str
) -> None:
    result = regard("evaluate", run, pairs, "--beam", "1", *options)
    assert (result.code, result.out) == (code, "")
    assert message in result.err


def test_an_evaluation_has_a_page(regard: Command, run: Path, pairs: Path, tmp_path: Path, trained: Trained) -> None:
    tags = tmp_path / "tags.txt"
    tags.write_text("".join(" ".join("X" for _ in target.split()) + "\n" for _, target in toy_pairs(30, seed=8)))
    page = tmp_path / "page.html"
    result = regard("evaluate", run, pairs, "--beam", "1", "--report", page, "--tags", tags)
    assert (result.code, result.err) == (0, "")
    text = page.read_text(encoding="utf-8")
    for part in ("By length of the source", "By frequency of words", "By label of the word", "The worst outputs"):
        assert part in text
    tags.write_text("X\n")
    short = regard("evaluate", run, pairs, "--beam", "1", "--report", page, "--tags", tags)
    assert short.code == 4
    assert "tags.txt has 1 lines, and there are 30 references" in short.err
