"""From a file, a text or a mapping, with overrides, to a checked recipe; all that is wrong is told at once."""

import copy
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from regard.recipe.document import Document, KeyPath, Problem, parse_document, read_text
from regard.recipe.layout import Layout
from regard.recipe.overrides import Override, apply_overrides
from regard.recipe.problems import infinite_problems, prepare, refuse, validation_problems
from regard.recipe.schema import Recipe

PATHS: tuple[KeyPath, ...] = (
    ("data", "train"),
    ("data", "valid"),
    ("data", "test"),
    ("data", "further"),
    ("text", "codes"),
    ("text", "start_from"),
    ("model", "start_from"),
)
"""Settings that name files. In a recipe file they are relative to that file; `run` is not among them."""

STANDARD_INPUT = "-"
_LAYOUT = Layout(Recipe)


def load_recipe(path: Path, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe file.

    Files that the recipe names are relative to the folder of the recipe; files that overrides name are relative to the
    working directory. Both become absolute, so that the recipe can be saved elsewhere. `run` stays as it is.
    """
    document = parse_document(read_text(path), str(path))
    _absolute(document.tree, path.parent)
    return _check(document, overrides, absolute=True)


def parse_recipe(text: str, name: str, overrides: Sequence[str] = ()) -> Recipe:
    """Read the YAML text of a recipe; `name` is what errors call it. Paths stay as they are."""
    return _check(parse_document(text, name), overrides, absolute=False)


def recipe_from(mapping: Mapping[str, object], overrides: Sequence[str] = (), name: str = "recipe") -> Recipe:
    """Check the values of a mapping, such as one that Python code has put together. Paths stay as they are."""
    tree = copy.deepcopy(dict(mapping))
    return _check(Document(name, tree), overrides, absolute=False)


def override_recipe(recipe: Recipe, overrides: Sequence[str]) -> Recipe:
    """The same recipe with other settings. Files that overrides name are relative to the working directory."""
    if not overrides:
        return recipe
    tree = recipe.model_dump()
    for name, side in (("encoder", recipe.model.encoder), ("decoder", recipe.model.decoder)):
        tree["model"][name] = {"kind": side.kind, **side.model_dump(exclude_defaults=True)}  # another kind has others
    return _check(Document("recipe", tree), overrides, absolute=True)


def _check(document: Document, overrides: Sequence[str], *, absolute: bool) -> Recipe:
    applied = apply_overrides(document, overrides, _LAYOUT)
    if absolute:
        for override in applied:
            _absolute_override(document.tree, override)
    problems = document.problems + prepare(document, _LAYOUT)
    known = [problem.path for problem in problems if problem.path]
    recipe = None
    try:
        recipe = Recipe.model_validate(document.tree)
        problems += infinite_problems(recipe, document)
    except ValidationError as error:
        for problem in validation_problems(error, document, _LAYOUT):
            if not any(_within(problem, path) for path in known):
                problems.append(problem)
    if problems or recipe is None:
        raise refuse(problems, document.name)
    return recipe


def _within(problem: Problem, path: KeyPath) -> bool:
    return problem.path[: len(path)] == path


def _absolute(tree: dict[str, object], folder: Path) -> None:
    for path in PATHS:
        _join_at(tree, path, folder)


def _absolute_override(tree: dict[str, object], override: Override) -> None:
    """Join what an override has set: a path, one of several, or a whole section with paths in it."""
    for known in PATHS:
        if override.path[: len(known)] == known:
            _join_at(tree, override.path, Path())
        elif known[: len(override.path)] == override.path:
            _join_at(tree, known, Path())


def _join_at(tree: object, path: KeyPath, folder: Path) -> None:
    for part in path[:-1]:
        tree = tree.get(part) if isinstance(tree, dict) else None
    if isinstance(tree, dict) and path[-1] in tree:
        tree[path[-1]] = _joined(tree[path[-1]], folder)


def _joined(value: object, folder: Path) -> object:
    match value:
        case str() if value and value != STANDARD_INPUT:
            # normpath, not resolve: what a link is called is what the user wants to read in messages.
            return os.path.normpath(Path.cwd() / folder / Path(value).expanduser())
        case list() | tuple():
            return [_joined(item, folder) for item in value]
        case dict():
            return {name: _joined(item, folder) for name, item in value.items()}
        case _:
            return value
