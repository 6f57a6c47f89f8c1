"""Metrics that recipes name: which, and where they make sense."""

import pytest

from regard.errors import RecipeError
from regard.metrics.meteor import PARAMETERS
from regard.metrics.named import NAMES, OF_LISTS, OF_NUMBERS
from regard.recipe import parse_recipe
from regard.recipe.build import build_metrics
from regard.recipe.schema import MeteorSection
from regard.recipe.shapes import LIST_METRICS, NUMBER_METRICS

HEAD = "data: {train: a.tsv}\n"


def test_recipes_and_metrics_speak_of_the_same() -> None:
    assert set(MeteorSection.model_fields["version"].annotation.__args__) == set(PARAMETERS)
    assert (NUMBER_METRICS, LIST_METRICS) == (OF_NUMBERS, OF_LISTS)


def test_all_metrics_of_texts_can_be_built() -> None:
    names = [name for name in NAMES if name not in OF_NUMBERS]
    quoted = ", ".join(f'"{name}"' for name in names)
    recipe = parse_recipe(
        f"{HEAD}evaluation: {{metrics: [{quoted}], meteor: {{version: '1.3'}}}}\n", name="recipe.yaml"
    )
    metrics = build_metrics(recipe.evaluation)
    assert [metric.name for metric in metrics] == names
    assert "|param:1.3|" in metrics[names.index("METEOR")].signature


@pytest.mark.parametrize("name", ["MRR", "P@5", "slot_error", "AER"])
def test_training_is_not_judged_by_what_needs_more_than_an_output(name: str) -> None:
    with pytest.raises(RecipeError, match=f"`training.select: {name}` is not of one output and its target"):
        parse_recipe(f'{HEAD}training: {{select: "{name}"}}\n', name="recipe.yaml")
