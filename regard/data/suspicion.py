"""What makes a text or a pair look wrong, each as a small test that knows nothing of files."""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import Final

CONTROL: Final = re.compile("[\x01-\x08\x0b-\x1f\x7f-\x84\x86-\x9f]")
SEPARATOR: Final = re.compile("[\x85\u2028\u2029]")
DIRECTION: Final = re.compile("[\u202a-\u202e\u2066-\u2069]")
INVISIBLE: Final = re.compile("[\u00ad\u200b\u2060\ufeff]")
ENTITY: Final = re.compile(r"&(?:[a-zA-Z]{2,8}|#[0-9]{1,7}|#x[0-9a-fA-F]{1,6});")
MARKUP: Final = re.compile(r"</?[a-zA-Z][a-zA-Z0-9]*(?:\s[^<>]*)?/?>")

# UTF-8 read as Windows-1252 or Latin-1: "ä" becomes "Ã¤", "’" becomes "â€™".
TAIL: Final = re.escape(bytes(range(0x80, 0xC0)).decode("cp1252", "ignore") + bytes(range(0x80, 0xC0)).decode("latin1"))
MOJIBAKE: Final = re.compile(f"[ÂÃ][{TAIL}]|â€[{TAIL}]|â\x80[\x80-\xbf]|[ÐÑ][{TAIL}][ÐÑ][{TAIL}]")

PLAIN: Final = re.compile(r"[^\x00-\x08\x0b-\x1f\x7f&<]*")
LETTERS_SEEN: Final = 40


def odd_in(text: str) -> list[str]:
    """Kinds of oddity in one text; most texts have none."""
    kinds = ["spaces"] if text and (text[0].isspace() or text[-1].isspace() or "  " in text) else []
    plain = text.isascii()
    if plain and PLAIN.fullmatch(text):
        return kinds
    if "\0" in text:
        kinds.append("nul")
    if CONTROL.search(text):
        kinds.append("control")
    if "&" in text and ENTITY.search(text):
        kinds.append("entity")
    if "<" in text and MARKUP.search(text):
        kinds.append("markup")
    if not plain:
        kinds += [kind for kind, found in _odd_beyond_ascii(text) if found]
    return kinds


def _odd_beyond_ascii(text: str) -> tuple[tuple[str, bool], ...]:
    return (
        ("separator", SEPARATOR.search(text) is not None),
        ("direction", DIRECTION.search(text) is not None),
        ("invisible", INVISIBLE.search(text) is not None),
        ("replacement", "\ufffd" in text),
        ("mojibake", MOJIBAKE.search(text) is not None),
        ("not_nfc", not unicodedata.is_normalized("NFC", text)),
    )


class Scripts:
    """The script that most letters of a text are in, as a small number; 0 for a text without letters."""

    def __init__(self) -> None:
        self._names: list[str] = [""]
        self._codes: dict[str, int] = {}

    def code(self, text: str) -> int:
        if text.isascii():
            return self._of_letter("a") if any(map(str.isalpha, text)) else 0
        letters = [character for character in text if character.isalpha()][:LETTERS_SEEN]
        counts = Counter(map(self._of_letter, letters))
        del counts[0]
        return counts.most_common(1)[0][0] if counts else 0

    def name(self, code: int) -> str:
        return self._names[code]

    def _of_letter(self, letter: str) -> int:
        code = self._codes.get(letter)
        if code is None:
            code = self._codes[letter] = self._number(_script(letter))
        return code

    def _number(self, name: str) -> int:
        if name not in self._names and len(self._names) < 256:
            self._names.append(name)
        return self._names.index(name) if name in self._names else 0


def _script(letter: str) -> str:
    """The first word of the character's name, which is its script; Japanese mixes three, here they are one."""
    first = unicodedata.name(letter, "").split(" ")[0].split("-")[0]
    if first in ("CJK", "HIRAGANA", "KATAKANA", "HALFWIDTH"):
        return "Han and Kana"
    return {"FULLWIDTH": "Latin", "MODIFIER": "", "MATHEMATICAL": ""}.get(first, first.capitalize())


class SideWords:
    """Words that stand on one side and hardly ever on the other; tells pairs whose sides were exchanged.

    Learned from a sample of pairs; without 10 telling words on both sides nothing is ever called exchanged.
    """

    def __init__(self, sample: Sequence[tuple[str, str]]) -> None:
        counts = [Counter(word for pair in sample for word in _words(pair[side])) for side in (0, 1)]
        self._source = _telling(counts[0], counts[1])
        self._target = _telling(counts[1], counts[0])
        self._active = min(len(self._source), len(self._target)) >= 10

    def exchanged(self, source: str, target: str) -> bool:
        if not self._active:
            return False
        left = _words(source)
        foreign = len(left & self._target)
        if foreign < 2 or foreign <= 3 * len(left & self._source):
            return False
        right = _words(target)
        foreign = len(right & self._source)
        return foreign >= 2 and foreign > 3 * len(right & self._target)


def _words(text: str) -> set[str]:
    return set(text.lower().split())


def _telling(own: Counter[str], other: Counter[str]) -> frozenset[str]:
    return frozenset(word for word, count in own.items() if count >= 5 and count > 20 * other[word])
