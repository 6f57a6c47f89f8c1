"""Synthetic pairs: which translations are kept, that none is made twice, and what a mixture holds."""

import json
from pathlib import Path

import pytest

from regard.errors import DataError
from regard.run import bulk
from regard.run.model import Model
from regard.run.synthetic import Draw, Made, Pair, Translations, mix, read_pairs, translate
from regard.run.training import Trained
from regard.text import WordTokenizer
from tests.toys import toy_sources


@pytest.fixture
def mono(tmp_path: Path) -> Path:
    path = tmp_path / "mono.txt"
    path.write_text("".join(f"{line}\n" for line in toy_sources(25, seed=5)), encoding="utf-8")
    return path


def translations(model: Model, path: Path) -> Translations:
    return Translations(path=path, tokenizer=model.texts.source, longest=model.recipe.data.max_length)


@pytest.mark.parametrize("draw", ["beam", "sample"])
def test_translations_are_those_of_the_model_and_are_made_once(
    trained: Trained, mono: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, draw: Draw
) -> None:
    monkeypatch.setattr(bulk, "SHARD_LINES", 10)
    model, output = trained.model, tmp_path / "made" / "translations.jsonl"
    told: list[str] = []

    def make(seed: int) -> list[Pair]:
        told.clear()
        translate(model.folder, mono, output, draw=draw, seed=seed, workers=1, tell=told.append)
        return list(translations(model, output).pairs())

    pairs = make(3)
    assert told[-1] == "25 of 25 lines translated"
    made = translations(model, output).made()
    lines = mono.read_text(encoding="utf-8").splitlines()
    assert (made.lines, made.kept + sum(made.dropped.values())) == (25, 25)
    assert len(pairs) == made.kept
    assert [pair.target for pair in pairs] == [line for line in lines if line in {pair.target for pair in pairs}]
    options = model.options() if draw == "beam" else model.options(sample=True, seed=3)
    expected = [one.text for one in model.predict_many(lines, options=options)]
    assert all(pair.source == expected[lines.index(pair.target)] for pair in pairs)
    assert make(3) == pairs
    assert told == ["25 of 25 lines translated"]
    make(4)
    assert len(told) == (1 if draw == "beam" else 4)
    mono.write_text("a b\n", encoding="utf-8")
    assert [pair.target for pair in make(3)] == ["a b"]


def test_what_cannot_be_learned_from_is_left_out_and_counted(trained: Trained, tmp_path: Path) -> None:
    records = [
        {"source": "a b", "text": "A B", "complete": True},
        {"source": " ", "text": "", "complete": True},
        {"source": "a b c", "text": "A B A B", "complete": False},
        {"source": "a", "text": " ", "complete": True},
        {"source": "a b c d", "text": "A", "complete": True},
        {"source": "a", "text": "", "complete": True, "fault": "columns"},
    ]
    path = tmp_path / "translations.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    found = Translations(path=path, tokenizer=trained.model.texts.source, longest=3)
    assert list(found.pairs()) == [Pair("A B", "a b")]
    assert found.made() == Made(
        lines=6,
        kept=1,
        dropped={
            "blank lines": 1,
            "empty outputs": 1,
            "lines longer than data.max_length": 1,
            "lines that cannot be read": 1,
            "outputs at the limit of length": 1,
        },
    )
    path.write_text(json.dumps(records[1]) + "\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"not one of 1 lines became a synthetic pair: 1 blank lines"):
        found.made()


MADE = [Pair("X Y", "x y")] * 20 + [Pair("Z\u2028Z", "z z z")] * 20


@pytest.mark.parametrize(("share", "copies"), [(0.5, 5.0), (0.2, 1.25), (0.1, 1.0), (0.75, 15.0)])
def test_real_pairs_are_repeated_until_their_share_is_reached(tmp_path: Path, share: float, copies: float) -> None:
    real = [Pair(f"r{number}", "x y") for number in range(8)] + [Pair("s", "x y z x")]  # 20 tokens against 100
    words = WordTokenizer(words=("x", "y", "z"))
    path = tmp_path / "mixed.jsonl"
    mixed = mix(real, MADE, path, tag="<BT>", share=share, seed=1, tokenizer=words)
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


def test_without_a_tag_sources_stay_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "mixed.jsonl"
    words = WordTokenizer(words=("x", "y", "z"))
    mix([Pair("r", "x")], MADE, path, tag="", share=0.5, seed=1, tokenizer=words)
    assert {pair.source for pair in read_pairs(path)} == {"r", "X Y", "Z\u2028Z"}
    before = path.stat().st_mtime_ns
    mix([Pair("r", "x")], MADE, path, tag="", share=0.5, seed=1, tokenizer=words)
    assert path.stat().st_mtime_ns == before
    assert json.loads(path.read_text(encoding="utf-8").splitlines()[0]) == {"source": "r", "target": "x"}
