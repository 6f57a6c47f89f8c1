"""Porter's stemmer for English (Porter 1980), with the two later rules of its author (bli, logi).

A word is [C](VC)^m[V], with C and V runs of consonants and vowels; m is what most rules ask for. Of each step the rule
with the longest fitting ending is taken, and only if its condition holds of what stands before the ending.
"""

from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import Final

Condition = Callable[[str], bool]

STEP_2: Final = {
    "ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize", "bli": "ble", "alli": "al",
    "entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize", "ation": "ate", "ator": "ate", "alism": "al",
    "iveness": "ive", "fulness": "ful", "ousness": "ous", "aliti": "al", "iviti": "ive", "biliti": "ble", "logi": "log",
}  # fmt: skip
STEP_3: Final = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
STEP_4: Final = (
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism", "ate", "iti",
    "ous", "ive", "ize",
)  # fmt: skip


@lru_cache(maxsize=100_000)
def stem(word: str) -> str:
    """The stem of a word, in small letters; words of one or two letters are their own."""
    word = word.lower()
    if len(word) <= 2:
        return word
    word = _plural(word)
    word = _past(word)
    if word.endswith("y") and _has_vowel(word[:-1]):
        word = word[:-1] + "i"
    word = _replaced(word, STEP_2, lambda base: _measure(base) > 0)
    word = _replaced(word, STEP_3, lambda base: _measure(base) > 0)
    word = _bare(word)
    return _tidied(word)


def _kinds(word: str) -> list[bool]:
    """Which letters are vowels: y is one after a consonant."""
    kinds: list[bool] = []
    for place, letter in enumerate(word):
        kinds.append(letter in "aeiou" or (letter == "y" and place > 0 and not kinds[-1]))
    return kinds


def _measure(word: str) -> int:
    kinds = _kinds(word)
    return sum(before and not after for before, after in pairwise(kinds))


def _has_vowel(word: str) -> bool:
    return any(_kinds(word))


def _doubled(word: str) -> bool:
    return len(word) > 1 and word[-1] == word[-2] and not _kinds(word)[-1]


def _short(word: str) -> bool:
    """Consonant, vowel, consonant at the end, the last none of w, x, y: hop, but not snow."""
    return len(word) > 2 and _kinds(word)[-3:] == [False, True, False] and word[-1] not in "wxy"


def _plural(word: str) -> str:
    for ending, instead in (("sses", "ss"), ("ies", "i"), ("ss", "ss"), ("s", "")):
        if word.endswith(ending):
            return word[: len(word) - len(ending)] + instead
    return word


def _past(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for ending in ("ed", "ing"):
        base = word[: len(word) - len(ending)]
        if word.endswith(ending):
            return _mended(base) if _has_vowel(base) else word
    return word


def _mended(base: str) -> str:
    """What is left after -ed and -ing: conflat(e), hop(p), fil(e)."""
    if base.endswith(("at", "bl", "iz")):
        return base + "e"
    if _doubled(base) and base[-1] not in "lsz":
        return base[:-1]
    return base + "e" if _measure(base) == 1 and _short(base) else base


def _replaced(word: str, endings: dict[str, str], condition: Condition) -> str:
    fitting = [ending for ending in endings if word.endswith(ending)]
    if not fitting:
        return word
    ending = max(fitting, key=len)
    base = word[: len(word) - len(ending)]
    return base + endings[ending] if condition(base) else word


def _bare(word: str) -> str:
    fitting = [ending for ending in STEP_4 if word.endswith(ending)]
    if not fitting:
        return word
    ending = max(fitting, key=len)
    base = word[: len(word) - len(ending)]
    held = _measure(base) > 1 and (ending != "ion" or base.endswith(("s", "t")))
    return base if held else word


def _tidied(word: str) -> str:
    if word.endswith("e"):
        measure = _measure(word[:-1])
        if measure > 1 or (measure == 1 and not _short(word[:-1])):
            word = word[:-1]
    if word.endswith("ll") and _measure(word[:-1]) > 1:
        word = word[:-1]
    return word
