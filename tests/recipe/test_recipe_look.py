"""Recipes chosen by looking at data, on small data made for each rule."""

import gzip
import itertools
import json
import random
from collections import Counter
from math import inf
from pathlib import Path
from statistics import median_low

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.example import Example, Place
from regard.errors import DataError, RegardError, UsageError
from regard.recipe import dump_recipe, load_recipe, look, parse_recipe, rules
from regard.recipe.measure import measure, overlap, quantile


def write(path, rows):
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    return path


def sentences(count, vocabulary, seed=0, length=8):
    random_ = random.Random(seed)
    return [" ".join(random_.choice(vocabulary) for _ in range(length)) for _ in range(count)]


def words(count, alphabet="abcdefghij", length=6, seed=1):
    random_ = random.Random(seed)
    return ["".join(random_.choice(alphabet) for _ in range(length)) for _ in range(count)]


def test_inflection(tmp_path):
    rows = [(lemma, lemma + "t", "V;PRS;3;SG") for lemma in words(3000)]
    looked = look(write(tmp_path / "pairs.tsv", rows))
    recipe = looked.recipe
    assert (recipe.task, recipe.data.format) == ("inflection", "sigmorphon2017")
    assert (recipe.text.source.unit, recipe.text.unit, recipe.text.shared) == ("inflection", "character", False)
    assert recipe.evaluation.metrics == ("exact", "edit_distance", "accuracy")
    assert recipe.training.select == "exact"
    assert recipe.run == "runs/pairs"
    assert recipe.data.train == str(tmp_path / "pairs.tsv")
    assert (
        "a Transformer of width 128 with 3 layers and dropout 0.3, because there are about 21,000 target characters"
        in (looked.reasons)
    )


def test_short_strings_are_spelled(tmp_path):
    rows = list(zip(words(500), words(500, "ABCDEFGHIJ"), strict=True))
    looked = look(write(tmp_path / "names.tsv", rows))
    assert looked.recipe.text.unit == "character"
    assert looked.recipe.text.shared is False
    assert "characters as source, because the median source has 6 characters and 1 word" in looked.reasons
    assert "a vocabulary for each side, because 0% of the target's characters occur in the source" in looked.reasons
    same = look(write(tmp_path / "same.tsv", [(a, a[::-1]) for a in words(500)])).recipe
    assert (same.text.shared, same.model.tie) == (True, "all")


def test_few_frequent_words_stay_words(tmp_path):
    rows = zip(sentences(2000, words(100)), sentences(2000, words(100, "klmnop")), strict=True)
    looked = look(write(tmp_path / "pocket.tsv", rows))
    assert looked.recipe.text.unit == "word"
    assert looked.recipe.text.shared is False
    assert (looked.recipe.model.layers, looked.recipe.model.dropout) == (rules.WORD_LAYERS, rules.WORD_DROPOUT)
    assert looked.recipe.evaluation.metrics == ("BLEU", "chrF", "TER")
    assert (
        "words as source, because there are only 100 different ones and 0.00% of words in new text will be unknown"
        in looked.reasons
    )


def test_text_with_many_words_gets_subwords(tmp_path):
    rows = zip(sentences(3000, words(9000)), sentences(3000, words(9000, seed=2)), strict=True)
    looked = look(write(tmp_path / "news.tsv", rows))
    assert (looked.recipe.text.unit, looked.recipe.text.size, looked.recipe.text.shared) == ("bpe", 1000, True)
    assert looked.recipe.model.tie == "all"
    assert looked.recipe.training.average == rules.AVERAGE
    assert any(reason.startswith("1,000 subwords, because there are 48,000 words and 11 ") for reason in looked.reasons)


def test_subwords_on_one_side_mean_subwords_on_both(tmp_path):
    rows = zip(sentences(2000, words(50)), sentences(2000, words(9000)), strict=True)
    recipe = look(write(tmp_path / "a.tsv", rows)).recipe
    assert (recipe.text.unit, recipe.text.source) == ("bpe", None)


def test_sides_may_differ(tmp_path):
    rows = [(word, " ".join(word.upper())) for word in words(2000)]
    looked = look(write(tmp_path / "sounds.tsv", rows))
    assert (looked.recipe.text.source.unit, looked.recipe.text.unit) == ("character", "word")
    assert looked.recipe.evaluation.metrics[0] == "exact"


def test_files_beside_the_training_data_are_used(tmp_path):
    rows = list(zip(words(200), words(200), strict=True))
    write(tmp_path / "dev.tsv", rows)
    with gzip.open(tmp_path / "train.tsv.gz", "wt", encoding="utf-8") as stream:
        stream.writelines(f"{a}\t{b}\n" for a, b in rows)
    looked = look(tmp_path / "train.tsv.gz")
    assert looked.recipe.data.valid == str(tmp_path / "dev.tsv")
    assert looked.recipe.data.test is None
    assert looked.recipe.run == "runs/train"
    assert "dev.tsv as valid data, because it lies beside the training data" in looked.reasons
    assert "test data split off the 200 pairs, because none lies beside them" in looked.reasons


def test_two_parallel_files(tmp_path):
    for side, seed in (("en", 1), ("de", 2)):
        for part in ("train", "valid", "test"):
            (tmp_path / f"{part}.{side}").write_text("\n".join(sentences(300, words(3000, seed=seed), seed)) + "\n")
    recipe = look(tmp_path / "train.en", tmp_path / "train.de").recipe
    assert recipe.data.train == (str(tmp_path / "train.en"), str(tmp_path / "train.de"))
    assert recipe.data.test == (str(tmp_path / "test.en"), str(tmp_path / "test.de"))
    (tmp_path / "test.de").unlink()
    assert look(tmp_path / "train.en", tmp_path / "train.de").recipe.data.test is None


def test_relative_paths_become_absolute(tmp_path, monkeypatch):
    write(tmp_path / "a.tsv", zip(words(100), words(100), strict=True))
    monkeypatch.chdir(tmp_path)
    assert look(type(tmp_path)("a.tsv")).recipe.data.train == str(tmp_path / "a.tsv")


def test_json_keys_are_kept(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"source": a, "target": a}) + "\n" for a in words(100)))
    recipe = look(path).recipe
    assert (recipe.data.format, recipe.data.source, recipe.data.target) == ("jsonl", "source", "target")


def test_few_empty_sides_are_left_out_and_many_are_not(tmp_path):
    rows = list(zip(words(1000), words(1000), strict=True))
    looked = look(write(tmp_path / "a.tsv", [*rows[:500], ("x", ""), *rows[500:]]))
    assert looked.recipe.data.empty_lines == "skip"
    assert any("there are only 1 of them" in reason and "a.tsv:501" in reason for reason in looked.reasons)
    assert look(write(tmp_path / "b.tsv", rows + [("", "x")] * 50)).recipe.data.empty_lines == "refuse"


def test_data_without_pairs(tmp_path):
    with pytest.raises(DataError, match=r"a\.tsv: none of 3 pairs has text on both sides; there is nothing to learn"):
        look(write(tmp_path / "a.tsv", [("x", " ")] * 3))
    with pytest.raises(RegardError, match="standard input cannot be looked at"):
        look(type(tmp_path)("-"))


def test_lengths_leave_room(tmp_path):
    long = "b" * 200
    recipe = look(write(tmp_path / "a.tsv", [("ab", "cd")] * 990 + [("ab", long)] * 10)).recipe
    assert recipe.data.max_length == 256
    assert recipe.search.max_length == 256
    assert recipe.search.max_ratio == 200


def test_the_chosen_recipe_can_be_saved(tmp_path):
    recipe = look(write(tmp_path / "a.tsv", zip(words(100), words(100), strict=True))).recipe
    assert parse_recipe(dump_recipe(recipe), "r") == recipe


def test_sentences_of_the_size_of_multi30k_get_its_recipe(tmp_path):
    draw = random.Random(1)
    types = ["".join(draw.choices("abcdefgh", k=5)) for _ in range(9000)]
    sides = [[" ".join(draw.choices(types, k=18)) for _ in range(20_000)] for _ in range(2)]
    looked = look(write(tmp_path / "a.tsv", zip(*sides, strict=True)))
    known = load_recipe(Path(__file__).parents[2] / "recipes/multi30k/ende_tiny_short.yaml")
    assert (looked.recipe.text, looked.recipe.model) == (known.text, known.model)
    same = {"optimizer": "adam", "threads": None}  # without a decay of weights both are one
    assert looked.recipe.training.model_copy(update=same) == known.training
    assert any("falls to 0 at their end, as on Multi30k" in reason for reason in looked.reasons)


def test_rules_cover_everything_and_rise():
    for column in ([rule.tokens for rule in rules.SIZES], [rule.words for rule in rules.SUBWORDS]):
        assert column == sorted(set(column))
        assert column[-1] == inf
    assert all(rule.width % rule.heads == 0 for rule in rules.SIZES)
    assert rules.size_rule(0) is rules.SIZES[0]
    assert rules.size_rule(1e12) is rules.SIZES[-1]
    assert rules.subword_rule(400_001).size == 6000
    assert rules.subword_rule(700_001).size == 10_000


@given(st.lists(st.integers(0, 50), min_size=1))
def test_the_median_is_that_of_the_standard_library(numbers):
    assert quantile(Counter(numbers), 0.5) == median_low(numbers)
    assert quantile(Counter(numbers), 1.0) == max(numbers)


def test_quantile_of_nothing():
    assert quantile(Counter(), 0.5) == 0


def test_measured_by_hand():
    texts = [("a b", "x"), ("a c", "x y"), ("", "z"), ("a\tN;SG", "zz")]
    examples = [Example({"source": a, "target": b}, Place("f", line)) for line, (a, b) in enumerate(texts, 1)]
    figures = measure(examples)
    assert (figures.pairs, figures.empty, str(figures.first_empty)) == (3, 1, "f:3")
    assert (figures.source.words, figures.source.types, figures.source.unseen) == (5, 3, 2 / 5)
    assert (figures.source.characters, figures.target.characters) == (7, 6)
    assert figures.target.alphabet == Counter("xx yzz")
    assert (figures.target.median_characters, figures.target.most_characters) == (2, 3)


def test_memory_stays_bounded(monkeypatch):
    monkeypatch.setattr("regard.recipe.measure.MOST_TYPES", 10)
    monkeypatch.setattr("regard.recipe.measure.LOOKED_AT", 1000)
    examples = (Example({"source": str(n), "target": "w" * 200}, Place("f", n)) for n in itertools.count(1))
    figures = measure(itertools.islice(examples, 2000))
    assert (figures.pairs, figures.source.words) == (2000, 2000)
    assert len(figures.source.vocabulary) == 10
    assert len(figures.target.vocabulary) == 0
    assert (figures.source.types, figures.source.unseen) == (1000, 1.0)


def test_overlap_is_weighted_by_the_target():
    assert overlap(Counter("ab"), Counter("aab c")) == 3 / 4
    assert overlap(Counter("ab"), Counter("  ")) == 0


@pytest.mark.parametrize(
    ("names", "run"),
    [
        (("train.en", "train.de"), "runs/train.en-de"),
        (("a.b.en.gz", "a.b.de.txt"), "runs/a.b.en-de"),
        (("english.txt", "german.txt"), "runs/english-german"),
        (("left.en", "right.de"), "runs/left.en-right.de"),
    ],
)
def test_a_run_of_two_files_is_named_by_both(tmp_path, names, run):
    for number, name in enumerate(names):
        content = "".join(f"{word}\n" for word in words(200, seed=number)).encode()
        (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    assert look(*(tmp_path / name for name in names)).recipe.run == run


ASIDE = "looking at data finds recipes for translation and inflection, not for "


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("task=classification", "classification. Write one and name the data in it: regard new classification -o "),
        ("data.format=lines", "language. Write one"),
        ("data.source=null", "language. Write one"),
        ("data.target=null", "pretraining. Write one"),
    ],
)
def test_what_looking_does_not_find_is_pointed_to(tmp_path, override, told):
    path = write(tmp_path / "a b.tsv", [("x y", "z")] * 3)
    with pytest.raises(UsageError) as caught:
        look(path, overrides=[override])
    assert str(caught.value).startswith(ASIDE + told)
    task = told.partition(".")[0]
    assert str(caught.value).endswith(f"then: regard train {task}.yaml data.train='a b.tsv'")


def test_columns_that_are_told_are_looked_at(tmp_path):
    """With the columns the other way round, the long texts are the source."""
    long = "a sentence of some words , longer than its label , number"
    path = write(tmp_path / "a.tsv", [(str(n), "id", f"{long} {n}") for n in range(10, 60)])
    looked = look(path, overrides=["data.source=2", "data.target=0", "training.steps=3"])
    assert (looked.recipe.data.source, looked.recipe.data.target) == (2, 0)
    assert looked.reasons[0] == "format tsv: as you say"
    assert any("the median target has 2 characters" in reason for reason in looked.reasons)
    other = look(path, overrides=["data.source=0", "data.target=2"])
    assert any("the median source has 2 characters" in reason for reason in other.reasons)


def test_conllu_is_for_taggers_and_plain_text_for_language_models(tmp_path):
    path = write(tmp_path / "a.conllu", [("1", "a", "a", "DET", "_", "_", "0", "root", "_", "_")])
    with pytest.raises(UsageError, match=r"tagging\.yaml data\.train=a\.conllu data\.format=conllu$"):
        look(path)
    plain = write(tmp_path / "text.txt", [("just a text",)])
    with pytest.raises(
        DataError, match=r"texts alone are for a language model, in a recipe with `data\.format: lines`"
    ):
        look(plain)
