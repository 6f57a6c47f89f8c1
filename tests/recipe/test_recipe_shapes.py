"""What each shape of model asks of a recipe: what is refused and why, and what follows where nothing is said."""

from typing import Any

import pytest
from pydantic import ValidationError

from regard.errors import RecipeError
from regard.recipe import dump_recipe, parse_recipe, recipe_from
from regard.recipe.schema import EvaluationSection, ModelSection, Recipe

LANGUAGE: dict[str, Any] = {
    "data": {"train": "a.txt", "format": "lines", "source": None, "target": 0},
    "model": {"shape": "language-model"},
}
CATEGORY: dict[str, Any] = {
    "data": {"train": "a.tsv", "source": None, "attributes": [0]},
    "model": {"encoder": {"kind": "category"}},
}
ACCEPTOR: dict[str, Any] = {
    "data": {"train": "a.tsv"},
    "text": {"shared": False, "target": {"unit": "label"}},
    "model": {"shape": "acceptor"},
}
RATER: dict[str, Any] = {**ACCEPTOR, "text": {"shared": False, "target": {"unit": "number"}}}
TRANSDUCER: dict[str, Any] = {
    "data": {"train": "a.tsv"},
    "text": {"shared": False, "target": {"unit": "word"}},
    "model": {"shape": "transducer"},
}
MASKED: dict[str, Any] = {
    "data": {"train": "a.txt", "format": "lines", "target": None},
    "model": {"shape": "masked-language-model"},
}
PICTURES: dict[str, Any] = {"data": {"train": "a.tsv"}, "model": {"encoder": {"kind": "convolution"}}}
PICTURE_WORDS: dict[str, Any] = {**PICTURES, "text": {"target": {"unit": "word"}}}
PICTURE_LABELS: dict[str, Any] = {**ACCEPTOR, "model": {"shape": "acceptor", "encoder": {"kind": "convolution"}}}
PAIRS: dict[str, Any] = {"data": {"train": "a.tsv"}}
FACTORED: dict[str, Any] = {"data": {"train": "a.tsv", "factors": [2]}}


def changed(recipe: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A recipe with other settings, by dotted names; Ellipsis takes one out."""
    result = {name: dict(section) for name, section in recipe.items()}
    for name, value in changes.items():
        part, _, setting = name.partition(".")
        section = result.setdefault(part, {})
        if value is ...:
            section.pop(setting)
        else:
            section[setting] = value
    return result


@pytest.mark.parametrize(
    ("recipe", "encoder", "decoder", "metrics"),
    [
        (PAIRS, "transformer", "transformer", ("BLEU", "chrF", "TER")),
        (FACTORED, "transformer", "transformer", ("BLEU", "chrF", "TER")),
        (LANGUAGE, "none", "transformer", ()),
        (CATEGORY, "category", "transformer", ()),
        (ACCEPTOR, "transformer", "none", ("exact",)),
        (RATER, "transformer", "none", ("pearson", "squared_error")),
        (TRANSDUCER, "transformer", "none", ("accuracy", "exact")),
        (MASKED, "transformer", "none", ()),
        (PICTURES, "convolution", "transformer", ("BLEU", "chrF", "TER")),
        (PICTURE_LABELS, "convolution", "none", ("exact",)),
    ],
)
def test_what_is_not_said_follows_from_the_shape(
    recipe: dict[str, Any], encoder: str, decoder: str, metrics: tuple[str, ...]
) -> None:
    found = recipe_from(recipe)
    assert (found.model.encoder.kind, found.model.decoder.kind) == (encoder, decoder)
    assert found.evaluation.metrics == metrics
    assert parse_recipe(dump_recipe(found), "r") == found
    assert recipe_from(changed(recipe, {"evaluation.resamples": 7})).evaluation.metrics == metrics


def test_what_is_said_is_measured() -> None:
    assert recipe_from(changed(ACCEPTOR, {"evaluation.metrics": ["accuracy"]})).evaluation.metrics == ("accuracy",)
    assert recipe_from(changed(CATEGORY, {"evaluation.metrics": ["chrF"]})).evaluation.metrics == ("chrF",)


RNN = {"kind": "rnn"}
PROBLEMS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    (PAIRS, {"data.source": None}, "`shape: encoder-decoder` reads a source: name it in `data.source`"),
    (ACCEPTOR, {"data.source": None}, "`shape: acceptor` reads a source: name it in `data.source`"),
    (LANGUAGE, {"data.source": 1}, "`shape: language-model` has no source: set `data.source: null`"),
    (CATEGORY, {"data.source": 2}, "`encoder.kind: category` reads `data.attributes` only: set `data.source: null`"),
    (
        CATEGORY,
        {"data.attributes": ...},
        "`encoder.kind: category` needs something to read: name columns or keys in `data.attributes`",
    ),
    (
        ACCEPTOR,
        {"model.encoder": {"kind": "category"}, "data.source": None, "data.attributes": [0]},
        "`encoder.kind: category` is for `shape: encoder-decoder`, not for `shape: acceptor`",
    ),
    *(
        (
            recipe,
            {"data.attributes": [3], "data.format": "tsv"},
            f"`data.attributes` have no place in `shape: {recipe['model']['shape']}`; they join an encoder-decoder or "
            "an acceptor",
        )
        for recipe in (LANGUAGE, TRANSDUCER, MASKED)
    ),
    (LANGUAGE, {"data.factors": [1]}, "`data.factors` belong to the words of a source, and there is none"),
    (CATEGORY, {"data.factors": [2]}, "`data.factors` belong to the words of a source, and there is none"),
    (PAIRS, {"data.target": None}, "`shape: encoder-decoder` learns a target: name it in `data.target`"),
    (LANGUAGE, {"data.target": None}, "`shape: language-model` learns a target: name it in `data.target`"),
    (MASKED, {"data.target": 1}, "a masked language model has no target: set `data.target: null`"),
    (
        ACCEPTOR,
        {"text.target": {"unit": "word"}},
        "an acceptor answers with one label or number, not with words: set `text.shared: false` and `text.target: "
        "{unit: label}` or `{unit: number}`",
    ),
    (TRANSDUCER, {"text.target": {"unit": "label"}}, "`text.target.unit: label` is for `shape: acceptor`"),
    (
        PAIRS,
        {"text.shared": False, "text.target": {"unit": "number"}},
        "`text.target.unit: number` is for `shape: acceptor`",
    ),
    (
        TRANSDUCER,
        {"text.target": {"unit": "bpe"}},
        "a transducer writes an item for each word: set `text.shared: false` and `text.target: {unit: word}`",
    ),
    (
        TRANSDUCER,
        {"text.target": ..., "text.shared": True, "text.unit": "word"},
        "a transducer writes an item for each word: set `text.shared: false` and `text.target: {unit: word}`",
    ),
    *(
        (recipe, {"text.shared": False}, "there is one text only, so there is one vocabulary: set `text.shared: true`")
        for recipe in (LANGUAGE, CATEGORY, MASKED, PICTURES)
    ),
    (PICTURES, {"data.source": None}, "`shape: encoder-decoder` reads a source: name it in `data.source`"),
    (PICTURES, {"data.factors": [2]}, "`data.factors` belong to the words of a source, and there is none"),
    (
        PICTURE_LABELS,
        {"text.source": {"unit": "word"}},
        "`text.source` has no effect, for the source is a picture: leave it out",
    ),
    (
        PICTURE_LABELS,
        {"text.start_from": "runs/other"},
        "an acceptor of pictures has no text but its answers, which are learned: leave `text.start_from` out",
    ),
    *(
        (
            recipe,
            {"text.dropout": 0.1},
            "`text.dropout` cuts words anew, and tags or factors of words would no longer fit: leave it out",
        )
        for recipe in (TRANSDUCER, FACTORED)
    ),
    *(
        (
            recipe,
            {"data.long_lines": "cut"},
            "`data.long_lines: cut` would cut words from their tags or factors: take skip or refuse",
        )
        for recipe in (TRANSDUCER, FACTORED)
    ),
    *(
        (
            recipe,
            {"evaluation.metrics": ["BLEU"]},
            f"`shape: {recipe['model']['shape']}` is judged by its perplexity: leave `evaluation.metrics` out",
        )
        for recipe in (LANGUAGE, MASKED)
    ),
    (PAIRS, {"evaluation.metrics": []}, "`evaluation.metrics` is empty: name what is measured"),
    *(
        (
            recipe,
            {"training.select": "exact"},
            "`training.select: exact` needs outputs to judge, and there are none: take `loss`",
        )
        for recipe in (LANGUAGE, MASKED, CATEGORY)
    ),
    (
        ACCEPTOR,
        {"evaluation.metrics": ["exact", "squared_error", "pearson"]},
        "only numbers have pearson, squared_error, and targets are not of `text.target.unit: number`",
    ),
    (
        ACCEPTOR,
        {"training.select": "BLEU"},
        "BLEU compare sentences, and `shape: acceptor` answers with one label: take exact",
    ),
    (
        TRANSDUCER,
        {"evaluation.metrics": ["accuracy", "chrF"], "training.select": "TER"},
        "TER, chrF compare sentences, and `shape: transducer` answers with a tag for each word: take accuracy or exact",
    ),
    (
        PAIRS,
        {"training.select": "pearson"},
        "only numbers have pearson, and targets are not of `text.target.unit: number`",
    ),
    (
        FACTORED,
        {"model.width": 16, "model.factor_width": 8, "data.factors": [2, 3]},
        "2 factors of `model.factor_width: 8` leave no room for the word in `model.width: 16`",
    ),
    (
        FACTORED,
        {"model.tie": "all"},
        "`model.tie: all` needs one width, and words have less beside their factors: take `factors: sum`",
    ),
    (
        PAIRS,
        {
            "data.attributes": [2],
            "model.encoder": {"kind": "rnn", "two_way": False},
            "model.decoder": {"kind": "rnn", "wiring": "initial"},
        },
        "`decoder.wiring: initial` would not see `data.attributes`: take `transformed` or `every_step`",
    ),
    (
        PAIRS,
        {
            "data.attributes": [2],
            "model.encoder": RNN,
            "model.decoder": {"kind": "rnn", "wiring": "luong", "window": 3},
        },
        "`decoder.window` lies around a word of the source, and `data.attributes` stand outside: leave it out",
    ),
    (
        RATER,
        {"evaluation.metrics": ["pearson", "BLEU"], "training.select": "exact"},
        "BLEU, exact compare texts, and targets are numbers: take pearson or squared_error",
    ),
    (
        PAIRS,
        {"text.reverse_target": True, "data.long_lines": "cut"},
        "`data.long_lines: cut` would cut the beginning of reversed targets: take skip or refuse",
    ),
    *(
        (recipe, {setting: value}, f"`{setting}` has no effect here, it is for {users}: leave it out")
        for setting, value, users, recipes in (
            (
                "training.masking",
                {"share": 0.2},
                "a masked language model",
                (PAIRS, LANGUAGE, CATEGORY, ACCEPTOR, RATER, TRANSDUCER, FACTORED),
            ),
            ("text.reverse_target", True, "an encoder-decoder", (LANGUAGE, ACCEPTOR, TRANSDUCER, MASKED)),
            ("model.factors", "sum", "`data.factors`", (PAIRS, LANGUAGE, MASKED)),
            ("model.factor_width", 8, "`data.factors` with `model.factors: concat`", (PAIRS, ACCEPTOR)),
            ("model.output_bias", True, "models with a decoder", (ACCEPTOR, RATER, TRANSDUCER, MASKED)),
            *(
                ("model.tie", tie, "models that write or find words, not for answers and tags", (ACCEPTOR, TRANSDUCER))
                for tie in ("all", "none")
            ),
            ("training.label_smoothing", 0.2, "probabilities, not for numbers", (RATER,)),
        )
        for recipe in recipes
    ),
    (
        FACTORED,
        {"model.factors": "sum", "model.factor_width": 8},
        "`model.factor_width` has no effect here, it is for `data.factors` with `model.factors: concat`: leave it out",
    ),
]
USED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (MASKED, {"training.masking": {"share": 0.2}, "model.tie": "none"}),
    (FACTORED, {"model.factors": "sum"}),
    (FACTORED, {"model.factor_width": 8}),
    (LANGUAGE, {"model.output_bias": True, "model.tie": "none"}),
    (RATER, {"training.label_smoothing": 0.0}),
    (RATER, {"training.label_smoothing": 0.1, "training.select": "pearson"}),
    (ACCEPTOR, {"training.label_smoothing": 0.2}),
    (ACCEPTOR, {"training.masking": {"share": 0.15}, "model.tie": "target", "model.factor_width": 16}),
]


@pytest.mark.parametrize(("recipe", "changes"), USED)
def test_settings_that_are_used_or_say_what_is_so_anyway(recipe: dict[str, Any], changes: dict[str, Any]) -> None:
    found = recipe_from(changed(recipe, changes))
    assert parse_recipe(dump_recipe(found), "r") == found


def test_all_that_does_not_fit_is_told_at_once() -> None:
    with pytest.raises(RecipeError) as caught:
        recipe_from(changed(MASKED, {"data.target": 1, "model.output_bias": True, "text.shared": False}))
    assert (
        "a masked language model has no target: set `data.target: null`. Also: `model.output_bias` has no effect here, "
        "it is for models with a decoder: leave it out"
    ) in str(caught.value)


@pytest.mark.parametrize("recipe", [PAIRS, LANGUAGE, CATEGORY, ACCEPTOR, RATER, TRANSDUCER, MASKED])
def test_sections_are_as_good_as_mappings(recipe: dict[str, Any]) -> None:
    sections: dict[str, Any] = {
        name: Recipe.model_fields[name].annotation.model_validate(values)  # type: ignore[union-attr]
        for name, values in recipe.items()
    }
    expected = recipe_from(recipe)
    assert Recipe(**sections) == expected
    few = Recipe(**sections, evaluation=EvaluationSection(resamples=7)).evaluation
    assert few == expected.evaluation.model_copy(update={"resamples": 7})
    with pytest.raises(ValidationError, match=r"only numbers have|compare texts|by its perplexity|needs outputs"):
        Recipe(**sections, evaluation=EvaluationSection(metrics=("exact", "pearson")))


@pytest.mark.parametrize(("recipe", "changes", "message"), PROBLEMS)
def test_what_does_not_fit_the_shape_is_told(recipe: dict[str, Any], changes: dict[str, Any], message: str) -> None:
    assert isinstance(recipe_from(recipe), Recipe)
    with pytest.raises(RecipeError) as caught:
        recipe_from(changed(recipe, changes))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"shape": "language-model", "encoder": RNN}, "`shape: language-model` has no encoder: leave `encoder` out"),
        (
            {"shape": "language-model", "decoder": {"kind": "none"}},
            "`shape: language-model` has a decoder; choose a `decoder.kind`",
        ),
        ({"shape": "acceptor", "decoder": RNN}, "`shape: acceptor` has no decoder: leave `decoder` out"),
        (
            {"shape": "acceptor", "encoder": {"kind": "none"}},
            "`shape: acceptor` has an encoder; choose a `encoder.kind`",
        ),
        (
            {"encoder": {"kind": "none"}},
            "`shape: encoder-decoder` has an encoder; choose a `encoder.kind`",
        ),
        (
            {"decoder": {"kind": "rnn", "wiring": "none"}},
            "`decoder.wiring: none` is for `shape: language-model`, which has no source",
        ),
        (
            {"shape": "language-model", "decoder": RNN},
            "a language model has no source that could get in by `wiring: bahdanau`; set it to `none`",
        ),
        (
            {"shape": "transducer", "encoder": {"kind": "bag"}},
            "`shape: transducer` needs a state for each item, which `encoder.kind: bag` has not",
        ),
        (
            {"shape": "masked-language-model", "encoder": {"kind": "category"}},
            "`shape: masked-language-model` needs a state for each item, which `encoder.kind: category` has not",
        ),
        *(
            (
                {"shape": shape, "encoder": {"kind": "convolution"}},
                f"`shape: {shape}` needs a state for each item, which `encoder.kind: convolution` has not",
            )
            for shape in ("transducer", "masked-language-model")
        ),
        (
            {"encoder": {"kind": "convolution"}, "decoder": {"kind": "rnn", "wiring": "initial"}},
            "a decoder with `wiring: initial` begins with 2 layers of 1 part, and a convolution ends with none: make "
            "them alike, or take `wiring: transformed`, which fits any encoder",
        ),
        (
            {"encoder": {"kind": "convolution", "layers": 2, "halvings": 3}, "layers": 4},
            "2 layers of the encoder cannot halve a picture 3 times",
        ),
        (
            {"encoder": {"kind": "convolution", "groups": 3}},
            "width 128 cannot be split into 3 `groups` of the encoder",
        ),
        (
            {"shape": "transducer", "encoder": {"kind": "rnn", "pyramid": True}},
            "a `pyramid` has fewer states than items, and `shape: transducer` needs one for each",
        ),
    ],
)
def test_sides_that_a_shape_does_not_have(model: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        ModelSection.model_validate(model)
    assert message in str(caught.value)


def test_shares_of_hidden_items_are_shares() -> None:
    with pytest.raises(RecipeError, match=r"`masked` 0\.8 and `replaced` 0\.3 are more than all together"):
        recipe_from(changed(MASKED, {"training.masking": {"replaced": 0.3}}))


@pytest.mark.parametrize("recipe", [ACCEPTOR, RATER, TRANSDUCER, PICTURE_LABELS])
def test_settings_of_a_side_say_that_the_sides_differ(recipe: dict[str, Any]) -> None:
    """`shared` is true only as long as nobody says otherwise."""
    left_out = changed(recipe, {"text.shared": ...})
    assert recipe_from(left_out) == recipe_from(recipe)
    with pytest.raises(RecipeError, match="`shared: true` leaves no room for `source` or `target` settings"):
        recipe_from(changed(recipe, {"text.shared": True}))


def test_the_text_of_a_picture_may_have_settings_of_its_own() -> None:
    recipe = recipe_from(PICTURE_WORDS)
    assert recipe.one_text
    assert recipe.text.target is not None
    assert recipe.text.target.unit == "word"
