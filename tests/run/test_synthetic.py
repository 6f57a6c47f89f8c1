"""Synthetic pairs: which translations are kept, that none is made twice, and what a mixture holds."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from regard.errors import DataError
from regard.run import synthetic
from regard.run.model import Model
from regard.run.synthetic import Pair, mix, read_pairs, synthetic_pairs, translate, write_pairs
from regard.run.training import Trained
from regard.text import WordTokenizer
from tests.toys import toy_sources


@pytest.fixture
def mono(tmp_path: Path) -> Path:
    path = tmp_path / "mono.txt"
    path.write_text("".join(f"{line}\n" for line in toy_sources(25, seed=5)), encoding="utf-8")
    return path


def silent(line: str) -> None:
    del line


@pytest.mark.parametrize("draw", ["beam", "sample"])
def test_translations_are_those_of_the_model_and_are_made_once(
    trained: Trained, mono: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, draw: synthetic.Draw
) -> None:
    monkeypatch.setattr(synthetic, "PART", 10)
    model, folder = trained.model, tmp_path / "made"
    made = translate(model, mono, folder, draw=draw, seed=3, tell=silent)
    pairs = list(synthetic_pairs(folder))
    lines = mono.read_text(encoding="utf-8").splitlines()
    assert (made.lines, made.kept + sum(made.dropped.values())) == (25, 25)
    assert len(pairs) == made.kept
    assert [pair.target for pair in pairs] == [line for line in lines if line in {pair.target for pair in pairs}]
    if draw == "beam":
        assert [pair.source for pair in pairs] == [model.predict(pair.target).text for pair in pairs]
    asked: list[int] = []
    plain = Model.predict_many

    def counted(self: Model, texts: list[str], **options: object) -> object:
        asked.append(len(texts))
        return plain(self, texts, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Model, "predict_many", counted)
    assert translate(model, mono, folder, draw=draw, seed=3, tell=silent) == made
    assert asked == []
    (folder / "part-00001.json").unlink()  # as after a crash between the two files
    assert translate(model, mono, folder, draw=draw, seed=3, tell=silent) == made
    assert (asked, list(synthetic_pairs(folder))) == ([10], pairs)
    translate(model, mono, folder, draw=draw, seed=4, tell=silent)
    assert asked == [10, 10, 10, 5]
    assert (list(synthetic_pairs(folder)) == pairs) is (draw == "beam")


def test_samples_of_two_parts_are_drawn_apart(
    trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synthetic, "PART", 20)
    mono = tmp_path / "mono.txt"
    mono.write_text("a b c d e f\n" * 40, encoding="utf-8")
    plain = synthetic._options
    monkeypatch.setattr(synthetic, "_options", lambda *key: replace(plain(*key), temperature=8.0))
    translate(trained.model, mono, tmp_path / "made", draw="sample", seed=1, tell=silent)
    parts = [[pair.source for pair in read_pairs(tmp_path / f"made/part-0000{part}.jsonl")] for part in (0, 1)]
    assert parts[0] != parts[1]


def test_what_cannot_be_learned_from_is_left_out_and_counted(trained: Trained, tmp_path: Path) -> None:
    mono = tmp_path / "mono.txt"
    mono.write_text("a b c\n\n  \nb c d\n", encoding="utf-8")
    made = translate(trained.model, mono, tmp_path / "made", draw="beam", seed=1, tell=silent)
    assert (made.lines, made.kept, made.dropped) == (4, 2, {"blank lines": 2})
    recipe = trained.model.recipe

    def other(**changes: object) -> Model:
        section = recipe.search.model_copy(update=changes)
        data = recipe.data.model_copy(update={"max_length": changes.get("longest", recipe.data.max_length)})
        changed = recipe.model_copy(update={"search": section, "data": data})
        model = trained.model
        return Model(recipe=changed, system=model.system, texts=model.texts, folder=model.folder)

    with pytest.raises(DataError, match=r"not one of its 4 lines became a synthetic pair: .*'blank lines': 2") as told:
        translate(other(max_length=1), mono, tmp_path / "made", draw="beam", seed=1, tell=silent)
    assert "'outputs at the limit of length': 2" in str(told.value)
    with pytest.raises(DataError, match=r"'lines longer than data\.max_length': 2"):
        translate(other(longest=1), mono, tmp_path / "made", draw="beam", seed=1, tell=silent)


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    folder = tmp_path / "parts"
    write_pairs(folder / "part-00000.jsonl", [Pair("X Y", "x y")] * 20)
    write_pairs(folder / "part-00001.jsonl", [Pair("Z\u2028Z", "z z z")] * 20)
    return folder


@pytest.mark.parametrize(("share", "copies"), [(0.5, 5.0), (0.2, 1.25), (0.1, 1.0), (0.75, 15.0)])
def test_real_pairs_are_repeated_until_their_share_is_reached(
    parts: Path, tmp_path: Path, share: float, copies: float
) -> None:
    real = [Pair(f"r{number}", "x y") for number in range(8)] + [Pair("s", "x y z x")]  # 20 tokens against 100
    words = WordTokenizer(words=("x", "y", "z"))
    path = tmp_path / "mixed.jsonl"
    mixed = mix(real, parts, path, tag="<BT>", share=share, seed=1, tokenizer=words)
    assert (mixed.real_tokens, mixed.real_pairs, mixed.synthetic_pairs) == (20, 9, 40)
    assert mixed.copies == pytest.approx(copies, abs=0.06)
    assert mixed.share == pytest.approx(max(share, 1 / 6), abs=0.01)
    pairs = list(read_pairs(path))
    tokens = sum(len(words.encode(pair.target).ids) for pair in pairs if not pair.source.startswith("<BT> "))
    assert tokens == pytest.approx(20 * mixed.copies)
    assert [pair for pair in pairs if pair.source.startswith("<BT> ")] == [Pair("<BT> X Y", "x y")] * 20 + [
        Pair("<BT> Z\u2028Z", "z z z")
    ] * 20
    counts = [pairs.count(pair) for pair in real]
    assert max(counts) - min(counts) <= 1
    assert min(counts) >= 1


def test_without_a_tag_sources_stay_as_they_are(parts: Path, tmp_path: Path) -> None:
    path = tmp_path / "mixed.jsonl"
    words = WordTokenizer(words=("x", "y", "z"))
    mix([Pair("r", "x")], parts, path, tag="", share=0.5, seed=1, tokenizer=words)
    assert {pair.source for pair in read_pairs(path)} == {"r", "X Y", "Z\u2028Z"}
    before = path.stat().st_mtime_ns
    mix([Pair("r", "x")], parts, path, tag="", share=0.5, seed=1, tokenizer=words)
    assert path.stat().st_mtime_ns == before
    assert json.loads(path.read_text(encoding="utf-8").splitlines()[0]) == {"source": "r", "target": "x"}
