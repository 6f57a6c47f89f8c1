"""A training of Multi30k from beginning to end on a toy corpus, and the page about the model."""

import gzip
import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest
import sacrebleu
import translation
import translation_page
from multi30k import running
from multi30k.corpus import LANGUAGES, TEST, place_corpus
from multi30k.decoding import Decoding, decode
from multi30k.plan import planned
from multi30k.rows import read_rows
from multi30k.running import Asked
from translation_page import Judged

import regard
from regard.search.trace import Node, Trace

WORDS = {
    "en": ("the cat", "a dog", "the man", "sees", "likes", "a house", "the tree", "my friend", "now", "today"),
    "de": (
        "die katze",
        "ein hund",
        "der mann",
        "sieht",
        "mag",
        "ein haus",
        "den baum",
        "meinen freund",
        "jetzt",
        "heute",
    ),
    "fr": ("le chat", "un chien", "l' homme", "voit", "aime", "une maison", "l' arbre", "mon ami", "maintenant", "ici"),
}
SIZES = {"train": 90, "val": 20, TEST: 20}


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files as Multi30k has them, of a few words."""
    folder = tmp_path / "data/mt/multi30k"
    folder.mkdir(parents=True)
    choices = list(itertools.product(range(3), range(3, 5), range(5, 8), range(8, 10)))
    for language in LANGUAGES:
        lines = [" ".join(WORDS[language][n] for n in one) + " .\n" for one in choices] * 4
        for form, (part, count) in itertools.product(("", "lc.norm.tok."), SIZES.items()):
            text = "".join(lines[:count]).encode()
            name = f"{part}.{form}{language}"
            if part == "train":
                (folder / f"{name}.gz").write_bytes(gzip.compress(text))
            else:
                (folder / name).write_bytes(text)
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "data"))
    return tmp_path / "runs"


def test_a_training_is_judged_once_and_shown(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(row=planned("ende_luong"), seed=3, threads=1, small=True)
    monkeypatch.setattr(running, "SMALL_SETTINGS", (*running.SMALL_SETTINGS, "text.unit=character"))
    place_corpus(corpus, small=True)
    translation.train(asked, corpus, corpus, again=False)
    (row,) = read_rows(corpus / translation.RESULTS)
    assert (row.seed, row.cost.steps, row.place.threads, len(row.curve)) == (3, 6, 1, 2)
    assert row.cost.minutes > row.cost.training_minutes > 0
    assert row.cost.cpu_minutes > 0
    outputs = (corpus / "outputs/ende_luong-3.txt").read_text(encoding="utf-8").split("\n")[:-1]
    references = (corpus / f"multi30k/{TEST}.lc.norm.tok.de").read_text(encoding="utf-8").split("\n")[:-1]
    expected = sacrebleu.corpus_bleu(outputs, [references], tokenize="none", force=True)
    assert row.test["BLEU"].value == pytest.approx(expected.score, abs=1e-3)
    assert "tok:none" in row.test["BLEU"].signature
    assert sum(bucket.sentences for bucket in row.by_length) == len(references)
    trained = regard.load(corpus / "runs/ende_luong-3")
    assert not any(TEST in str(file) for file in trained.recipe.data.test or ())

    monkeypatch.setattr(running, "command", None)  # what is done is not trained again
    translation.train(asked, corpus, corpus, again=False)

    tried = Decoding(row=asked.row, seeds=(3,), threads=1, experiment="greedy", search=("search.beam=1",))
    greedy = decode(tried, corpus)
    files = [str(corpus / f"multi30k/val.lc.norm.tok.{language}") for language in ("en", "de")]
    pairs = trained.examples(*files)
    alone = [one.text for one in trained.predict_many([pair.source for pair in pairs], beam=1)]
    expected = sacrebleu.corpus_bleu(alone, [[pair.target for pair in pairs]], tokenize="none", force=True)
    assert greedy.validation["BLEU"].value == pytest.approx(expected.score, abs=1e-3)
    assert (greedy.test, greedy.settings) == ({}, ("seeds=3", "search.beam=1"))
    with pytest.raises(SystemExit, match="not trained yet: ende_luong-7"):
        decode(replace(tried, seeds=(3, 7)), corpus)

    judged = translation_page.read_judged(trained, corpus / "runs/ende_luong-3", None)
    assert judged.outputs == outputs
    page = translation_page.page(trained, judged, resamples=10)
    for place in range(1, 1 + len(translation_page.pictured(judged))):
        assert f"(translation_alignment_{place}.svg)" in page
    assert page.count("| reference |") == 2 * translation_page.ENDS + translation_page.DRAWN
    drawings = translation_page.pictures(trained, judged)
    assert all(drawing.startswith("<svg") for drawing in drawings.values())


def test_an_experiment_reads_no_test_set(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(row=planned("ende_luong"), seed=1, threads=1, experiment="wider", settings=("model.width=18",))
    place_corpus(corpus, small=True)
    run = corpus / "runs" / asked.name
    run.mkdir(parents=True)
    events = [
        {"event": "validation", "step": 3, "seconds": 60.0, "loss": 2.0, "metrics": {"BLEU": 12.5}, "gained": True},
        {"event": "end", "step": 3, "epoch": 1, "seconds": 61.0, "reason": "done"},
    ]
    (run / "log.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events), encoding="utf-8")
    score = {"value": 13.0, "low": 12.0, "high": 14.0, "signature": "s", "count": 9, "parts": {}}
    (run / "metrics.json").write_text(json.dumps({"metrics": {"BLEU": score}}), encoding="utf-8")
    monkeypatch.setattr(running, "judge", None)
    monkeypatch.setattr(running, "_parameters", lambda folder: 1)
    state = {"seconds": 30.0, "cpu_seconds": 90.0, "commits": ["c"], "clean": True}
    row = running.collect(asked, corpus, state)
    assert (row.test, row.curve, row.validation["BLEU"].value) == ({}, ((1.0, 12.5),), 13.0)
    assert row.cost.minutes == pytest.approx(61 / 60, abs=0.01)  # never less than the log tells
    assert (row.cost.cpu_minutes, row.cost.epochs) == (1.5, 1)


def test_a_run_remembers_every_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(row=planned("ende_luong"), seed=1, threads=1)
    answers = {"rev-parse": "new", "show": asked.recipe, "status": ""}
    monkeypatch.setattr(running, "_git", lambda *arguments: answers[arguments[0]])
    state = {"commits": ["old"], "clean": True}
    assert running.begun_with(asked.row, asked.recipe, state) == {"commits": ["old", "new"], "clean": True}
    assert running.begun_with(asked.row, asked.recipe, {"commits": ["new"], "clean": False}) == {
        "commits": ["new"],
        "clean": False,
    }
    answers["status"] = " M regard/nn/attention.py"
    assert running.begun_with(asked.row, asked.recipe, state)["clean"] is False
    answers |= {"status": "", "show": asked.recipe.replace("dropout: 0.4", "dropout: 0.1")}
    assert running.begun_with(asked.row, asked.recipe, state)["clean"] is False


JUDGED = Judged(
    sources=["a b c", "a b", "c", "d e"],
    references=["x y z w", "x y", "z", "u v"],
    outputs=["x y", "x x y", "z", ""],
    tokenize="none",
)


def test_faults_are_counted() -> None:
    table = translation_page.faults(JUDGED)
    assert "| shorter than 0.8 times the reference | 2 | 50.0 % |" in table
    assert "| longer than 1.25 times the reference | 1 | 25.0 % |" in table
    assert "| a word twice in a row | 1 | 25.0 % |" in table
    assert "| nothing written | 1 | 25.0 % |" in table
    assert "| the same as the reference | 1 | 25.0 % |" in table


def test_examples_cannot_break_the_table() -> None:
    odd = replace(JUDGED, sources=["a | *b* <c>", *JUDGED.sources[1:]])
    table = translation_page.examples(odd, [translation_page.Segment(0, 12.34), translation_page.Segment(3, 0.0)])
    assert "| source | a \\| \\*b\\* &lt;c> |" in table
    assert "| **sentence 1** | chrF 12.3 |" in table
    assert "| output | (nothing) |" in table


def test_the_drawing_of_sentences_is_always_the_same() -> None:
    assert translation_page.drawn(1000, 10) == translation_page.drawn(1000, 10)
    assert len(set(translation_page.drawn(1000, 10))) == 10
    assert translation_page.drawn(3, 10) == [0, 1, 2]


def test_a_beam_is_told_step_by_step() -> None:
    def node(id_: int, parent: int, token: int, total: float, step: int, fate: str) -> Node:
        return Node(id_, parent, token, total, total, total, step, 0, fate)  # type: ignore[arg-type]

    trace = Trace(
        (
            node(0, -1, 5, -1.0, 1, "kept"),
            node(1, -1, 6, -2.0, 1, "pruned"),
            node(2, -1, 7, -3.0, 1, "pruned"),
            node(3, 0, 8, -1.5, 2, "ended"),
        )
    )
    table = translation_page.beam_table(trace, lambda ids: "".join(f"<{one}>" for one in ids))
    assert "| 1 | &lt;5> -1.00 | &lt;6> -2.00 |" in table
    assert "| 2 | &lt;5>&lt;8> ■ -1.50 |  |" in table
    assert table.endswith("■ ends here.\n")
