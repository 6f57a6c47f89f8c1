"""Text as bytes, and the bytes of tokens as text.

Every tokenizer goes through `to_bytes`, so all refuse the same thing, lone surrogates: Python strings can hold them (a
JSON file may say `"\\ud800"`), but they are no characters and no UTF-8 exists for them.
"""

from collections.abc import Sequence
from typing import Final

from regard.errors import DataError, UsageError
from regard.special import FIRST_FREE, NAMES

UNKNOWN_SIGN: Final = "⁇"
"""How UNKNOWN is shown in a decoded text."""


def to_bytes(text: str) -> bytes:
    """The UTF-8 bytes of a text."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        place = error.start
        raise DataError(
            f"character {place + 1} of the text is the lone surrogate U+{ord(text[place]):04X}, which is no Unicode "
            "character; mend the file or program that the text comes from"
        ) from error


def reserved_surfaces(unknown: str) -> tuple[bytes, bytes, bytes, bytes]:
    """Surfaces of the reserved ids: nothing, except for UNKNOWN."""
    return (b"", unknown.encode("utf-8"), b"", b"")


def join_surfaces(surfaces: Sequence[bytes], ids: Sequence[int], margin: tuple[bytes, bytes]) -> str:
    """The text of ids by their surfaces; what is no UTF-8 (half a character) becomes U+FFFD."""
    check_ids(ids, len(surfaces))
    joined = b"".join([surfaces[id_] for id_ in ids])
    return joined.removeprefix(margin[0]).removesuffix(margin[1]).decode("utf-8", errors="replace")


def check_ids(ids: Sequence[int], size: int) -> None:
    """Refuse ids that the vocabulary does not have."""
    if len(ids) and not (min(ids) >= 0 and max(ids) < size):
        wrong = next(id_ for id_ in ids if not 0 <= id_ < size)
        raise UsageError(
            f"id {wrong} is not in this vocabulary of {size} ids (0 to {size - 1}); was another model meant?"
        )


def show(text: str) -> str:
    """Text of a token for people's eyes: spaces as `▁`, characters that cannot be seen by their number."""
    return "".join(character_shown(character) for character in text)


def character_shown(character: str) -> str:
    """One character for people's eyes."""
    if character == " ":
        return "▁"
    return character if character.isprintable() else f"<U+{ord(character):04X}>"


def reserved_name(id_: int) -> str | None:
    """How a reserved id is shown, or None for an id that stands for text."""
    return NAMES[id_] if 0 <= id_ < FIRST_FREE else None
