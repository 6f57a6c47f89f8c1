"""The commands that can ask several runs at once: `--with`, `--language-model`, `--average`."""

import json
from pathlib import Path

import pytest

import regard as library
from regard.run.model import Model
from tests.cli.conftest import Command
from tests.toys import toy_pairs, toy_sources, write_tsv
from tests.untrained import LANGUAGE, RECURRENT, untrained_run

LINES = toy_sources(6, seed=5)
STDIN = "".join(f"{line}\n" for line in LINES).encode()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    untrained_run(folder / "first", seed=1, steps=(10, 20))
    untrained_run(folder / "second", seed=2, steps=(10, 20), model=RECURRENT)
    untrained_run(folder / "language", seed=4, **LANGUAGE)
    write_tsv(folder / "pairs.tsv", toy_pairs(8, seed=9))
    (folder / "lines.txt").write_bytes(STDIN)
    return folder


def texts(model: Model) -> str:
    return "".join(f"{one.text}\n" for one in model.predict_many(LINES))


def test_predict_asks_all_runs(regard: Command, runs: Path) -> None:
    first, second, language = runs / "first", runs / "second", runs / "language"
    both = regard("predict", first, "--with", second, stdin=STDIN)
    assert (both.code, both.out) == (0, texts(library.load(first, second)))
    weighted = regard(
        "predict", first, "--with", second, "--combine", "loglinear", "--weight", "3", "--weight", "1", stdin=STDIN
    )
    assert weighted.out == texts(library.load(first, second, combine="loglinear", weights=(3, 1)))
    fused = regard("predict", first, "--language-model", language, "--fusion", "1.5", stdin=STDIN)
    assert fused.out == texts(library.load(first, language_model=language, fusion=1.5))
    mean = regard("predict", first, "--average", "2", stdin=STDIN)
    assert mean.out == texts(Model.load(first, average=2))
    assert len({both.out, weighted.out, fused.out, mean.out, texts(Model.load(first))}) == 5


def test_evaluate_and_score_ask_all_runs(regard: Command, runs: Path) -> None:
    first, second, pairs = runs / "first", runs / "second", runs / "pairs.tsv"
    joint = library.load(first, second, average=2)
    several = ("--with", second, "--average", "2")
    scored = regard("score", first, pairs, *several)
    told = [joint.score(*pair).log_probability for pair in toy_pairs(8, seed=9)]
    assert scored.code == 0
    assert [float(one) for one in scored.out.split()] == pytest.approx(told, abs=1e-5)
    judged = regard("evaluate", first, pairs, *several, "--language-model", runs / "language", "--json")
    assert judged.code == 0
    found = json.loads(judged.out)["metrics"]["perplexity (teacher-forced)"]["value"]
    assert found == pytest.approx(joint.perplexity(joint.examples(str(pairs))).value)


def test_an_ensemble_is_compared(regard: Command, runs: Path, tmp_path: Path) -> None:
    first, second, pairs = runs / "first", runs / "second", runs / "pairs.tsv"
    joint = library.load(first, second)
    outputs = tmp_path / "joint.txt"
    outputs.write_text("".join(f"{one.text}\n" for one in joint.predict_many(s for s, _ in toy_pairs(8, seed=9))))
    metrics = ("--metric", "chrF", "--metric", "CER", "--json")
    found = regard("compare", first, f"{first}+{second}", pairs, *metrics)
    read = regard("compare", first, outputs, "--pairs", pairs, *metrics)
    assert (found.code, read.code) == (0, 0)
    ensemble, file = (json.loads(one.out)["comparisons"] for one in (found, read))
    assert [{**one, "system": ""} for one in ensemble] == [{**one, "system": ""} for one in file]
    assert ensemble[0]["difference"] != 0
    assert ensemble[0]["system"] == f"{first}+{second}"


def test_language_models_have_no_outputs_to_compare(regard: Command, runs: Path) -> None:
    for metrics in ((), ("--metric", "BLEU")):
        refused = regard("compare", runs / "first", runs / "language", runs / "pairs.tsv", *metrics)
        assert (refused.code, refused.out) == (2, "")
        told = f"{runs / 'language'}: a model of shape language-model has no outputs to compare with references"
        assert told in " ".join(refused.err.split())


def test_a_comparison_tells_what_was_cut(regard: Command, runs: Path, tmp_path: Path) -> None:
    first = runs / "first"
    pairs = write_tsv(tmp_path / "long.tsv", [("a b", "A B"), ("a " * 40, "A"), ("b a", "B A")])
    told = regard("compare", first, runs / "second", pairs, "--metric", "exact").err
    assert f"regard: {first}: 1 source was longer than data.max_length and only its beginning was read\n" in told


def test_whole_files_belong_to_all_runs_and_how_they_are_combined(regard: Command, runs: Path, tmp_path: Path) -> None:
    first, second, lines, out = runs / "first", runs / "second", runs / "lines.txt", tmp_path / "out"
    begun = regard("predict", first, lines, "--with", second, "--output", out)
    assert begun.code == 0
    assert out.read_text() == texts(library.load(first, second))
    again = regard("predict", first, lines, "--with", second, "--combine", "loglinear", "--output", out)
    assert again.code == 2
    assert "the model has changed (combine)" in again.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--combine", "linear"], "--combine: there is one run, and nothing to combine it with; add --with RUN"),
        (["--weight", "1"], "--weight: there is one run, and nothing to combine it with; add --with RUN"),
        (["--fusion", "0.1"], "--fusion is the weight of a language model: add --language-model RUN, or leave it out"),
        (["--with", "second", "--combine", "mean"], "combine must be one of linear, loglinear, loglinear_raw, not 'me"),
        (["--average", "3"], "the mean of 3 checkpoints was asked for, and the run has 2 (steps 10, 20)"),
        (["--with", "nowhere"], "nowhere: there is no such run folder"),
    ],
)
def test_what_makes_no_sense_is_refused(regard: Command, runs: Path, arguments: list[str], message: str) -> None:
    given = [runs / one if one in ("second", "nowhere") else one for one in arguments]
    result = regard("predict", runs / "first", *given, stdin=STDIN)
    assert (result.code, result.out) == (5 if "nowhere" in arguments else 2, "")
    assert message in " ".join(result.err.split())


def test_forked_workers_have_the_model_as_it_was_put_together(regard: Command, runs: Path, tmp_path: Path) -> None:
    command = ("predict", runs / "first", runs / "lines.txt", "--language-model", runs / "language", "--output")
    for name, how in (("here", ()), ("there", ("--workers", "2", "--shard-lines", "1"))):
        assert regard(*command, tmp_path / name, *how).code == 0
    assert (tmp_path / "there").read_bytes() == (tmp_path / "here").read_bytes()


@pytest.mark.parametrize("how", [["--workers", "2"], ["--on", "ray"]])
def test_other_processes_open_one_run_as_it_is(
    regard: Command, runs: Path, tmp_path: Path, how: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.run.forks.can_fork", lambda: False)
    for given in (["--average", "2"], ["--language-model", runs / "language"]):
        result = regard("predict", runs / "first", runs / "lines.txt", "--output", tmp_path / "out", *how, *given)
        assert result.code == 2
        assert "other processes open one run as it is: leave out --workers and --on" in " ".join(result.err.split())


def test_what_is_no_probability_is_not_told_as_one(regard: Command, runs: Path) -> None:
    both = ("predict", runs / "first", "--with", runs / "second", "--jsonl", "--nbest", "2", "--combine")
    raw, proper = (json.loads(regard(*both, way, stdin=b"a b\n").out) for way in ("loglinear_raw", "loglinear"))
    assert "log_probability" in proper
    assert "log_probability" in proper["nbest"][0]
    assert "log_probability" not in raw
    assert "log_probability" not in raw["nbest"][0]


@pytest.mark.parametrize(
    ("asked", "told"), [(("--language-model", "language"), "--language-model: this"), (("--beam", "2"), "--beam: this")]
)
def test_evaluate_refuses_what_a_perplexity_does_not_need(
    regard: Command, runs: Path, asked: tuple[str, str], told: str
) -> None:
    option, value = asked
    found = regard(
        "evaluate", runs / "language", runs / "lines.txt", option, runs / value if value.isalpha() else value
    )
    assert found.code == 2
    assert f"{told} model is judged by its perplexity, without a search; leave out" in found.err
