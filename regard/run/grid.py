"""The settings of a sweep: `model.layers=1,2` stands for two values, and every combination of values is one recipe."""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from regard.errors import UsageError
from regard.recipe.overrides import parse_override

ALONE = {
    "run": "the folder is the same for all",
    "seed": "seeds are numbered from seed=NUMBER on, as many as --seeds says",
    "training.select": "values of different criteria cannot be compared",
    "data.valid": "values on different validation data cannot be compared",
}
"""Settings that can have one value only, with the reason."""

_ENDS = {"[": "]", "{": "}"}
_LONGEST = 80
_PLAIN = re.compile(r"[\w.=+-]+")


@dataclass(frozen=True, slots=True)
class Combination:
    """One value for each setting of the grid, as overrides; none where only seeds differ."""

    settings: tuple[str, ...]

    @property
    def name(self) -> str:
        """What it is called in tables."""
        return ", ".join(self.settings) or "as the recipe says"

    @property
    def folder(self) -> str:
        """The name of its folder: readable, without signs that folders cannot have, and no other's."""
        whole = ",".join(self.settings)
        if all(_PLAIN.fullmatch(setting) for setting in self.settings) and len(whole) <= _LONGEST:
            return whole
        readable = re.sub(r"[^\w.=+,-]+", "_", whole)[:_LONGEST]
        return f"{readable},{sha256(whole.encode()).hexdigest()[:8]}"


@dataclass(frozen=True, slots=True)
class Grid:
    """Settings that are the same in all runs, and combinations of those that are not."""

    fixed: tuple[str, ...]
    combinations: tuple[Combination, ...]


def parse_grid(words: Sequence[str]) -> Grid:
    """Read `key=value` and `key=value,value`; a list in brackets is one value."""
    fixed: list[str] = []
    varied: list[list[str]] = []
    seen: set[str] = set()
    for word in words:
        name, equals, value = word.partition("=")
        values = split_values(value)
        key = ".".join(map(str, parse_override(f"{name}{equals}{values[0]}").path))
        if key in seen:
            raise UsageError(f"{word}: {key} is given twice; write its values together, as in {key}=1,2")
        seen.add(key)
        settings = [f"{key}={value}" for value in values]
        for setting in settings:
            parse_override(setting)
        if len(set(settings)) < len(settings):
            raise UsageError(f"{word}: a value is given twice")
        if len(settings) == 1:
            fixed += settings
        elif key in ALONE:
            raise UsageError(f"{word}: {key} can have one value only: {ALONE[key]}")
        else:
            varied.append(settings)
    return Grid(tuple(fixed), tuple(Combination(each) for each in itertools.product(*varied)))


def split_values(text: str) -> list[str]:
    """The values between commas; commas inside brackets and quotes belong to a value."""
    values, rest = [], text.strip()
    while True:
        end = _end(rest)
        values.append(rest[:end].strip())
        if end == len(rest):
            break
        rest = rest[end + 1 :].lstrip()
    if not all(values) and len(values) > 1:
        raise UsageError(f"{text!r}: there is a comma without a value before or after it; leave it out, or quote it")
    return values


def _end(text: str) -> int:
    """Where the first value ends: at a comma that is not inside of brackets or quotes, or with the text."""
    open_: list[str] = []
    for place, sign in enumerate(text):
        if open_ and open_[-1] in "\"'":
            if sign == open_[-1]:
                open_.pop()
        elif sign in "\"'" and (open_ or place == 0):
            open_.append(sign)
        elif sign in _ENDS and (open_ or place == 0):
            open_.append(_ENDS[sign])
        elif open_ and sign == open_[-1]:
            open_.pop()
        elif sign == "," and not open_:
            return place
    return len(text)
