"""Commands on models that are no plain encoder-decoders: what they read, what they print, what they tell."""

import json
import re
from pathlib import Path

import pytest

from regard.run.training import train
from tests.cli.conftest import Command
from tests.toy_shapes import shape_lines, shape_recipe

NAMES = ("language", "transducer", "acceptor", "rater", "masked", "category")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Runs that have hardly been trained, by their shapes."""
    found: dict[str, Path] = {}
    for name in NAMES:
        folder = tmp_path_factory.mktemp(name)
        train(shape_recipe(name, folder, steps=4))
        found[name] = folder
    return found


def test_lines_that_cannot_be_read_are_counted(regard: Command, folders: dict[str, Path]) -> None:
    result = regard(
        "predict",
        folders["category"] / "run",
        stdin=b"low\nlow\thigh\n\nlow\t\t\n",
    )
    assert result.code == 0
    lines = result.out.splitlines()
    assert len(lines) == 4
    assert lines[1:] == ["", "", ""]
    assert (
        "regard: 2 lines could not be read and were answered with a blank line; the first: line 2: a source of 1 "
        "column was expected (attributes), and there are 2\n"
    ) in result.err
    result = regard("predict", folders["language"] / "run", "--jsonl", stdin="a\nä\n".encode())
    records = [json.loads(line) for line in result.out.splitlines()]
    assert records[0]["text"].startswith("a")
    assert "fault" not in records[0]
    assert records[1]["text"].startswith("ä")
    assert records[1]["remark"] == "'ä' is not in the vocabulary and was read as <unk>"
    assert (
        "regard: 1 line with something to tell (--jsonl tells all of them); the first: line 2: 'ä' is not in the "
    ) in result.err


def test_texts_without_anything_hidden_are_counted(regard: Command, folders: dict[str, Path]) -> None:
    result = regard("predict", folders["masked"] / "run", stdin=b"a <mask> c\na b c\n\nb\n")
    assert result.out.splitlines()[1:] == ["a b c", "", "b"]
    assert result.err == (
        "regard: 2 lines with something to tell (--jsonl tells all of them); the first: line 2: there is no <mask> in "
        "it, so there was nothing to fill in\n"
    )


def test_numbers_have_no_probability(regard: Command, folders: dict[str, Path]) -> None:
    record = json.loads(regard("predict", folders["rater"] / "run", "--jsonl", stdin=b"a b\n").out)
    assert "log_probability" not in record
    assert float(record["text"]) == pytest.approx(record["score"], rel=1e-3)


def test_a_factored_sentence_is_inspected_with_its_factors(regard: Command, tmp_path: Path) -> None:
    train(shape_recipe("factored", tmp_path, steps=4))
    told = "a source of 2 columns separated by tabs was expected (source, factor1), and there is 1"
    alone = regard("inspect", tmp_path / "run", "a b")
    assert (alone.code, alone.err) == (2, f"regard: the sentence cannot be read: {told}\n")
    given = regard("inspect", tmp_path / "run", "a b", "--target", "A b")
    assert (given.code, given.err) == (4, f"regard: a pair cannot be scored: {told}. The pair is 'a b' and 'A b'\n")
    assert regard("inspect", tmp_path / "run", "a b\tu l", "--target", "A b").code == 0


def test_best_answers_of_an_acceptor(regard: Command, folders: dict[str, Path]) -> None:
    result = regard("predict", folders["acceptor"] / "run", "--nbest", "2", stdin=b"a b\n\n")
    rows = [line.split("\t") for line in result.out.splitlines()]
    assert [row[0] for row in rows] == ["1", "1", "2"]
    assert {row[2] for row in rows[:2]} == {"vowel", "no vowel"}
    assert float(rows[0][1]) >= float(rows[1][1])
    refused = regard("predict", folders["transducer"] / "run", "--nbest", "2", stdin=b"a b\n")
    assert (refused.code, refused.out) == (2, "")
    assert "2 best answers were asked for, and this model has one for each source" in refused.err


def test_a_line_that_is_no_text_begins_none(regard: Command, folders: dict[str, Path]) -> None:
    """A language model begins a text at a blank line, and only there."""
    begun, refused = regard("predict", folders["language"] / "run", stdin=b"\n\xff\n").out.splitlines()
    assert begun.strip()
    assert refused == ""


def test_outputs_without_a_source_have_no_ratio_to_it(regard: Command, folders: dict[str, Path]) -> None:
    result = regard("predict", folders["language"] / "run", "--max-ratio", "2", stdin=b"a b\n")
    assert (result.code, result.out) == (2, "")
    told = "max_ratio (2.0) compares an output with the text it is made of, and this model reads none: leave it out"
    assert told in " ".join(result.err.split())


def test_a_sample_for_a_blank_line(regard: Command, folders: dict[str, Path]) -> None:
    result = regard("predict", folders["language"] / "run", "--sample", "--nbest", "5", "--seed", "2", stdin=b"\n")
    assert [line.split("\t")[0] for line in result.out.splitlines()] == ["1"] * 5
    assert len({line.split("\t")[2] for line in result.out.splitlines()}) > 1


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("language", r"^50 texts, \d+ tokens \(ends included\), perplexity \(teacher-forced\) \d+\.\d{4}$"),
        ("transducer", r"^50 pairs, \d+ tags, perplexity \d+\.\d{4}$"),
        ("acceptor", r"^50 pairs, 50 labels, perplexity \d+\.\d{4}$"),
        ("rater", r"^50 pairs, mean squared error \d+\.\d{4}, its root \d+\.\d{4}$"),
        ("category", r"^50 pairs, \d+ tokens \(ends included\), perplexity \(teacher-forced\) \d+\.\d{4}$"),
    ],
)
def test_scores_in_the_words_of_the_shape(regard: Command, folders: dict[str, Path], name: str, told: str) -> None:
    file = next(folders[name].glob("test.t*"))
    result = regard("score", folders[name] / "run", file)
    assert result.code == 0
    values = [float(line) for line in result.out.splitlines()]
    assert len(values) == 50
    assert all(value < 0 for value in values)
    assert re.search(told, result.err.strip())
    record = json.loads(regard("score", folders[name] / "run", file, "--jsonl").out.splitlines()[0])
    assert record["log_probability"] == pytest.approx(values[0], abs=1e-5)
    assert sum(token["log_probability"] for token in record["tokens"]) == pytest.approx(values[0], abs=1e-5)


def test_pairs_that_do_not_fit_have_a_blank_score(regard: Command, folders: dict[str, Path], tmp_path: Path) -> None:
    bad = tmp_path / "bad.tsv"
    bad.write_text(f"ab c\tV C\nab c\tV\nc\tC\n{'a ' * 300}\t{'V ' * 300}\n", encoding="utf-8")
    run = folders["transducer"] / "run"
    result = regard("score", run, bad)
    lines = result.out.split("\n")
    assert (result.code, len(lines), lines[1], lines[3]) == (0, 5, "", "")
    assert all(float(line) < 0 for line in (lines[0], lines[2]))
    assert (
        "regard: 2 pairs do not fit the model and have a blank line for a score; the first: "
        f"{bad}:2: the source has 2 words, and the target 1 items\n2 pairs, 3 tags, perplexity "
    ) in result.err
    records = [json.loads(line) for line in regard("score", run, bad, "--jsonl").out.splitlines()]
    assert [record["log_probability"] is None for record in records] == [False, True, False, True]
    assert records[3]["fault"] == "600 tokens (source) are more than data.max_length (256)"
    assert (records[1]["tokens"], "fault" in records[0]) == ([], False)
    bad.write_text("ab c\tV\n", encoding="utf-8")
    alone = regard("score", run, bad)
    assert (alone.code, alone.out) == (0, "\n")
    assert alone.err.endswith("0 pairs, nothing was scored\n")
    assert "regard: 1 pair does not fit the model and has a blank line for a score; the first: " in alone.err
    masked = regard("score", folders["masked"] / "run", folders["masked"] / "test.txt")
    assert masked.code == 2
    assert "a masked language model has probabilities of hidden words, not of texts" in masked.err


@pytest.mark.parametrize(
    ("name", "metrics"),
    [
        ("language", {"perplexity (teacher-forced)", "bits per character"}),
        ("category", {"perplexity (teacher-forced)"}),
        ("masked", {"masked accuracy", "perplexity (masked)"}),
        ("acceptor", {"exact", "perplexity"}),
        ("rater", {"pearson", "squared_error"}),
        ("transducer", {"accuracy", "exact", "perplexity"}),
    ],
)
def test_judging_twice_prints_the_same(
    regard: Command, folders: dict[str, Path], tmp_path: Path, name: str, metrics: set[str]
) -> None:
    file = next(folders[name].glob("test.t*"))
    first = regard("evaluate", folders[name] / "run", file, "--json")
    assert first == regard("evaluate", folders[name] / "run", file, "--json")
    assert first.err == ""
    assert set(json.loads(first.out)["metrics"]) == metrics
    outputs = regard("evaluate", folders[name] / "run", file, "-o", tmp_path / "out.txt")
    if name in ("language", "category", "masked"):
        assert outputs.code == 2
        assert "nothing was written, for this model is judged by its perplexity, without outputs" in outputs.err
        assert not (tmp_path / "out.txt").exists()
    else:
        assert len((tmp_path / "out.txt").read_text(encoding="utf-8").splitlines()) == len(shape_lines(name, 400)) // 8


@pytest.mark.parametrize("name", ["language", "masked"])
def test_a_set_of_which_nothing_can_be_judged(
    regard: Command, folders: dict[str, Path], tmp_path: Path, name: str
) -> None:
    (tmp_path / "long.txt").write_text("a " * 300 + "\n")
    result = regard("evaluate", folders[name] / "run", tmp_path / "long.txt")
    assert (result.code, result.out) == (4, "")
    assert "regard: 1 example was not scored: " in result.err
    assert f"regard: {tmp_path}/long.txt: not one of 1 examples can be judged. Mend them\n" in result.err


def test_a_beginning_that_never_ends_is_answered_with_a_blank(regard: Command, folders: dict[str, Path]) -> None:
    result = regard("predict", folders["language"] / "run", stdin=b"a " * 70_000 + b"\n")
    assert (result.code, result.out) == (0, "\n")
    assert "line 1: a beginning of more than 65,536 tokens is longer than data.max_length (256)" in result.err
