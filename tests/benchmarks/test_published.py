"""The page of results: every recipe has a row, judgements follow the figures, page and picture show what was kept."""

import json
import math
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import sacrebleu
from published import heads, page, picture, tasks, training
from published.entries import Bucket, Entry, Value, entries_json, read_entries
from published.lengths import COMPARED, FIRSTS, WITHOUT, bucket_of, by_length, judged_pairs

import recipes as runner
from regard.recipe import load_recipe
from regard.text import WordTokenizer

ROOT = Path(__file__).parents[2]
SVG = "{http://www.w3.org/2000/svg}"
RECIPES = sorted(path.stem for path in (ROOT / "recipes").glob("*.yaml"))
ROWS = {row.recipe: row for row in tasks.rows()}


def value(number: float, tokens: float | None = None) -> Value:
    return Value(value=number, low=number - 1, high=number + 1, count=2, signature="s", tokens=tokens)


def entry(**scores: float) -> Entry:
    measured = {name: value(number) for name, number in scores.items()}
    return Entry(
        recipe="0",
        sets={"test": measured, "combinations": measured},
        minutes=2.5,
        steps=992,
        parameters=1234567,
        threads=2,
        versions={"regard": "0.1.0", "torch": "2.13.0", "python": "3.11.2"},
    )


def lengths(top: float, step: float) -> tuple[Bucket, ...]:
    lasts = (*(first - 1 for first in FIRSTS[1:]), None)
    return tuple(
        Bucket(first=first, last=last, sentences=100 + i, value=top - i * step, low=top - i * step - 2, high=top)
        for i, (first, last) in enumerate(zip(FIRSTS, lasts, strict=True))
    )


def compared() -> dict[str, Entry]:
    return {
        name: replace(entry(BLEU=80.0), by_length=lengths(90, 10) if name in WITHOUT else lengths(98, 1))
        for name in COMPARED
    }


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_has_a_row_and_a_head(name: str) -> None:
    text = (ROOT / "recipes" / f"{name}.yaml").read_text(encoding="utf-8")
    assert name in ROWS
    assert heads.data_commands(text)[0][:3] == ("data", "make", "pocket")
    assert text.count(f"\n{heads.RESULT} ") == 1
    recipe = load_recipe(ROOT / "recipes" / f"{name}.yaml")
    made = ROOT / training.output_of(heads.data_commands(text)[0])
    assert isinstance(recipe.data.train, str)
    assert Path(recipe.data.train).resolve().parent == made


def test_no_recipe_has_two_rows() -> None:
    assert len(ROWS) == len(tasks.rows())


@pytest.mark.parametrize(
    ("judge", "measured", "met", "shown"),
    [
        (tasks.at_least("BLEU", 90), entry(BLEU=90.0), True, "BLEU 90.00 [89.00, 91.00]"),
        (tasks.at_least("BLEU", 90), entry(BLEU=89.99), False, "BLEU 89.99 [88.99, 90.99]"),
        (tasks.at_least("BLEU", 90), entry(chrF=99.0), False, "no BLEU"),
        (tasks.reported("exact"), entry(exact=12.0), None, "exact 12.00 [11.00, 13.00]"),
        (tasks.falling, replace(entry(), losses=(6.0, 4.5)), True, "loss 6.00 → 4.50 in 992 steps"),
        (tasks.falling, replace(entry(), losses=(4.5, 4.5)), False, "loss 4.50 → 4.50 in 992 steps"),
        (tasks.falling, entry(), False, "no loss"),
        (tasks.near_exact(1.1), entry(perplexity=5.0), False, "perplexity 5.00 [4.00, 6.00], exact one unknown"),
        (tasks.near_exact(1.1), entry(BLEU=5.0), False, "no perplexity"),
    ],
)
def test_judgements(judge: tasks.Judge, measured: Entry, met: bool | None, shown: str) -> None:
    verdict = judge(measured)
    assert (verdict.met, verdict.shown) == (met, shown)


@pytest.mark.parametrize(("exact", "met", "times"), [(5.0, True, "1.080"), (4.9, False, "1.102")])
def test_a_language_model_is_judged_by_the_grammar(exact: float, met: bool, times: str) -> None:
    measured = replace(entry(**{"perplexity (teacher-forced)": 5.4}), exact_perplexity=exact)
    verdict = tasks.near_exact(1.1)(measured)
    assert verdict.met is met
    assert verdict.shown == f"perplexity 5.40 [4.40, 6.40] = {times} × the exact {exact:.2f}"


def test_the_exact_perplexity_is_that_of_the_records(tmp_path: Path) -> None:
    masses = {"pets": math.log(0.25), "food": math.log(0.75)}
    about = {"source": "en", "log_mass": math.log(0.5), "log_mass_by_topic": masses}
    (tmp_path / "pocket.json").write_text(json.dumps(about), encoding="utf-8")
    lines = [
        {"source": "cats", "log_probability": math.log(1 / 8), "topic": "pets"},
        {"source": "", "log_probability": math.log(1 / 32), "topic": "food"},
    ]
    (tmp_path / "test.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    words = WordTokenizer(words=["cats"])
    found = training.exact_perplexity(tmp_path, words, value(9, tokens=3), by_topic=False)
    assert found == pytest.approx((4 * 16) ** (1 / 3), abs=1e-4)
    given = training.exact_perplexity(tmp_path, words, value(9, tokens=3), by_topic=True)
    assert given == pytest.approx((2 * 24) ** (1 / 3), abs=1e-4)
    with pytest.raises(ValueError, match=r"the perplexity is of 3 sentences with 3 tokens, test.jsonl has 2 with 3"):
        training.exact_perplexity(tmp_path, words, replace(value(9, tokens=3), count=3), by_topic=False)


def test_the_result_goes_into_the_head_and_leaves_the_hash() -> None:
    text = "# Paper\n# Data:     regard data make pocket here --seed 3\n# Command:  regard train x\nrun: runs/x\n"
    line = heads.result_line(ROWS["cho2014"], entry(BLEU=71.0))
    assert line == (
        "# Result:   BLEU 71.00 [70.00, 72.00], combinations 71.00 [70.00, 72.00]; "
        "1,234,567 parameters, 992 steps, 2.5 minutes on 2 threads"
    )
    once = heads.with_result(text, "# Result:   old")
    twice = heads.with_result(once, line)
    assert twice == text.replace("train x\n", f"train x\n{line}\n")
    assert heads.settings_hash(twice) == heads.settings_hash(text)
    assert heads.settings_hash(twice.replace("runs/x", "runs/y")) != heads.settings_hash(text)
    assert heads.data_commands(text) == [("data", "make", "pocket", "here", "--seed", "3")]


def test_pages_come_from_the_entries_alone(tmp_path: Path) -> None:
    for folder in ("benchmarks", "recipes"):
        (tmp_path / folder).mkdir()
    for name in (*COMPARED, "luong2015_dot"):
        text = (ROOT / "recipes" / f"{name}.yaml").read_text(encoding="utf-8")
        (tmp_path / "recipes" / f"{name}.yaml").write_text(text, encoding="utf-8")
    entries = {**compared(), "transducer": entry(accuracy=98.0)}
    runner.write_pages(entries, tmp_path)
    assert read_entries(tmp_path / "benchmarks/recipes.json") == entries
    written = (tmp_path / "docs/results.md").read_text(encoding="utf-8")
    assert "Measured: 6 of 7 recipes. Bounds that are met: 0 of 4." in written
    assert "| [luong2015_dot](../recipes/luong2015_dot.yaml) | Luong et al. 2015 " in written
    assert re.search(r"\| \[transducer\].* \| 1,234,567 \| 2.5 \| accuracy 98.00 .* \| ≥ 99 \| \*\*no\*\* \|", written)
    assert "not measured yet" in written
    assert "elman_lm" not in written
    assert "| 19 and more | 105 | 40.0 [38.0, 90.0] | 40.0 [38.0, 90.0] | 93.0 [91.0, 98.0] |" in written
    assert "is 53.0 BLEU above the best without" in written
    cells = [line.count("|") for line in written.splitlines() if line.startswith("|")]
    heads_of_tables = [line.count("|") for line in written.splitlines() if line.startswith("| ---")]
    assert set(cells) == set(heads_of_tables)
    recipe = (tmp_path / "recipes/bahdanau2015.yaml").read_text(encoding="utf-8")
    assert "\n# Result:   BLEU 80.00 [79.00, 81.00], combinations 80.00" in recipe
    again = entries_json(read_entries(tmp_path / "benchmarks/recipes.json"))
    assert again == (tmp_path / "benchmarks/recipes.json").read_text(encoding="utf-8")


def test_points_of_the_picture_lie_where_their_values_say() -> None:
    entries = compared()
    drawing = ElementTree.fromstring(page.picture(entries).encode())
    dots = drawing.findall(f"{SVG}circle")
    assert len(dots) == len(COMPARED) * len(FIRSTS)
    for name, start in zip(COMPARED, range(0, len(dots), len(FIRSTS)), strict=True):
        for bucket, dot in zip(entries[name].by_length, dots[start : start + len(FIRSTS)], strict=True):
            height = picture.HEIGHT - picture.BOTTOM - float(dot.attrib["cy"])
            assert height / (picture.HEIGHT - picture.BOTTOM - picture.TOP) * 100 == pytest.approx(
                bucket.value, abs=0.1
            )
            title = dot.find(f"{SVG}title")
            assert title is not None
            assert title.text is not None
            assert f"{bucket.label} words: BLEU {bucket.value:.1f}" in title.text
    texts = [text.text for text in drawing.findall(f"{SVG}text")]
    assert {"3–6", "n = 100", "19+", "n = 105", *(ROWS[name].paper for name in COMPARED)} <= set(texts)
    heights = sorted(float(t.attrib["y"]) for t in drawing.findall(f"{SVG}text") if t.text in page.NAMES.values())
    assert min(after - before for before, after in pairwise(heights)) >= 18.9


def test_only_models_of_the_same_sentences_are_compared() -> None:
    entries = compared()
    other = tuple(replace(bucket, sentences=1) for bucket in entries[COMPARED[1]].by_length)
    entries[COMPARED[1]] = replace(entries[COMPARED[1]], by_length=other)
    assert page.compared(entries) == [COMPARED[0], *COMPARED[2:]]
    assert page.compared({"bert_tiny": entry()}) == []


@pytest.mark.parametrize(("words", "first"), [(1, 3), (3, 3), (6, 3), (7, 7), (12, 10), (18, 16), (19, 19), (40, 19)])
def test_buckets(words: int, first: int) -> None:
    assert bucket_of(" ".join(["word"] * words)) == first


def test_bleu_by_length_is_sacrebleu_of_each_bucket() -> None:
    pairs = [
        ("a b c d", "das ist so schön ."),
        ("a b c d e", "er geht heute heim ."),
        ("x " * 20, "zu lang für ein Bett"),
    ]
    outputs = ["das ist so schön !", "er geht heute heim .", "zu lang für das Bett"]
    short, long = by_length(pairs, outputs, resamples=10)
    expected = sacrebleu.corpus_bleu(outputs[:2], [[target for _, target in pairs[:2]]], tokenize="none", force=True)
    assert short.value == pytest.approx(expected.score, abs=0.01)
    assert (short.sentences, short.last, long.sentences, long.last) == (2, 6, 1, None)
    assert long.low is None


def test_long_sentences_are_unseen_and_of_known_words(tmp_path: Path) -> None:
    long = " ".join(["w"] * 14)

    def write(name: str, sources: list[str]) -> None:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(json.dumps({"source": s, "target": s}) + "\n" for s in sources), encoding="utf-8")

    write("pocket/test.jsonl", ["w v ."])
    write("pocket/combinations.jsonl", ["v w ."])
    write("pocket/valid.jsonl", [f"{long} v"])
    write("pocket/train.jsonl", [f"{long} .", "v w"])
    write("long/train.jsonl", [f"{long} .", f"{long} v", f"{long} w", f"{long} w", f"{long} new", "v v"])
    assert [source for source, _ in judged_pairs(tmp_path)] == ["w v .", "v w .", f"{long} w"]


def test_metrics_are_kept_by_set() -> None:
    one = {"value": 12.345678, "low": None, "high": 13.0, "signature": "s", "count": 5, "parts": {"tokens": 60.0}}
    kept = training.read_sets({"metrics": {"perplexity": one}, "further": {"combinations": {"perplexity": one}}})
    expected = Value(value=12.3457, low=None, high=13.0, count=5, signature="s", tokens=60.0)
    assert kept == {"test": {"perplexity": expected}, "combinations": {"perplexity": expected}}
    assert str(expected) == "12.35"
