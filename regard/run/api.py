"""What Python users call: `regard.train` and `regard.load`, as powerful as the command line."""

from collections.abc import Sequence
from pathlib import Path

from regard.errors import UsageError
from regard.recipe import load_recipe, look, override_recipe
from regard.recipe.schema import Recipe
from regard.run.model import Model
from regard.run.training import train as train_recipe
from regard.training import Observer

RECIPE_ENDINGS = (".yaml", ".yml")

Files = str | Path | Sequence[str | Path]


def recipe_for(what: Files, overrides: Sequence[str] = ()) -> tuple[Recipe, tuple[str, ...]]:
    """The recipe in a file, or one chosen by looking at data, with the reasons for each choice."""
    paths = [Path(what)] if isinstance(what, str | Path) else [Path(path) for path in what]
    recipes = [path for path in paths if path.suffix in RECIPE_ENDINGS]
    if recipes and len(paths) > 1:
        raise UsageError(f"{recipes[0]} is a recipe, which names its data itself: leave out the other files")
    if recipes:
        return load_recipe(recipes[0], overrides), ()
    looked = look(*paths, overrides=overrides)
    return override_recipe(looked.recipe, overrides), looked.reasons


def train(
    what: Files | Recipe,
    *overrides: str,
    observers: Sequence[Observer] = (),
    overwrite: bool = False,
) -> Model:
    """Train from a file of pairs, two parallel files, a recipe file or a `Recipe`.

    Overrides read as on the command line: `regard.train("pairs.tsv", "training.steps=300", "model.layers=2")`.
    """
    if isinstance(what, Recipe):
        recipe = override_recipe(what, overrides) if overrides else what
    else:
        recipe, _ = recipe_for(what, overrides)
    return train_recipe(recipe, observers=observers, overwrite=overwrite).model


def load(path: str | Path) -> Model:
    """Open a run folder."""
    return Model.load(path)
