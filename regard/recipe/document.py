"""YAML text to plain values, each with the line and column it stands at.

Only what a recipe needs of YAML is read: mappings with text keys, lists and scalars. Tags, anchors and aliases,
repeated keys, several documents and deep or huge texts are refused, so that reading a stranger's recipe costs little
and runs nothing. Scalars follow YAML 1.2: `1e-3` is a number, and `yes`, `no`, `on`, `off`, `010` and `2024-01-01` are
text or a plain number, never a boolean, an octal number or a date.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from regard.errors import RecipeError

KeyPath = tuple[str | int, ...]
"""The way to a value: keys of mappings, and numbers of list items."""

MAXIMUM_BYTES = 1_000_000
MAXIMUM_NODES = 10_000
MAXIMUM_DEPTH = 16
MAXIMUM_DIGITS = 40

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"true", "True", "TRUE"})
_FALSE = frozenset({"false", "False", "FALSE"})
_WHOLE = re.compile(r"[-+]?[0-9]+(_[0-9]+)*")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(_[0-9]+)*(\.[0-9]*)?)([eE][-+]?[0-9]+)?")


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: where it stands, which setting it is about, and what to do."""

    place: str
    path: KeyPath
    text: str
    order: tuple[int, int] = (0, 0)

    def __str__(self) -> str:
        return ": ".join(part for part in (self.place, dotted(self.path), self.text) if part)


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a key or a value stands; `order` sorts spots as a reader meets them."""

    place: str
    order: tuple[int, int] = (0, 0)


@dataclass(slots=True)
class Document:
    """Values of a recipe before they are checked, and where each of them was written."""

    name: str
    tree: dict[str, object]
    keys: dict[KeyPath, Spot] = field(default_factory=dict)
    values: dict[KeyPath, Spot] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def problem(self, path: KeyPath, text: str, *, at_key: bool = False) -> Problem:
        """A problem with the value (or the key) at a path; what was never written stands where its section does."""
        spots = self.keys if at_key else self.values
        spot = spots.get(path) or self.keys.get(path)
        outer = path
        while spot is None and outer:
            outer = outer[:-1]
            spot = self.keys.get(outer)
        spot = spot or Spot(self.name)
        return Problem(spot.place, path, text, spot.order)


def dotted(path: KeyPath) -> str:
    """A path as people write it: `model.encoder.heads`, `evaluation.metrics[1]`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def plain_value(text: str) -> object:
    """What an unquoted scalar means: null, true or false, a whole number, a number, or else text."""
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if len(text) <= MAXIMUM_DIGITS:
        if _WHOLE.fullmatch(text):
            return int(text)
        if _NUMBER.fullmatch(text):
            return float(text)
    return text


def read_text(path: Path) -> str:
    """The text of a recipe file: UTF-8 of at most a megabyte."""
    try:
        with path.open("rb") as stream:
            content = stream.read(MAXIMUM_BYTES + 1)
    except OSError as error:
        raise RecipeError(f"{path}: cannot be read: {error.strerror or error}; give the path of a recipe") from error
    try:
        return content.removeprefix(b"\xef\xbb\xbf").decode("utf-8") if len(content) <= MAXIMUM_BYTES else _huge(path)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise RecipeError(
            f"{path}:{line}: byte {error.start} (0x{content[error.start]:02x}) is not UTF-8; save the recipe as UTF-8"
        ) from error


def _huge(name: object) -> str:
    raise RecipeError(f"{name}: larger than {MAXIMUM_BYTES:,} bytes; a recipe is a short text, is this a data file?")


def parse_document(text: str, name: str) -> Document:
    """Read YAML text; what can be read around (repeated keys, tags, anchors) is kept as problems of the document."""
    if len(text) > MAXIMUM_BYTES:
        _huge(name)
    document = Document(name, {})
    try:
        root = _Reader(document, yaml.parse(text, Loader=yaml.SafeLoader)).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        problem = ", ".join(part for part in (error.context, error.problem) if part)
        raise RecipeError(f"{place}: not valid YAML: {problem}") from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        character = error.character if isinstance(error.character, int) else ord(error.character[:1] or "\0")
        raise RecipeError(f"{name}:{line}: the character U+{character:04X} cannot stand in YAML; remove it") from error
    if root is None:
        root = {}
    if not isinstance(root, dict):
        raise RecipeError(
            f"{name}: a recipe is a mapping of sections such as `data:` and `model:`, but this is {describe(root)}"
        )
    document.tree = root
    return document


class _Reader:
    """Turns YAML events into values; by hand, because constructors of the library lose places and repeated keys."""

    def __init__(self, document: Document, events: Iterator[yaml.Event]) -> None:
        self._document = document
        self._events = events
        self._nodes = 0

    def document(self) -> object:
        """The value of the only document of a stream; None if there is none."""
        value: object = None
        documents = 0
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise RecipeError(f"{self._spot(event).place}: a second YAML document; a recipe is one document")
            elif isinstance(event, yaml.NodeEvent):
                value = self._value(event, ())
        return value

    def _spot(self, event: yaml.Event) -> Spot:
        assert event.start_mark is not None
        line, column = event.start_mark.line + 1, event.start_mark.column + 1
        return Spot(f"{self._document.name}:{line}:{column}", (line, column))

    def _note(self, event: yaml.Event, path: KeyPath, text: str) -> None:
        spot = self._spot(event)
        self._document.problems.append(Problem(spot.place, path, text, spot.order))

    def _value(self, event: yaml.Event, path: KeyPath) -> object:
        place = self._spot(event).place
        self._nodes += 1
        if self._nodes > MAXIMUM_NODES:
            raise RecipeError(f"{place}: more than {MAXIMUM_NODES:,} values; a recipe is a short text")
        if len(path) > MAXIMUM_DEPTH:
            raise RecipeError(f"{place}: nested deeper than {MAXIMUM_DEPTH}; no setting of a recipe lies that deep")
        self._document.values[path] = self._spot(event)
        if isinstance(event, yaml.AliasEvent):
            self._note(event, path, f"the alias `*{event.anchor}` is not read; write the value out")
            return None
        if isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent):
            if event.anchor:
                self._note(event, path, f"the anchor `&{event.anchor}` is not read; write the value where it is needed")
            if event.tag:
                tag = event.tag.replace("tag:yaml.org,2002:", "!!")
                self._note(event, path, f"the tag `{tag}` is refused; a recipe holds plain values only")
        match event:
            case yaml.MappingStartEvent():
                return self._mapping(path)
            case yaml.SequenceStartEvent():
                return self._sequence(path)
            case _:
                assert isinstance(event, yaml.ScalarEvent)
                return self._scalar(event, path)

    def _mapping(self, path: KeyPath) -> dict[str, object]:
        result: dict[str, object] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise RecipeError(f"{self._spot(event).place}: a key must be one word, not a list, mapping or alias")
            key = event.value
            here = (*path, key)
            if key in result:
                first = self._document.keys[here]
                self._note(event, here, f"given twice, first at {first.place}; keep one of them")
                self._skip(next(self._events), here)
                continue
            self._document.keys[here] = self._spot(event)
            result[key] = self._value(next(self._events), here)
        return result

    def _sequence(self, path: KeyPath) -> list[object]:
        result: list[object] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            result.append(self._value(event, (*path, len(result))))
        return result

    def _skip(self, event: yaml.Event, path: KeyPath) -> None:
        """Read the value of a repeated key without keeping its places."""
        values, keys = dict(self._document.values), dict(self._document.keys)
        self._value(event, path)
        self._document.values, self._document.keys = values, keys

    def _scalar(self, event: yaml.ScalarEvent, path: KeyPath) -> object:
        for character in event.value:
            if character == "\0" or "\ud800" <= character <= "\udfff":
                self._note(event, path, f"the character U+{ord(character):04X} cannot be part of a text; remove it")
                return None
        return event.value if event.style else plain_value(event.value)


def describe(value: object) -> str:
    """A value as an error message shows it."""
    match value:
        case None:
            return "nothing (null)"
        case bool():
            return "true" if value else "false"
        case str():
            return repr(value if len(value) <= 60 else value[:57] + "...")
        case int():
            return str(value) if abs(value) < 10**MAXIMUM_DIGITS else "a huge number"
        case float():
            return repr(value)
        case Mapping():
            return "a section" if value else "an empty section"
        case list() | tuple():
            return f"a list of {len(value)}"
        case _:
            return f"a value of type {type(value).__name__}"
