"""Recipes from text, files and mappings, with overrides; and every sentence that a mistake can cause."""

import os
from pathlib import Path
from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from regard.errors import RecipeError
from regard.recipe import load_recipe, override_recipe, parse_recipe, recipe_from
from regard.recipe.layout import Layout, allowed, slot_of
from regard.recipe.overrides import parse_override
from regard.recipe.problems import HABITS
from regard.recipe.read import PATHS
from regard.recipe.schema import Recipe, RecurrentDecoderSection

GOOD = "data:\n  train: a.tsv\n"


def problem(text: str, *overrides: str) -> str:
    with pytest.raises(RecipeError) as error:
        parse_recipe(text, "r.yaml", overrides)
    return str(error.value)


def test_a_recipe_needs_only_data():
    recipe = parse_recipe(GOOD, "r.yaml")
    assert recipe == Recipe.model_validate({"data": {"train": "a.tsv"}})


def test_numbers_booleans_and_words():
    text = GOOD + "training: {learning_rate: 5e-4, betas: [0.9, 98e-2]}\ntext: {shared: yes, lowercase: off}\nrun: no\n"
    recipe = parse_recipe(text, "r.yaml")
    assert recipe.training.learning_rate == 5e-4
    assert recipe.training.betas == (0.9, 0.98)
    assert recipe.text.shared is True
    assert recipe.text.lowercase is False
    assert recipe.run == "no"


def test_an_empty_section_is_a_section_without_settings():
    assert parse_recipe(GOOD + "training:\n# steps: 3\n", "r.yaml") == parse_recipe(GOOD, "r.yaml")


def test_a_section_without_its_kind_has_the_default_kind():
    recipe = parse_recipe(GOOD + "model: {encoder: {heads: 8}}\n", "r.yaml")
    assert recipe.model.encoder.kind == "transformer"
    assert recipe.model.encoder.heads == 8


MISTAKES = [
    ("training: {stesp: 300}", "r.yaml:3:12: training.stesp: unknown; did you mean steps?"),
    ("model: {layer: 3}", "r.yaml:3:9: model.layer: unknown; did you mean layers?"),
    ("training: {lr: 3}", "r.yaml:3:12: training.lr: unknown; here it is called learning_rate"),
    ("model: {learning_rate: 3}", "r.yaml:3:9: model.learning_rate: unknown; learning_rate belongs to training"),
    ("model: {lr: 3}", "r.yaml:3:9: model.lr: unknown; learning_rate belongs to training"),
    ("steps: 3", "r.yaml:3:1: steps: unknown; steps belongs to training"),
    ("model: {task: x}", "r.yaml:3:9: model.task: unknown; task belongs to the top of the recipe"),
    ("search: {lerning_rate: 3}", "r.yaml:3:10: search.lerning_rate: unknown; did you mean training.learning_rate?"),
    ("text: {qqqq: 3}", "r.yaml:3:8: text.qqqq: unknown; allowed: unit, size, shared"),
    ("model: {encoder: {qqqq: 1}}", "r.yaml:3:19: model.encoder.qqqq: unknown; allowed: kind, layers, heads"),
    ("model: {encoder: {kind: rnn, heads: 8}}", "r.yaml:3:30: model.encoder.heads: unknown; heads belongs to model."),
    ("model: {width: 1}", "r.yaml:3:16: model.width: found 1; allowed: a whole number of at least 2 and at most 16384"),
    ("model: {width: x}", "r.yaml:3:16: model.width: found 'x'; allowed: a whole number of at least 2"),
    ("model: {width: 3.5}", "r.yaml:3:16: model.width: found 3.5; allowed: a whole number"),
    ("model: {width: true}", "r.yaml:3:16: model.width: found true; allowed: a whole number"),
    ("model: {width: null}", "r.yaml:3:16: model.width: found nothing (null); allowed: a whole number"),
    ("model: {width: [3]}", "r.yaml:3:16: model.width: found a list of 1; allowed: a whole number"),
    ("model: {dropout: 1}", "r.yaml:3:18: model.dropout: found 1; allowed: a number of at least 0 and at most 0.95"),
    ("model: 5", "r.yaml:3:8: model: found 5; allowed: a section with shape, width, layers"),
    ("model: {encoder: 5}", "r.yaml:3:18: model.encoder: found 5; allowed: a section whose kind is transformer or rnn"),
    (
        "model: {encoder: {kind: tranformer}}",
        "r.yaml:3:25: model.encoder.kind: found 'tranformer'; allowed: transformer or rnn or bag or convolution or "
        "category or none; did you mean transformer?",
    ),
    (
        "model: {encoder: {heads: 0}}",
        "r.yaml:3:26: model.encoder.heads: found 0; allowed: a whole number of at least 1",
    ),
    ("model: {tie: al}", "r.yaml:3:14: model.tie: found 'al'; allowed: all, target or none; did you mean all?"),
    ("training: {select: bleu}", "r.yaml:3:20: training.select: found 'bleu'; allowed: loss, BLEU, chrF"),
    ("training: {steps: 0}", "r.yaml:3:19: training.steps: found 0; allowed: a whole number of at least 1, or null"),
    (
        "training: {threads: 0}",
        "r.yaml:3:21: training.threads: found 0; allowed: auto or a whole number of at least 1, or null",
    ),
    ("training: {learning_rate: 0}", "training.learning_rate: found 0; allowed: a number above 0"),
    ("training: {learning_rate: inf}", "r.yaml:3:27: training.learning_rate: found 'inf'; allowed: finite numbers"),
    ("training: {learning_rate: .inf}", "r.yaml:3:27: training.learning_rate: found '.inf'; allowed: a number above 0"),
    ("training: {betas: [0.9]}", "r.yaml:3:12: training.betas[1]: missing; give a number"),
    ("training: {betas: [0.9, .inf]}", "r.yaml:3:25: training.betas[1]: found '.inf'; allowed: a number"),
    ("training: {betas: [0.9, false]}", "r.yaml:3:25: training.betas[1]: found false; allowed: a number"),
    ("evaluation: {metrics: BLEU}", "r.yaml:3:23: evaluation.metrics: found 'BLEU'; allowed: a list of BLEU/chrF/"),
    ("evaluation: {metrics: BLEU}", "squared_error; write [BLEU]"),
    ("evaluation: {metrics: []}", "r.yaml: `evaluation.metrics` is empty: name what is measured"),
    ("evaluation: {metrics: [BLEU, x]}", "r.yaml:3:30: evaluation.metrics[1]: found 'x'; allowed: BLEU, chrF, TER"),
    ("run: ''", "r.yaml:3:6: run: found ''; allowed: a text"),
    ("run: 5", "r.yaml:3:6: run: found 5; allowed: a text"),
    ("format: 2", "r.yaml:3:9: format: found 2; allowed: 1"),
    ("seed: -1", "r.yaml:3:7: seed: found -1; allowed: a whole number of at least 0"),
    ("model: {width: 10}", "r.yaml:3:1: model: width 10 cannot be split into 4 heads of the encoder"),
    ("model: {encoder: {heads: 4, key_heads: 3}}", "encoder: 3 key heads cannot serve 4 heads in equal shares; `key_h"),
    (
        "model: {encoder: {positions: alibi, waves: halves}}",
        "`waves` has no effect on positions 'alibi'; it works with sinusoidal",
    ),
    ("model: {encoder: {longest: 9}}", "`longest` has no effect on positions 'sinusoidal'; it works with learned"),
    (
        "model: {decoder: {positions: alibi, furthest: 9}}",
        "`furthest` has no effect on positions 'alibi'; it works with relative and relative_bias",
    ),
    (
        "model: {decoder: {positions: relative, buckets: 9}}",
        "`buckets` has no effect on positions 'relative'; it works with relative_bias",
    ),
    (
        "model: {encoder: {positions: rotary, score: additive}}",
        "positions 'rotary' change the product of query and key, which the additive score does not make; choose",
    ),
    (
        "model: {width: 12, decoder: {positions: rotary}}",
        "r.yaml:3:1: model: rotary positions turn pairs of numbers, but a head of the decoder has 3; choose `width`",
    ),
    (
        "model: {encoder: {positions: relative_bias, buckets: 10}}",
        "10 buckets of the encoder cannot be split into 4 equal parts",
    ),
    (
        "model: {decoder: {positions: relative_bias, buckets: 7}}",
        "7 buckets of the decoder cannot be split into 2 equal parts",
    ),
    (
        "model: {decoder: {positions: relative_bias, buckets: 40, furthest: 20}}",
        "`furthest` 20 of the decoder lies within the 20 distances with a bucket each; raise it above 20, or take",
    ),
    (
        "model: {encoder: {positions: learned, longest: 99}}",
        "the encoder learns 99 positions, but its texts may have 257 tokens, START or END included; "
        "set `model.encoder.longest: 257`, or lower `data.max_length`",
    ),
    (
        "model: {decoder: {positions: learned}}\nsearch: {max_length: 600}",
        "the decoder learns 512 positions, but its texts may have 601 tokens, START or END included; "
        "set `model.decoder.longest: 601`, or lower `data.max_length` and `search.max_length`",
    ),
    ("text: {unit: codes}", "r.yaml:3:1: text: unit `codes` needs the path of a codes file in `codes`"),
    ("model: {tie: all}\ntext: {shared: false}", "r.yaml: `model.tie: all` needs one vocabulary"),
    (
        "training: {optimizer: sgd, betas: [0.9, 0.9]}",
        "r.yaml:3:1: training: `betas` has no effect on `optimizer: sgd`, which has `momentum`: leave it out",
    ),
    (
        "training: {schedule: linear, steps: 9, fall: {factor: 0.1}}",
        "r.yaml:3:1: training: `fall.factor` has no effect on `schedule: linear`; it is for by_epoch and plateau",
    ),
    (
        "training: {schedule: plateau, fall: {after_epochs: 3}}",
        "r.yaml:3:1: training: `fall.after_epochs` has no effect on `schedule: plateau`; it is for by_epoch",
    ),
    ("training: {patience: null}", "r.yaml:3:1: training: training would never end: give `steps`"),
    (
        "model: {encoder: {kind: rnn, reversed: true}}",
        "r.yaml:3:9: model.encoder: `reversed` has no effect on a network that reads both ways: set `two_way: false`",
    ),
    (
        "model: {encoder: {kind: rnn, pyramid: true, residual: true}}",
        "r.yaml:3:9: model.encoder: a layer of a `pyramid` reads two states at once and cannot add them to its own",
    ),
    (
        "model: {layers: 1, encoder: {kind: rnn, pyramid: true}}",
        "r.yaml:3:1: model: `pyramid` has no effect on a single layer: give the encoder more `layers`",
    ),
    (
        "model: {decoder: {kind: rnn, layers: 1, residual: true}}",
        "r.yaml:3:1: model: `residual` has no effect on a single layer: give the decoder more `layers`",
    ),
    (
        "model: {width: 20, encoder: {kind: rnn, self_attention: 3}}",
        "r.yaml:3:1: model: states of width 40 cannot be split into 3 heads of the encoder's `self_attention`",
    ),
    (
        "model: {decoder: {kind: rnn, wiring: initial, input_feeding: true}}",
        "model.decoder: `input_feeding` has no effect on `wiring: initial`; it belongs to `wiring: luong`",
    ),
    (
        "model: {decoder: {kind: rnn, window: 3}}",
        "model.decoder: `window` has no effect on `wiring: bahdanau`; it belongs to `wiring: luong`",
    ),
    (
        "model: {encoder: {kind: rnn}, decoder: {kind: rnn, score: dot}}",
        "r.yaml:3:1: model: `score: dot` needs one width, but the decoder's states 128 and the encoder's keys 256",
    ),
    (
        "model: {decoder: {kind: rnn, heads: 3}}",
        "r.yaml:3:1: model: the decoder's states of width 128 cannot be split into 3 heads",
    ),
    (
        "model: {width: 9, encoder: {kind: bag}, decoder: {kind: rnn, projections: split}}",
        "r.yaml:3:1: model: states of width 9 cannot be split into key and value of one width",
    ),
    (
        "model: {decoder: {kind: rnn, wiring: initial}}",
        "`wiring: initial` begins with 2 layers of 1 part, and an encoder that ends with self-attention has none: make",
    ),
    (
        "model: {encoder: {kind: rnn}, decoder: {kind: rnn, wiring: initial}}",
        "begins with 2 layers of 1 part, and a two-way encoder ends with two states in each layer: make them alike",
    ),
    (
        "model: {encoder: {kind: rnn, two_way: false, cell: lstm}, decoder: {kind: rnn, wiring: initial}}",
        "begins with 2 layers of 1 part, and this encoder ends with 2 layers of 2 parts: make them alike, or",
    ),
    (
        "model: {encoder: {kind: bag}, decoder: {kind: rnn, wiring: initial}}",
        "begins with 2 layers of 1 part, and this encoder ends with 1 layer of 1 part: make them alike, or take",
    ),
]


@pytest.mark.parametrize(("line", "message"), MISTAKES)
def test_a_mistake_is_told_in_one_line(line, message):
    told = problem(GOOD + line + "\n")
    assert message in told
    assert "\n" not in told


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "r.yaml: data: missing; give a section with train, valid, test"),
        (
            "data: {valid: x}",
            "r.yaml:1:1: data.train: missing; give a text or a list of texts. A file of pairs, or two",
        ),
        ("data: {train: 5}", "r.yaml:1:15: data.train: found 5; allowed: a text or a list of texts"),
        ("data: {train: [a, 5]}", "r.yaml:1:19: data.train[1]: found 5; allowed: a text"),
        ("data: {train: a, valid: 5}", "r.yaml:1:25: data.valid: found 5; allowed: a text or a list of texts, or null"),
        (
            "data: {train: a, further: {x: 5}}",
            "r.yaml:1:31: data.further.x: found 5; allowed: a text or a list of texts",
        ),
        ("data: {train: a, further: {x: yes, y: [1]}}", "r.yaml:1:40: data.further.y[0]: found 1; allowed: a text"),
        ("data: {train: a, further: {x: true}}", "r.yaml:1:31: data.further.x: found true; allowed: a text or a list"),
        ("data: {train: a, further: x}", "r.yaml:1:27: data.further: found 'x'; allowed: a mapping of names to a text"),
        ("data: {train: a, source: true}", "r.yaml:1:26: data.source: found true; allowed: a text or a whole number"),
    ],
)
def test_a_mistake_in_data(text, message):
    told = problem(text)
    assert told.startswith(message)
    assert "\n" not in told


def test_all_mistakes_at_once_in_the_order_of_the_text():
    told = problem(
        "training:\n  stesp: 3\n  steps: x\ndata:\n  train: 5\n  train: 6\n"
        "model: {encoder: {kind: cnn}, width: !!int 3}\n",
        "seed=x",
        "nonsense",
        "seed.inner=3",
    )
    assert told.splitlines() == [
        "r.yaml: 8 problems",
        "  r.yaml:2:3: training.stesp: unknown; did you mean steps?",
        "  r.yaml:3:10: training.steps: found 'x'; allowed: a whole number of at least 1, or null",
        "  r.yaml:6:3: data.train: given twice, first at r.yaml:5:3; keep one of them",
        "  r.yaml:7:25: model.encoder.kind: found 'cnn'; allowed: transformer or rnn or bag or convolution or "
        "category or none",
        "  r.yaml:7:38: model.width: the tag `!!int` is refused; a recipe holds plain values only",
        "  override 'seed=x': seed: found 'x'; allowed: a whole number of at least 0 and below 9223372036854775808",
        "  override 'nonsense': no `=`; write a setting and its value, such as training.steps=300",
        "  override 'seed.inner=3': seed.inner: seed has no settings of its own",
    ]


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("training.steps=300", ("training", "steps"), 300),
        ("training.learning_rate=3e-4", ("training", "learning_rate"), 3e-4),
        ("training.patience=null", ("training", "patience"), None),
        ("data.train=[a.en,a.de]", ("data", "train"), ["a.en", "a.de"]),
        ("data.train=['a,b', \"c d\"]", ("data", "train"), ["a,b", "c d"]),
        ("text.source={unit: word, size: 30}", ("text", "source"), {"unit": "word", "size": 30}),
        ("run='300'", ("run",), "300"),
        (" run = a b ", ("run",), "a b"),
        ("run=a=b", ("run",), "a=b"),
        ("run=*.tsv", ("run",), "*.tsv"),
        ("run=a: b # c", ("run",), "a: b # c"),
        ("run=&a", ("run",), "&a"),
        ("run=!x", ("run",), "!x"),
    ],
)
def test_overrides_are_read(text, path, value):
    override = parse_override(text)
    assert (override.path, override.value) == (path, value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("training.steps", "override 'training.steps': no `=`; write a setting and its value"),
        ("=3", "override '=3': '' names no setting"),
        ("training.steps= ", "override 'training.steps= ': no value after the `=`; write one, or training.steps=null"),
        ("training..steps=3", "override 'training..steps=3': 'training..steps' names no setting"),
        ("data.train=[a", "override 'data.train=[a': '[a' is not a whole list, mapping or quoted text"),
        ("data.train=[a]]", "override 'data.train=[a]]': '[a]]' is not a whole list, mapping or quoted text"),
        ("data.train=[&x a]", "cannot be used: the anchor `&x` is not read"),
        ("data.train=[!!python/name:os.system a]", "cannot be used: the tag `!!python/name:os.system` is refused"),
        ("data.train='a'\nx: 1", "cannot be used: it goes on after its end"),
        ("run=a\0b", "the value holds a character that cannot be part of a text"),
        ("run=a\udc80", "the value holds a character that cannot be part of a text"),
    ],
)
def test_malformed_overrides(text, message):
    with pytest.raises(RecipeError) as error:
        parse_override(text)
    assert message in str(error.value)
    assert message in problem(GOOD, text)


@given(st.text(max_size=40))
def test_any_override_is_applied_or_refused(text):
    try:
        parse_recipe(GOOD, "r", [text])
    except RecipeError as error:
        assert "override" in str(error)  # noqa: PT017


def test_overrides_replace_and_later_ones_win():
    recipe = parse_recipe(
        GOOD + "training: {steps: 5}\n",
        "r.yaml",
        [
            "training.steps=300",
            "training.steps=20",
            "text.shared=false",
            "text.source.unit=character",
            "data.test=[x, y]",
        ],
    )
    assert recipe.training.steps == 20
    assert recipe.text.source.unit == "character"
    assert recipe.data.test == ("x", "y")


def test_another_kind_drops_what_only_the_old_kind_has():
    text = GOOD + "model: {encoder: {kind: transformer, heads: 8, layers: 3}}\n"
    recipe = parse_recipe(text, "r.yaml", ["model.encoder.kind=rnn"])
    assert recipe.model.encoder.kind == "rnn"
    assert recipe.model.encoder.layers == 3
    told = problem(text, "model.encoder.kind=rnn", "model.encoder.heads=4")
    assert told.startswith("override 'model.encoder.heads=4': model.encoder.heads: unknown")
    told = problem(text, "model.encoder.heads=4", "model.encoder.kind=rnn")
    assert told.startswith("override 'model.encoder.heads=4': model.encoder.heads: unknown")
    told = problem(GOOD + "model: {encoder: {hedas: 8}}\n", "model.encoder.kind=rnn")
    assert told.startswith("r.yaml:3:19: model.encoder.hedas: unknown")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("training.stesp=300", "override 'training.stesp=300': training.stesp: unknown; did you mean steps?"),
        ("training.steps=x", "override 'training.steps=x': training.steps: found 'x'; allowed: a whole number"),
        ("steps=300", "override 'steps=300': steps: unknown; steps belongs to training"),
        (
            "model.encoder.kind=cnn",
            "override 'model.encoder.kind=cnn': model.encoder.kind: found 'cnn'; allowed: trans",
        ),
        ("model.width.x=3", "override 'model.width.x=3': model.width: found a section; allowed: a whole number"),
        ("text.source.size=30", "override 'text.source.size=30': text.source.unit: missing; give word, character"),
        ("data.train.x=3", "override 'data.train.x=3': data.train.x: data.train has no settings of its own"),
        ("data.train=[a,3]", "override 'data.train=[a,3]': data.train[1]: found 3; allowed: a text"),
    ],
)
def test_mistakes_in_overrides_stand_at_the_override(override, message):
    told = problem(GOOD, override)
    assert told.startswith(message)
    assert "\n" not in told


def test_paths_of_a_file_are_relative_to_it_and_paths_of_overrides_to_the_working_directory(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    recipe = tmp_path / "there" / "r.yaml"
    recipe.write_text(
        f"run: runs/x\ndata: {{train: [a.en, ../b.de], valid: {os.sep}abs{os.sep}v.tsv}}\n"
        "text: {unit: codes, codes: c.codes}\n"
    )
    monkeypatch.chdir(tmp_path / "here")
    loaded = load_recipe(Path("../there/r.yaml"), ["data.test=t.tsv"])
    assert loaded.data.train == (str(tmp_path / "there" / "a.en"), str(tmp_path / "b.de"))
    assert loaded.data.valid == f"{os.sep}abs{os.sep}v.tsv"
    assert loaded.data.test == str(tmp_path / "here" / "t.tsv")
    assert loaded.text.codes == str(tmp_path / "there" / "c.codes")
    assert loaded.run == "runs/x"
    further = load_recipe(recipe, ["data.further={a: x, b: [y]}", "data.further.c=z"]).data.further
    assert further == {
        "a": str(tmp_path / "here" / "x"),
        "b": (str(tmp_path / "here" / "y"),),
        "c": str(tmp_path / "here" / "z"),
    }
    assert load_recipe(recipe, ["data={train: '-', test: t}"]).data.train == "-"
    assert load_recipe(recipe, ["data={train: '-', test: t}"]).data.test == str(tmp_path / "here" / "t")


def test_errors_of_a_file_name_it(tmp_path):
    path = tmp_path / "r.yaml"
    path.write_text("data: {train: a}\nmodle: {}\n")
    with pytest.raises(RecipeError) as error:
        load_recipe(path)
    assert str(error.value) == f"{path}:2:1: modle: unknown; did you mean model?"


def test_mappings_are_checked_and_left_alone():
    mapping = {"data": {"train": ("a", "b")}, "model": {"encoder": {}}}
    recipe = recipe_from(mapping, ["training.steps=3", "model.width=64"])
    assert recipe.training.steps == 3
    assert mapping == {"data": {"train": ("a", "b")}, "model": {"encoder": {}}}
    with pytest.raises(RecipeError, match=r"^recipe: training\.stesp: unknown; did you mean steps\?$"):
        recipe_from({"data": {"train": "a"}, "training": {"stesp": 3}})
    with pytest.raises(RecipeError, match=r"^mine: training\.steps: found a huge number; allowed: a whole number"):
        recipe_from({"data": {"train": "a"}, "training": {"steps": -(10**5000)}}, name="mine")


def test_a_recipe_can_be_overridden():
    recipe = parse_recipe(GOOD, "r.yaml")
    assert override_recipe(recipe, []) is recipe
    changed = override_recipe(recipe, ["model.decoder.kind=rnn", "training.steps=300"])
    assert (changed.model.decoder.kind, changed.training.steps) == ("rnn", 300)
    assert changed.data == recipe.data
    rotary = override_recipe(recipe, ["model.decoder={positions: rotary, score: dot}"])
    assert override_recipe(rotary, ["model.decoder.kind=transformer"]) == rotary
    assert changed.model.decoder == RecurrentDecoderSection()
    recurrent = override_recipe(rotary, ["model.decoder.kind=rnn"]).model.decoder
    assert recurrent == RecurrentDecoderSection(score="dot"), "a choice that both kinds have is kept"
    assert override_recipe(changed, ["model.decoder.kind=transformer"]).model == recipe.model
    with pytest.raises(RecipeError, match=r"^override 'model\.decoder\.score=scaled': model\.decoder\.score: found"):
        override_recipe(rotary, ["model.decoder.score=scaled", "model.decoder.kind=transformer"])
    assert override_recipe(recipe, ["data.test=t.tsv"]).data.test == str(Path.cwd() / "t.tsv")
    with pytest.raises(
        RecipeError, match=r"^override 'training\.stesp=3': training\.stesp: unknown; did you mean steps"
    ):
        override_recipe(recipe, ["training.stesp=3"])


def test_habits_and_paths_are_settings_of_the_schema():
    layout = Layout(Recipe)
    assert [name for name in HABITS.values() if not layout.owners(name)] == []
    assert [name for name in HABITS if layout.owners(name)] == []
    known = {path for path, _ in layout.walk()}
    assert set(PATHS) <= known


def test_every_setting_is_explained():
    layout = Layout(Recipe)
    bare = [path for path, slot in layout.walk() if not slot.description and path[-1] != "kind"]
    assert bare == []


class Left(BaseModel):
    kind: Literal["left"] = "left"
    a: int = 1


class Right(BaseModel):
    kind: Literal["right"] = "right"
    b: tuple[float, ...] = ()


class Whole(BaseModel):
    needed: Annotated[Left | Right, Field(discriminator="kind")] = Field(description="No default.")
    maybe: Annotated[Left | Right, Field(discriminator="kind")] | None = None
    names: list[str] = Field(default_factory=list)
    share: float = Field(0.5, gt=0, lt=1)


def test_layout_follows_any_schema():
    layout = Layout(Whole)
    tree = {"needed": {"kind": "right", "b": [1.0]}}
    assert layout.keys(("needed",), tree) == ("kind", "b")
    assert layout.keys(("needed",), {"needed": {"kind": "other"}}) == ()
    assert layout.keys(("names", 0), tree) == ()
    assert layout.slot(("needed", "b", 0), tree).annotation is float
    assert layout.slot(("needed", "b", 0, "c"), tree) is None
    assert layout.slot(("share", "x", "y"), tree) is None
    assert layout.clean(("needed", "right", "b", 0), tree) == (("needed", "b", 0), None)
    assert layout.foreign_keys(("needed",), "kind", "left") == {"b"}
    assert layout.foreign_keys(("maybe",), "kind", "left") == {"b"}
    assert layout.owners("kind") == (("needed",), ("maybe",))
    phrases = {name: allowed(slot_of(field)) for name, field in Whole.model_fields.items()}
    assert phrases == {
        "needed": "a section whose kind is left or right",
        "maybe": "a section whose kind is left or right, or null",
        "names": "a list of texts",
        "share": "a number above 0 and below 1",
    }


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("training: {betas: [1.5, 0.9]}", "`betas` are (1.5, 0.9); each must be at least 0 and below 1"),
        ("evaluation: {alignment: {layer: 7}}", "`evaluation.alignment.layer` is 7; the decoder has 2, from 0"),
        ("evaluation: {alignment: {head: 9}}", "`evaluation.alignment.head` is 9; the decoder has 4, from 0"),
        ("text: {unit: inflection, shared: false}", "unit `inflection` is for the source side only"),
        ("search: {min_length: 300}", "`min_length` is 300; it must not be above `max_length`, 256"),
        ("search: {groups: 2, diversity: 0}", "2 `groups` with `diversity: 0` would all find the same"),
        ("search: {diversity: 2.0}", "`search.diversity` has no effect here, it is for `search.groups` of 2 or more"),
        (
            "search: {coverage_penalty: 0.2}\nmodel: {encoder: {kind: rnn}, decoder: {kind: rnn, wiring: every_step}}",
            "`search.coverage_penalty` has no effect here, it is for decoders with attention to a source",
        ),
    ],
)
def test_what_cannot_work_is_refused_before_training(line, message):
    assert message in problem(GOOD + line + "\n")
