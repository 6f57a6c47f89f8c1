"""Which determiners go where, with their weights."""

from typing import Final

Determiners = tuple[tuple[str, bool, float], ...]
"""(determiner, plural, weight) choices."""

_OWN: Final[Determiners] = (
    ("this", False, 1.0),
    ("this", True, 0.5),
    ("my", False, 1.0),
    ("my", True, 0.4),
    ("his", False, 0.9),
    ("his", True, 0.4),
    ("her", False, 0.9),
    ("her", True, 0.4),
)
_DEFINITE: Final[Determiners] = (("the", False, 9.0), ("the", True, 3.0), *_OWN)
_COUNTED: Final[Determiners] = (
    ("every", False, 0.7),
    ("two", True, 0.7),
    ("three", True, 0.5),
    ("some", True, 0.6),
    ("many", True, 0.5),
)
POLICIES: Final[dict[str, Determiners]] = {
    "definite": _DEFINITE,
    "subject": (*_DEFINITE, ("a", False, 4.0), *_COUNTED),
    "object": (*_DEFINITE, ("a", False, 5.0), ("bare", True, 1.8), *_COUNTED),
    "negated": (*_DEFINITE, ("a", False, 5.0), ("bare", True, 2.0)),
    "generic": (*_DEFINITE, ("generic", True, 6.0)),
    "recipient": (*_DEFINITE, ("a", False, 3.0), ("two", True, 0.5), ("three", True, 0.4)),
    "place": (("the", False, 9.0), ("a", False, 1.0), ("this", False, 0.7), ("his", False, 0.5), ("her", False, 0.5)),
    "the": (("the", False, 1.0),),
    "core": (("the", False, 5.0), ("the", True, 1.5), ("this", False, 0.5)),
    "one": (("the", False, 5.0), ("a", False, 1.0), ("this", False, 0.7)),
    "number": (("the", False, 4.0), ("the", True, 1.0)),
}
"""Which determiners a place in the sentence allows. In every negated clause the choice leaves one reading."""
