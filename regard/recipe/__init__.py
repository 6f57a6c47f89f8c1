"""The schema of a run, how recipes are read and written, and how one is chosen by looking at data.

`regard.recipe.build` turns a recipe into objects; it is not imported here, because it needs torch.
"""

from regard.recipe.look import Looked, look
from regard.recipe.read import load_recipe, override_recipe, parse_recipe, recipe_from
from regard.recipe.schema import Recipe
from regard.recipe.templates import new_recipe, tasks
from regard.recipe.write import commented_recipe, dump_recipe, json_schema

__all__ = [
    "Looked",
    "Recipe",
    "commented_recipe",
    "dump_recipe",
    "json_schema",
    "load_recipe",
    "look",
    "new_recipe",
    "override_recipe",
    "parse_recipe",
    "recipe_from",
    "tasks",
]
