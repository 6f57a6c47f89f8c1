"""`regard predict --mbr` and `regard rerank`."""

import json
from pathlib import Path

import pytest

from regard.cli.risk import search_for
from regard.run.training import Trained, train
from regard.search import MinimumRisk
from tests.cli.conftest import Command
from tests.toy_shapes import shape_recipe
from tests.toys import toy_pairs, toy_recipe, toy_sources, write_tsv

SOURCES = toy_sources(4, seed=9)
CONTENT = "".join(f"{source}\n" for source in SOURCES).encode()


@pytest.fixture(scope="module")
def reverse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("back")
    file = write_tsv(folder / "pairs.tsv", [(target, source) for source, target in toy_pairs(60)])
    return train(toy_recipe(folder / "reverse", file)).model.folder


def test_least_risk_of_samples_of_a_beam_and_of_both(
    regard: Command, run: Path, trained: Trained, tmp_path: Path
) -> None:
    model = trained.model
    samples = model.options(best=10, sample=True, temperature=2.0, seed=5)
    drawn = regard(
        "predict", run, "--mbr", "chrF", "--samples", "10", "--temperature", "2", "--seed", "5", stdin=CONTENT
    )
    assert (drawn.code, drawn.err) == (0, "")
    expected = [one.text for one in model.predict_many(SOURCES, options=samples, risk=MinimumRisk())]
    assert drawn.out.splitlines() == expected
    (tmp_path / "in.txt").write_bytes(CONTENT)
    bulk = ("--mbr", "chrF", "--samples", "10", "--temperature", "2", "--seed", "5", "--shard-lines", "3")
    assert regard("predict", run, tmp_path / "in.txt", "--output", tmp_path / "out.txt", *bulk).code == 0
    assert (tmp_path / "out.txt").read_text().splitlines() == expected
    wide = model.options(beam=4, best=4)
    listed = regard("predict", run, "--mbr", "WER", "--beam", "4", "--nbest", "2", stdin=CONTENT)
    rows = [line.split("\t") for line in listed.out.splitlines()]
    risk = MinimumRisk(utility="WER", best=2)
    told = [one for line in model.predict_many(SOURCES, options=wide, risk=risk) for one in line.outputs]
    assert [row[2] for row in rows] == [one.text for one in told]
    assert [float(row[1]) for row in rows] == pytest.approx([one.score for one in told], abs=1e-4)
    drawing = ("--samples", "10", "--seed", "5", "--temperature", "2")
    mixed = regard("predict", run, "--mbr", "TER", "--beam", "4", "--length-penalty", "0", *drawing, stdin=CONTENT)
    risk = MinimumRisk(utility="TER", references=samples)
    wide = model.options(beam=4, best=4, length_penalty=0)
    assert mixed.out.splitlines() == [one.text for one in model.predict_many(SOURCES, options=wide, risk=risk)]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--samples", "5"), "--samples is for --mbr METRIC, which chooses among them; to write samples: --sample"),
        (("--mbr", "chrF", "--sample"), "--mbr draws outputs itself: leave out --sample and --stochastic, and say"),
        (("--mbr", "chrF", "--stochastic"), "--mbr draws outputs itself"),
        (("--mbr", "chrF", "--beam", "1"), "--mbr chooses among the outputs of --beam, and a beam of 1 has one; widen"),
        (
            ("--mbr", "chrF", "--beam", "4", "--top-k", "3", "--seed", "2"),
            "--top-k, --seed: only for samples, and --mbr with --beam draws none; add --samples N, or leave it out",
        ),
        (
            ("--mbr", "chrF", "--samples", "10", "--nbest", "20"),
            "minimum Bayes risk is to choose 20 of 10 candidates: ask for 20 or more",
        ),
        (("--mbr", "MRR"), "MRR says nothing of one output beside another"),
    ],
)
def test_what_does_not_go_with_risk_is_refused(regard: Command, run: Path, options: tuple[str, ...], text: str) -> None:
    result = regard("predict", run, *options, stdin=b"a b\n")
    assert result.code == 2
    assert result.out == ""
    assert text in result.err


def test_models_that_write_no_text_have_no_least_risk(regard: Command, tmp_path: Path) -> None:
    train(shape_recipe("acceptor", tmp_path, steps=2))
    for options in ((), ("--beam", "4"), ("--samples", "5")):
        result = regard("predict", tmp_path / "run", "--mbr", "chrF", *options, stdin=b"a b\n")
        assert (result.code, result.out) == (2, "")
        assert "--mbr is for models that write text, and one of shape acceptor writes none" in result.err


def test_more_are_drawn_only_where_no_number_is_given(trained: Trained) -> None:
    for best, drawn in ((1, 64), (80, 80)):
        assert search_for(trained.model, {}, beam=None, best=best, mbr="chrF", samples=None)[0].best == drawn


def test_tuning_tells_what_was_left_out(regard: Command, run: Path, reverse: Path, tmp_path: Path) -> None:
    pairs = [*((one, one.upper()) for one in SOURCES), ("a " * 300, "A"), ("a\tb", "A")]
    records = "".join(json.dumps({"source": one, "target": other}) + "\n" for one, other in pairs)
    (tmp_path / "valid.jsonl").write_text(records)
    tuned = regard("rerank", run, tmp_path / "valid.jsonl", "--reverse", reverse, "--tune", tmp_path / "w.json")
    assert tuned.code == 0, tuned.err
    assert tuned.out.startswith("BLEU of 5 of 6 pairs: ")
    assert json.loads((tmp_path / "w.json").read_text())["examples"] == 5
    assert "1 line could not be read and was left out; the first: " in tuned.err
    assert "1 line with something to tell; the first: " in tuned.err
    assert "1 line was longer than 256 tokens (data.max_length) and only its beginning was read" in tuned.err
    assert "--jsonl" not in tuned.err


def test_weights_are_tuned_written_and_given_again(regard: Command, run: Path, reverse: Path, tmp_path: Path) -> None:
    records = "".join(json.dumps({"source": one, "target": one.upper()}) + "\n" for one in SOURCES)
    (tmp_path / "valid.jsonl").write_text(records)
    judge = ("--reverse", reverse, "--beam", "4")
    tuned = regard("rerank", run, tmp_path / "valid.jsonl", *judge, "--tune", tmp_path / "w.json", "--metric", "chrF")
    assert tuned.code == 0, tuned.err
    assert tuned.out.startswith("chrF of 4 pairs: ")
    assert f"written to {tmp_path / 'w.json'}" in tuned.out
    record = json.loads((tmp_path / "w.json").read_text())
    assert list(record["weights"]) == ["model", "reverse", "length"]
    assert (record["metric"], record["examples"]) == ("chrF", 4)
    again = regard("rerank", run, *judge, "--weights", tmp_path / "w.json", stdin=CONTENT)
    typed = ",".join(f"{name}={value}" for name, value in record["weights"].items())
    assert again.code == 0
    assert again.out == regard("rerank", run, *judge, "--weights", typed, stdin=CONTENT).out
    assert len(again.out.splitlines()) == len(SOURCES)
    told = regard("rerank", run, *judge, "--jsonl", "--nbest", "2", stdin=CONTENT)
    for line in told.out.splitlines():
        for one in json.loads(line)["nbest"]:
            assert one["score"] == pytest.approx(one["parts"]["model"] + one["parts"]["reverse"])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--metric", "BLEU"), "--metric is what --tune FILE tunes the weights by; leave it out"),
        (
            ("--tune", "w.json", "--jsonl"),
            "--tune finds weights and writes no outputs: leave out --weights, --nbest and",
        ),
        (("--tune", "w.json"), "--tune needs pairs: name a file of them, or two files, after the run"),
        (("a.txt", "b.txt"), "2 files: texts are read from one; two are for --tune"),
        (
            ("--reverse", "RUN", "--beam", "4", "--nbest", "10"),
            "10 best outputs cannot come out of a beam of 4: ask for 4 or fewer, or for a beam of 10",
        ),
        (("--reverse", "RUN", "--weights", "reverse=1,reverse=0.5"), "there are two weights for reverse: give one"),
        ((), "there is nothing to rerank by: give one or more of right_to_left, reverse, language_model"),
    ],
)
def test_calls_that_make_no_sense_are_refused(regard: Command, run: Path, options: tuple[str, ...], text: str) -> None:
    result = regard("rerank", run, *(run if one == "RUN" else one for one in options), stdin=b"a b\n")
    assert result.code == 2
    assert text in result.err
