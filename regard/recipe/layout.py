"""What the schema allows at each path, in words; everything here is derived from the pydantic models.

A *slot* is the room for one value: its type, its limits, its description. Walking a path needs the values, too, because
the section that stands at `model.encoder` depends on its `kind`.
"""

import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin

import annotated_types
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from regard.recipe.document import KeyPath


@dataclass(frozen=True, slots=True)
class Slot:
    """The room for one value."""

    annotation: Any
    limits: tuple[object, ...] = ()
    discriminator: str | None = None
    description: str = ""
    default: object = PydanticUndefined

    @property
    def required(self) -> bool:
        return self.default is PydanticUndefined

    @property
    def members(self) -> tuple[Any, ...]:
        """The types a value may have, null aside."""
        return tuple(member for member in _flatten(self.annotation) if member is not type(None))

    @property
    def nullable(self) -> bool:
        return type(None) in _flatten(self.annotation)

    @property
    def sections(self) -> dict[str, type[BaseModel]]:
        """The sections that may stand here by kind; a section without a choice of kinds has the kind ''."""
        models = [member for member in self.members if _is_model(member)]
        if self.discriminator is None:
            return {"": models[0]} if len(models) == 1 else {model.__name__: model for model in models}
        kinds: dict[str, type[BaseModel]] = {}
        for model in models:
            for kind in literals(model.model_fields[self.discriminator].annotation):
                kinds[str(kind)] = model
        return kinds

    def section(self, value: object) -> type[BaseModel] | None:
        """The section that a value is meant for, if that can be told."""
        sections = self.sections
        if self.discriminator is None:
            return sections.get("")
        kind = value.get(self.discriminator, self.default_kind) if isinstance(value, Mapping) else self.default_kind
        return sections.get(kind) if isinstance(kind, str) else None

    @property
    def default_kind(self) -> str | None:
        """The kind of the section that stands here when nothing is said."""
        if self.discriminator is None or not isinstance(self.default, BaseModel):
            return None
        return str(getattr(self.default, self.discriminator))


def _flatten(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(inner for member in get_args(annotation) for inner in _flatten(member))
    if hasattr(annotation, "__metadata__"):
        return _flatten(annotation.__origin__)
    return (annotation,)


def _inner_limits(annotation: Any) -> tuple[object, ...]:
    """The limits that one type of a choice has for itself: `Literal["auto"] | Annotated[int, Field(ge=1)]`."""
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(limit for member in get_args(annotation) for limit in _inner_limits(member))
    extras = getattr(annotation, "__metadata__", ())
    return tuple(limit for extra in extras if isinstance(extra, FieldInfo) for limit in extra.metadata)


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def literals(annotation: Any) -> tuple[object, ...]:
    """All values that the literal types of an annotation name."""
    values = [value for member in _flatten(annotation) if get_origin(member) is Literal for value in get_args(member)]
    return tuple(dict.fromkeys(values))


def slot_of(field: FieldInfo) -> Slot:
    """The slot that a field of a model declares."""
    discriminator = field.discriminator
    for member in getattr(field.annotation, "__args__", ()):
        for extra in getattr(member, "__metadata__", ()):
            discriminator = discriminator or getattr(extra, "discriminator", None)
    default = (
        PydanticUndefined if field.is_required() else field.get_default(call_default_factory=True, validated_data={})
    )
    return Slot(
        annotation=field.annotation,
        limits=tuple(field.metadata),
        discriminator=discriminator if isinstance(discriminator, str) else None,
        description=field.description or "",
        default=default,
    )


class Layout:
    """The whole schema, by paths."""

    def __init__(self, root: type[BaseModel]) -> None:
        self._root = Slot(annotation=root)

    def slot(self, path: KeyPath, tree: object) -> Slot | None:
        """The slot at a path of a recipe with these values; None where nothing is allowed."""
        slot: Slot | None = self._root
        value = tree
        for part in path:
            if slot is None:
                return None
            slot = _step(slot, part, value)
            value = _get(value, part)
        return slot

    def keys(self, path: KeyPath, tree: object) -> tuple[str, ...]:
        """The settings of the section at a path; empty where no section is."""
        slot = self.slot(path, tree)
        section = slot.section(_at(tree, path)) if slot else None
        return tuple(section.model_fields) if section else ()

    def foreign_keys(self, path: KeyPath, key: str, value: object) -> frozenset[str]:
        """Settings of the other kinds that the kind `value` does not have; none if `key` chooses no kind."""
        slot = self.slot(path, {})
        if slot is None or slot.discriminator != key or value not in slot.sections:
            return frozenset()
        others = {name for section in slot.sections.values() for name in section.model_fields}
        return frozenset(others - set(slot.sections[str(value)].model_fields))

    def foreign_choices(self, path: KeyPath, key: str, value: object, settings: Mapping[str, object]) -> frozenset[str]:
        """Settings that the kind `value` has, too, but whose choices there do not include what another kind's do."""
        slot = self.slot(path, {})
        if slot is None or slot.discriminator != key or value not in slot.sections:
            return frozenset()
        own = slot.sections[str(value)].model_fields
        others = [section.model_fields for section in slot.sections.values()]

        def choices(fields: Mapping[str, FieldInfo], name: str) -> tuple[object, ...]:
            return literals(fields[name].annotation) if name in fields else ()

        return frozenset(
            name
            for name, chosen in settings.items()
            if choices(own, name)
            and chosen not in choices(own, name)
            and any(chosen in choices(fields, name) for fields in others)
        )

    def owners(self, key: str) -> tuple[KeyPath, ...]:
        """The sections, of whatever kind, that have a setting of this name."""
        return tuple(dict.fromkeys(path[:-1] for path, _ in self.walk() if path[-1] == key))

    def walk(self) -> Iterator[tuple[KeyPath, Slot]]:
        """Every setting of the schema with its path, the kinds of a section one after the other."""
        yield from _walk(self._root, ())

    def clean(self, location: Sequence[str | int], tree: object) -> tuple[KeyPath, KeyPath | None]:
        """A path of pydantic without names of kinds and types; and the path of the plain union it goes through."""
        path: list[str | int] = []
        union: KeyPath | None = None
        slot: Slot | None = self._root
        value = tree
        parts = list(location)
        while parts:
            part = parts.pop(0)
            if slot is not None and _is_label(slot, part):
                if slot.discriminator is None:
                    union = tuple(path)
                slot = _branch(slot, str(part))
                continue
            slot = _step(slot, part, value) if slot else None
            value = _get(value, part)
            path.append(part)
        return tuple(path), union


def _is_label(slot: Slot, part: str | int) -> bool:
    return len(slot.members) > 1 and isinstance(part, str)


def _branch(slot: Slot, label: str) -> Slot:
    """The one type of a union that a label of pydantic names."""
    if slot.discriminator is not None:
        return Slot(annotation=slot.sections.get(label, slot.annotation), limits=slot.limits)
    for member in slot.members:
        if getattr(member, "__name__", "").casefold() == label.partition("[")[0].casefold():
            return Slot(annotation=member, limits=slot.limits)
    return Slot(annotation=slot.members[0], limits=slot.limits)


def _step(slot: Slot, part: str | int, value: object) -> Slot | None:
    if isinstance(part, int):
        for member in slot.members:
            if get_origin(member) in (tuple, list):
                items = get_args(member)
                item = items[0] if len(items) == 1 or items[-1] is Ellipsis else items[min(part, len(items) - 1)]
                return Slot(annotation=item)
        return None
    section = slot.section(value)
    field = section.model_fields.get(part) if section else None
    if field:
        return slot_of(field)
    mappings = [get_args(member)[1] for member in slot.members if get_origin(member) is dict]
    return Slot(annotation=mappings[0]) if mappings else None


def _get(value: object, part: str | int) -> object:
    if isinstance(value, Mapping):
        return value.get(part)
    if isinstance(value, list | tuple) and isinstance(part, int) and part < len(value):
        return value[part]
    return None


def _at(tree: object, path: KeyPath) -> object:
    for part in path:
        tree = _get(tree, part)
    return tree


def _walk(slot: Slot, path: KeyPath) -> Iterator[tuple[KeyPath, Slot]]:
    for section in slot.sections.values():
        for name, field in section.model_fields.items():
            inner = slot_of(field)
            yield (*path, name), inner
            yield from _walk(inner, (*path, name))


def allowed(slot: Slot) -> str:
    """What may stand in a slot, as a phrase: `a whole number of at least 1, or null`."""
    limits = (*slot.limits, *_inner_limits(slot.annotation))
    phrases = [_phrase(member, limits) for member in slot.members if get_origin(member) is not Literal]
    choices = literals(slot.annotation)
    if choices:
        shown = [str(choice) for choice in choices]
        phrases.insert(0, shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} or {shown[-1]}")
    sections = slot.sections
    if len(sections) > 1:
        phrases = [phrase for phrase in phrases if not phrase.startswith("a section")]
        phrases.append(f"a section whose {slot.discriminator} is {' or '.join(sections)}")
    return " or ".join(phrases) + (", or null" if slot.nullable else "")


_NAMES: dict[object, str] = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
_PLURALS: dict[object, str] = {int: "whole numbers", float: "numbers", str: "texts"}


def _phrase(member: Any, limits: tuple[object, ...]) -> str:
    if _is_model(member):
        return f"a section with {', '.join(member.model_fields)}"
    if get_origin(member) in (tuple, list):
        return _list_phrase(get_args(member), limits)
    if get_origin(member) is dict:
        return f"a mapping of names to {allowed(Slot(annotation=get_args(member)[1]))}"
    name = _NAMES.get(member, str(getattr(member, "__name__", member)))
    return name + (_bounds(limits) if member in (int, float) else "")


def _list_phrase(items: tuple[Any, ...], limits: tuple[object, ...]) -> str:
    chosen = literals(items[0])
    plural = "/".join(map(str, chosen)) if chosen else _PLURALS.get(items[0], "items")
    if len(items) > 1 and items[-1] is not Ellipsis:
        return f"a list of {len(items)} {plural}"
    least = max((limit.min_length for limit in limits if isinstance(limit, annotated_types.MinLen)), default=0)
    return f"a list of {f'at least {least} of ' if least else ''}{plural}"


def _bounds(limits: tuple[object, ...]) -> str:
    phrases: list[str] = []
    for limit in limits:
        match limit:
            case annotated_types.Ge():
                phrases.append(f"of at least {limit.ge}")
            case annotated_types.Gt():
                phrases.append(f"above {limit.gt}")
            case annotated_types.Le():
                phrases.append(f"of at most {limit.le}")
            case annotated_types.Lt():
                phrases.append(f"below {limit.lt}")
            case _:
                pass
    return f" {' and '.join(phrases)}".replace(" and of ", " and ") if phrases else ""
