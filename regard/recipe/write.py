"""From a recipe back to YAML: in full for a run folder, with comments for people to edit."""

import textwrap
from typing import Any

import yaml
from pydantic import BaseModel

from regard.recipe.document import plain_value
from regard.recipe.layout import Slot, literals, slot_of
from regard.recipe.schema import Recipe

WIDTH = 120
_COMMENT_COLUMN = 34
_UNFOLDED = 2**31 - 1


class _Dumper(yaml.SafeDumper):
    """Writes what `document` reads back: `1e-3` as a text gets quotes, short lists stay on one line."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    if not text.isprintable():
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"')
    style = None if isinstance(plain_value(text), str) else "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _represent_list(dumper: yaml.SafeDumper, items: list[object] | tuple[object, ...]) -> yaml.SequenceNode:
    flat = not any(isinstance(item, dict | list | tuple) for item in items)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=flat)


_Dumper.add_representer(str, _represent_text)
_Dumper.add_representer(list, _represent_list)
_Dumper.add_representer(tuple, _represent_list)


def _dump(value: Any, *, flow: bool = False) -> str:
    text = yaml.dump(
        value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=flow, width=_UNFOLDED
    )
    return str(text)


def dump_recipe(recipe: Recipe) -> str:
    """The whole recipe as YAML, every setting written out in the order of the schema."""
    return _dump(recipe.model_dump())


def commented_recipe(recipe: Recipe, *, heading: str) -> str:
    """The whole recipe as YAML for people: each setting with what it means, what it may be, and its default.

    The default is told where the recipe differs from it.
    """
    lines = [f"# {line}".rstrip() for line in heading.splitlines()]
    for name, field in Recipe.model_fields.items():
        value = getattr(recipe, name)
        if isinstance(value, BaseModel):
            lines.append("")
        lines += _setting(name, value, slot_of(field), "")
    return "\n".join(lines) + "\n"


def _setting(name: str, value: object, slot: Slot, indent: str) -> list[str]:
    comment = _comment(value, slot)
    if not isinstance(value, BaseModel):
        return _with_comment(f"{indent}{name}: {_inline(value)}", comment)
    lines = _with_comment(f"{indent}{name}:", comment)
    for inner, field in type(value).model_fields.items():
        lines += _setting(inner, getattr(value, inner), _kind_slot(slot, inner, slot_of(field)), indent + "  ")
    return lines


def _kind_slot(outer: Slot, name: str, slot: Slot) -> Slot:
    """The slot of a setting; where it chooses the kind, with all kinds as its choices."""
    if outer.discriminator != name:
        return slot
    default = outer.default_kind if outer.default_kind is not None else slot.default
    choices = " or ".join(outer.sections)
    return Slot(annotation=str, description=f"{slot.description} {choices}.".strip(), default=default)


def _comment(value: object, slot: Slot) -> str:
    parts = [slot.description]
    choices = [str(choice) for choice in literals(slot.annotation)]
    if len(choices) > 1 and not all(choice in slot.description for choice in choices):
        parts.append(f"One of {', '.join(choices)}.")
    if not slot.required and not isinstance(slot.default, BaseModel) and value != slot.default:
        parts.append(f"Default: {_inline(slot.default)}.")
    return " ".join(part for part in parts if part)


def _inline(value: object) -> str:
    """A value on one line. A scalar goes through a list, because YAML would end it with a document mark."""
    if isinstance(value, list | tuple | dict):
        return _dump(value, flow=True).strip()
    return _dump([value], flow=True).strip().removeprefix("[").removesuffix("]")


def _with_comment(line: str, comment: str) -> list[str]:
    if not comment:
        return [line]
    head = line.ljust(_COMMENT_COLUMN) + " # " if len(line) <= _COMMENT_COLUMN else line + "  # "
    if len(head) + len(comment) <= WIDTH:
        return [head + comment]
    indent = " " * (len(line) - len(line.lstrip()))
    return [*(f"{indent}# {part}" for part in textwrap.wrap(comment, WIDTH - len(indent) - 2)), line]


def json_schema() -> dict[str, Any]:
    """The schema of recipes as JSON Schema, for editors that complete and check YAML."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Recipe.model_json_schema()}
