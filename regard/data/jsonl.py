"""One JSON record of a line, read without trust: no duplicate keys, no NaN, no depth that ends the interpreter."""

import json
from collections.abc import Sequence

from regard.data.excerpt import excerpt

Record = dict[str, object]

FAMILIAR_KEYS = (("source", "target"), ("src", "tgt"), ("src", "trg"), ("input", "output"), ("question", "answer"))
"""Key pairs that are taken without asking, the first that fits."""


def parse_record(line: str) -> Record:
    """The object on a line; a ValueError with a sentence for people if there is none."""
    try:
        record = json.loads(line, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error.msg} at character {error.pos + 1})") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(record, dict):
        raise ValueError(f"a JSON object was expected, such as {{...}}, and found is {_kind(record)}")
    return record


def look_up(record: Record, key: str) -> str:
    """The text under a key; `translation.en` reaches into an inner object. A number is told as JSON spells it."""
    if key in record:
        value: object = record[key]
    else:
        value = record
        for part in key.split("."):
            if not isinstance(value, dict) or part not in value:
                there = ", ".join(repr(excerpt(name, 20)) for name in list(record)[:8])
                raise ValueError(f"no key {key!r}; there are: {there or 'none'}")
            value = value[part]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return json.dumps(value)
    if not isinstance(value, str):
        raise ValueError(f"the value of {key!r} must be a string or a number, and is {_kind(value)}")
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise ValueError(f"the value of {key!r} holds half of a surrogate pair, which is no character")
    return value


def choose_keys(record: Record) -> tuple[str, str] | None:
    """The two keys that surely hold source and target, or None: guessing among many would hide a mistake."""
    texts = [key for key, value in record.items() if isinstance(value, str)]
    for pair in FAMILIAR_KEYS:
        if set(pair) <= set(texts):
            return pair
    inner = record.get("translation")
    if isinstance(inner, dict):
        languages: Sequence[str] = [key for key, value in inner.items() if isinstance(value, str)]
        if len(languages) >= 2:
            return f"translation.{languages[0]}", f"translation.{languages[1]}"
    return (texts[0], texts[1]) if len(texts) == 2 else None


def _unique(pairs: list[tuple[str, object]]) -> Record:
    record: Record = {}
    for key, value in pairs:
        if key in record:
            raise ValueError(f"the key {excerpt(key, 20)!r} stands twice in one object")
        record[key] = value
    return record


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "a list"
        case _:
            return "an object"
