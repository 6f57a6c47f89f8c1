"""What is wrong with a recipe, in plain sentences: path, what was found, what is allowed, and a suggestion.

pydantic finds the errors; nothing of its wording is used, because the schema knows better what may stand at a path.
"""

import math
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from regard.errors import RecipeError
from regard.recipe.document import Document, KeyPath, Problem, describe, dotted
from regard.recipe.layout import Layout, allowed, literals

HABITS: Mapping[str, str] = {
    "lr": "learning_rate",
    "batch_size": "batch_tokens",
    "max_steps": "steps",
    "max_epochs": "epochs",
    "beam_size": "beam",
    "hidden_size": "width",
    "d_model": "width",
    "num_layers": "layers",
    "num_heads": "heads",
    "vocab_size": "size",
    "tokenizer": "unit",
    "src": "source",
    "tgt": "target",
    "dev": "valid",
    "validation": "valid",
    "early_stopping": "patience",
    "clip_norm": "clip",
    "output": "run",
}
"""What people type by habit of other systems, and what it is called here."""


def refuse(problems: Sequence[Problem], name: str) -> RecipeError:
    """One error that lists every problem, in the order of the text."""
    ordered = sorted(dict.fromkeys(problems), key=lambda problem: problem.order)
    if len(ordered) == 1:
        return RecipeError(str(ordered[0]))
    return RecipeError("\n  ".join([f"{name}: {len(ordered)} problems", *map(str, ordered)]))


def validation_problems(error: ValidationError, document: Document, layout: Layout) -> list[Problem]:
    """One problem for each setting that pydantic complains of."""
    details = error.errors(include_url=False, include_input=False)
    cleaned = [(*layout.clean(detail["loc"], document.tree), detail) for detail in details]
    # A union complains once for each type that was tried; what got furthest is what was meant.
    deep = {union for path, union, _ in cleaned if union is not None and len(path) > len(union)}
    problems: dict[KeyPath, Problem] = {}
    for path, union, detail in cleaned:
        if union is not None and union in deep and path == union:
            continue
        problem = _problem(path, detail, document, layout)
        problems.setdefault(problem.path, problem)
    return list(problems.values())


def _problem(path: KeyPath, detail: ErrorDetails, document: Document, layout: Layout) -> Problem:
    slot = layout.slot(path, document.tree)
    match detail["type"]:
        case "extra_forbidden":
            return document.problem(path, f"unknown; {suggestion(path, document.tree, layout)}", at_key=True)
        case "value_error" | "assertion_error":
            return document.problem(path, str(detail["ctx"]["error"]), at_key=True)
        case "missing" if slot is not None:
            why = f". {slot.description}" if slot.description else ""
            return document.problem(path, f"missing; give {allowed(slot)}{why}")
        case "union_tag_invalid" | "union_tag_not_found" if slot is not None and slot.discriminator is not None:
            inner = (*path, slot.discriminator)
            kinds = tuple(slot.sections)
            found = _at(document.tree, inner)
            text = f"found {describe(found)}; allowed: {' or '.join(kinds)}{_near(found, kinds)}"
            return document.problem(inner, text)
        case "tuple_type" | "list_type" if slot is not None and isinstance(_at(document.tree, path), str | int | float):
            found = _at(document.tree, path)
            return document.problem(path, f"found {describe(found)}; allowed: {allowed(slot)}; write [{found}]")
        case _ if slot is not None:
            found = _at(document.tree, path)
            text = f"found {describe(found)}; allowed: {allowed(slot)}{_near(found, literals(slot.annotation))}"
            return document.problem(path, text)
        case _:
            return document.problem(path, detail["msg"])


def _near(found: object, choices: Sequence[object]) -> str:
    """A choice that looks like what was found, whatever its case."""
    names = {str(choice).casefold(): str(choice) for choice in choices}
    matches = get_close_matches(found.casefold(), names, n=1, cutoff=0.7) if isinstance(found, str) else []
    return f"; did you mean {names[matches[0]]}?" if matches else ""


def suggestion(path: KeyPath, tree: object, layout: Layout) -> str:
    """What an unknown key was probably meant to be."""
    *outer, last = path
    key, section = str(last), tuple(outer)
    keys = layout.keys(section, tree)
    if HABITS.get(key) in keys:
        return f"here it is called {HABITS[key]}"
    for cutoff in (0.75, 0.6):
        matches = get_close_matches(key, keys, n=1, cutoff=cutoff)
        if matches:
            return f"did you mean {matches[0]}?"
        owners = layout.owners(key) or layout.owners(HABITS.get(key, ""))
        if owners:
            name = key if layout.owners(key) else HABITS[key]
            return f"{name} belongs to {' or '.join(dotted(owner) or 'the top of the recipe' for owner in owners)}"
    everywhere = {str(known[-1]) for known, _ in layout.walk()}
    matches = get_close_matches(key, sorted(everywhere), n=1, cutoff=0.75)
    if matches:
        owners = layout.owners(matches[0])
        return f"did you mean {' or '.join(dotted((*owner, matches[0])) for owner in owners)}?"
    return f"allowed: {', '.join(keys)}" if keys else "nothing can be set here"


def prepare(document: Document, layout: Layout) -> list[Problem]:
    """Fill in what YAML leaves open, and find what pydantic would accept by force.

    An empty section (`training:`) is a section without settings. A section without its kind has the kind of the
    default. `steps: true` is no number.
    """
    problems: list[Problem] = []
    for key, value in document.tree.items():
        document.tree[key] = _prepared(value, (key,), document, layout, problems)
    return problems


def _prepared(value: object, path: KeyPath, document: Document, layout: Layout, problems: list[Problem]) -> object:
    slot = layout.slot(path, document.tree)
    if slot is None:
        return value
    if value is None and slot.sections and not slot.nullable:
        value = {}
    if isinstance(value, bool) and bool not in slot.members:
        problems.append(document.problem(path, f"found {describe(value)}; allowed: {allowed(slot)}"))
    if isinstance(value, list | tuple):
        return [_prepared(item, (*path, number), document, layout, problems) for number, item in enumerate(value)]
    if isinstance(value, dict):
        if slot.discriminator and slot.discriminator not in value and slot.default_kind is not None:
            value[slot.discriminator] = slot.default_kind
        for key, inner in value.items():
            value[key] = _prepared(inner, (*path, key), document, layout, problems)
    return value


def infinite_problems(section: BaseModel, document: Document, path: KeyPath = ()) -> list[Problem]:
    """Numbers that are not finite; comparisons such as `> 0` let infinity through."""
    problems: list[Problem] = []
    for name in type(section).model_fields:
        value = getattr(section, name)
        here = (*path, name)
        if isinstance(value, BaseModel):
            problems += infinite_problems(value, document, here)
        items = value if isinstance(value, tuple) else (value,)
        if any(isinstance(item, float) and not math.isfinite(item) for item in items):
            problems.append(
                document.problem(here, f"found {describe(_at(document.tree, here))}; allowed: finite numbers")
            )
    return problems


def _at(tree: object, path: KeyPath) -> object:
    for part in path:
        if isinstance(tree, Mapping):
            tree = tree.get(part)
        elif isinstance(tree, list | tuple) and isinstance(part, int) and part < len(tree):
            tree = tree[part]
        else:
            return None
    return tree
