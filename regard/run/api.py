"""What Python users call: `regard.train` and `regard.load`, as powerful as the command line."""

from collections.abc import Sequence
from pathlib import Path

from regard.errors import UsageError
from regard.models.ensemble import Combine
from regard.recipe import load_recipe, look, override_recipe
from regard.recipe.schema import Recipe
from regard.run.joint import load_joint
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


def load(
    *runs: str | Path,
    combine: Combine = "linear",
    weights: Sequence[float] | None = None,
    language_model: str | Path | None = None,
    fusion: float | None = None,
    average: int | None = None,
) -> Model:
    """Open a run folder, or several that write one output together.

    `combine` and `weights` say how (see `regard.models.ensemble`); a `language_model` with the vocabulary of their
    outputs adds `fusion` times its log-probability to what is searched for; `average` takes the mean of so many
    checkpoints of each run, the last ones.
    """
    return load_joint(
        runs, combine=combine, weights=weights, language_model=language_model, fusion=fusion, average=average
    )
