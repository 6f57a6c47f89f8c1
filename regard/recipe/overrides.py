"""Settings given on the command line: `training.steps=300`, `data.train=[a.en,a.de]`, `model.encoder.kind=rnn`."""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.errors import RecipeError
from regard.recipe.document import Document, KeyPath, Problem, Spot, describe, dotted, parse_document, plain_value
from regard.recipe.layout import Layout

_QUOTED = ("[", "{", '"', "'")
_LAST = 2**31
"""Overrides are reported after everything that has a line."""


@dataclass(frozen=True, slots=True)
class Override:
    """One setting that replaces what a recipe says; `text` is what the user typed."""

    path: KeyPath
    value: object
    text: str

    @property
    def place(self) -> str:
        return f"override {self.text!r}"


def parse_override(text: str) -> Override:
    """Read `dotted.path=value`.

    A value is a plain scalar, a quoted text, or a list or mapping in brackets. Nothing else of YAML has a meaning here:
    a path may begin with `*` or hold `: ` or ` #`.
    """
    name, equals, value = text.partition("=")
    keys = name.strip().split(".")
    place = f"override {text!r}"
    if not equals:
        raise RecipeError(f"{place}: no `=`; write a setting and its value, such as training.steps=300")
    if not all(keys):
        raise RecipeError(f"{place}: {name.strip()!r} names no setting; write its path, such as training.steps=300")
    if not value.strip():
        raise RecipeError(
            f"{place}: no value after the `=`; write one, or {name.strip()}=null for none, or {name.strip()}='' for an "
            "empty text"
        )
    return Override(tuple(keys), _value(value.strip(), place), text)


def _value(text: str, place: str) -> object:
    if not text.startswith(_QUOTED):
        if any(character == "\0" or "\ud800" <= character <= "\udfff" for character in text):
            raise RecipeError(f"{place}: the value holds a character that cannot be part of a text")
        return plain_value(text)
    try:
        inner = parse_document(f"value: {text}", place)
    except RecipeError as error:
        raise RecipeError(f"{place}: {describe(text)} is not a whole list, mapping or quoted text") from error
    if inner.problems or set(inner.tree) != {"value"}:
        reasons = "; ".join(problem.text for problem in inner.problems) or "it goes on after its end"
        raise RecipeError(f"{place}: the value {describe(text)} cannot be used: {reasons}")
    return inner.tree["value"]


def apply_overrides(document: Document, overrides: Sequence[str], layout: Layout) -> tuple[Override, ...]:
    """Write overrides into a document, later ones over earlier ones; malformed ones become problems of the document.

    Another `kind` drops those settings of the recipe that only the old kind has, and choices that the new one does not
    have; settings of other overrides stay.
    """
    parsed: list[Override] = []
    for number, text in enumerate(overrides):
        try:
            override = parse_override(text)
        except RecipeError as error:
            document.problems.append(Problem("", (), str(error), (_LAST, number)))
            continue
        blocked = _write(document.tree, override)
        spot = Spot(override.place, (_LAST, number))
        if blocked:
            what = f"{dotted(blocked)} has no settings of its own"
            document.problems.append(Problem(spot.place, override.path, what, spot.order))
            continue
        _place(document, override.path, spot)
        _keep_of_kind(document, override, layout)
        parsed.append(override)
    return tuple(parsed)


def _write(tree: dict[str, object], override: Override) -> KeyPath:
    """Set the value; the path of the scalar that stands in the way, if one does."""
    section = tree
    for depth, key in enumerate(override.path[:-1], 1):
        inner = section.get(str(key))
        if inner is None:
            inner = section[str(key)] = {}
        if not isinstance(inner, dict):
            return override.path[:depth]
        section = inner
    section[str(override.path[-1])] = override.value
    return ()


def _place(document: Document, path: KeyPath, spot: Spot) -> None:
    """Let a path, what lies below it, and the sections that it made stand at an override."""
    for spots in (document.keys, document.values):
        for known in [known for known in spots if known[: len(path)] == path]:
            del spots[known]
        spots[path] = spot
    for depth in range(1, len(path)):
        document.keys.setdefault(path[:depth], spot)


def _keep_of_kind(document: Document, override: Override, layout: Layout) -> None:
    *outer, key = override.path
    foreign = layout.foreign_keys(tuple(outer), str(key), override.value)
    section: object = document.tree
    for part in outer:
        assert isinstance(section, dict)
        section = section[part]
    assert isinstance(section, dict)
    foreign |= layout.foreign_choices(tuple(outer), str(key), override.value, section)
    for other in foreign & section.keys():
        spot = document.keys.get((*outer, other))
        if spot is None or spot.order[0] < _LAST:
            del section[other]
