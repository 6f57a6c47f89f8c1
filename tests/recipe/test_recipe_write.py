"""Recipes to YAML and back; templates; JSON Schema."""

import json
import math
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from regard.errors import RecipeError, UsageError
from regard.recipe import commented_recipe, dump_recipe, json_schema, new_recipe, parse_recipe, recipe_from, tasks
from regard.recipe.layout import Layout, Slot, slot_of
from regard.recipe.schema import Recipe

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12) | st.sampled_from(
    [
        "yes",
        "no",
        "null",
        "~",
        "1e-3",
        "3",
        "true",
        "- a",
        "a: b",
        "# c",
        " x ",
        "*a",
        "&b",
        "!c",
        "%d",
        "\u2028",
        "é",
        "ab\ncd",
        "[",
        "'",
    ]
)


def values(annotation: Any) -> st.SearchStrategy[Any]:
    """Values of a type, the limits aside."""
    if get_origin(annotation) is Literal:
        return st.sampled_from(get_args(annotation))
    if get_origin(annotation) is tuple:
        items = get_args(annotation)
        if items[-1] is Ellipsis:
            return st.lists(values(items[0]), min_size=1, max_size=3)
        return st.tuples(*map(values, items)).map(list)
    if get_origin(annotation) is dict:
        return st.dictionaries(TEXT, values(get_args(annotation)[1]), max_size=3)
    if get_origin(annotation) in (Union, UnionType):
        return st.one_of(*map(values, get_args(annotation)))
    return {
        str: TEXT,
        int: st.integers(1, 64),
        float: st.floats(1e-9, 0.49, allow_nan=False),
        bool: st.booleans(),
    }[annotation]


def section(model: type[BaseModel]) -> st.SearchStrategy[dict[str, Any]]:
    required = {name: slot(slot_of(field)) for name, field in model.model_fields.items() if field.is_required()}
    rest = {name: slot(slot_of(field)) for name, field in model.model_fields.items() if name not in required}
    kind = {"kind": values(model.model_fields["kind"].annotation)} if "kind" in model.model_fields else {}
    optional = {name: strategy for name, strategy in rest.items() if name not in kind}
    return st.fixed_dictionaries({**required, **kind}, optional=optional)


def slot(slot: Slot) -> st.SearchStrategy[Any]:
    choices = [section(model) for model in slot.sections.values()]
    choices += [values(member) for member in slot.members if member not in slot.sections.values()]
    return st.one_of(*choices, *([st.none()] if slot.nullable else []))


RECIPES = section(Recipe)


@settings(max_examples=150, deadline=None)
@given(RECIPES)
def test_a_recipe_is_read_back_as_it_was_written(mapping):
    try:
        recipe = Recipe.model_validate(mapping)
    except ValidationError:
        with pytest.raises(RecipeError):
            recipe_from(mapping)
        return
    assert recipe_from(mapping) == recipe
    assert parse_recipe(dump_recipe(recipe), "r") == recipe
    assert parse_recipe(commented_recipe(recipe, heading="Some\nheading"), "r") == recipe


@settings(deadline=None)
@given(TEXT)
def test_any_text_survives(text):
    recipe = recipe_from({"data": {"train": [text, text]}, "run": text})
    assert parse_recipe(dump_recipe(recipe), "r") == recipe
    assert parse_recipe(commented_recipe(recipe, heading=""), "r") == recipe
    assert yaml.safe_load(dump_recipe(recipe))["run"] == text


@settings(deadline=None)
@given(st.floats(min_value=0, exclude_min=True, allow_nan=False, allow_infinity=False))
def test_any_number_survives(number):
    recipe = recipe_from({"data": {"train": "a"}, "training": {"learning_rate": number}})
    assert parse_recipe(dump_recipe(recipe), "r").training.learning_rate == number
    assert math.isclose(yaml.safe_load(dump_recipe(recipe))["training"]["learning_rate"], number)


def test_the_written_form_is_readable():
    recipe = recipe_from({"data": {"train": "a.tsv"}, "training": {"betas": [0.9, 0.98]}})
    text = dump_recipe(recipe)
    assert text.startswith(
        "format: 1\ntask: translation\nrun: runs/run\nseed: 1\ndata:\n  train: a.tsv\n  valid: null\n"
    )
    assert "  betas: [0.9, 0.98]\n" in text
    assert "  metrics: [BLEU, chrF, TER]\n" in text


def test_comments_tell_meaning_choices_and_defaults():
    recipe = recipe_from({"data": {"train": "a.tsv"}, "model": {"encoder": {"kind": "rnn"}, "width": 64}})
    text = commented_recipe(recipe, heading="First.\n\nSecond.")
    lines = text.splitlines()
    assert lines[:4] == ["# First.", "#", "# Second.", "format: 1                          # Version of this layout."]
    assert "  width: 64                        # Size of embeddings and hidden states. Default: 128." in lines
    kinds = "transformer or rnn or bag or convolution or category or none"
    assert f"    kind: rnn                      # {kinds}. Default: transformer." in lines
    assert "  empty_lines: refuse              # Pairs with an empty side. One of refuse, skip." in lines
    assert max(map(len, lines)) <= 120
    for path, slot in Layout(Recipe).walk():
        if len(path) == 2:
            assert slot.description.split()[0] in text


@pytest.mark.parametrize("task", tasks())
def test_each_task_has_a_template_that_is_a_recipe_for_it(task):
    text = new_recipe(task)
    recipe = parse_recipe(text, "template")
    assert recipe.task == task
    assert f"regard train {task}.yaml" in text
    assert max(map(len, text.splitlines())) <= 120


def test_a_task_without_template():
    with pytest.raises(
        UsageError, match="no recipe for the task 'inflexion'; there is one for translation, inflection"
    ):
        new_recipe("inflexion")
    with pytest.raises(UsageError, match=r"did you mean inflection\?"):
        new_recipe("inflexion")


def test_the_json_schema_is_json_and_knows_the_sections():
    schema = json.loads(json.dumps(json_schema()))
    assert set(schema["properties"]) == set(Recipe.model_fields)
    assert schema["additionalProperties"] is False
    assert schema["$schema"].startswith("https://json-schema.org/")
