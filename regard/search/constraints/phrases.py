"""Phrases that must not or must be in an output, and its numbers, as tables.

All of them can be made for a text that is read `backwards`, from its last character to its first.

A phrase is read as whole words: where it begins or ends with a letter, a digit or a low line, no such character may
stand next to it. So `cat` is in "a cat." and not in "concatenate".
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal

import numpy as np

from regard.errors import UsageError
from regard.search.constraints.characters import Characters, Classes, characters_that, is_word
from regard.search.constraints.table import MOST_MARKS, Rows, Table

MOST_ROWS = 100_000


def listed(phrases: Iterable[str]) -> str:
    """Phrases for people: the first few of them."""
    shown = list(phrases)
    more = f" and {len(shown) - 5:,} more" if len(shown) > 5 else ""
    return ", ".join(repr(one) for one in shown[:5]) + more


@lru_cache(maxsize=64)
def forbidding(phrases: tuple[str, ...], *, backwards: bool = False) -> Table:
    """No phrase may be in the text."""
    return _table(checked(phrases), forbid=True, backwards=backwards)


@lru_cache(maxsize=256)
def forcing(phrases: tuple[str, ...], *, backwards: bool = False) -> Table:
    """Every phrase must be in the text."""
    found = checked(phrases)
    if len(found) > MOST_MARKS:
        raise UsageError(
            f"{len(found)} phrases are to be in one output, and there may be {MOST_MARKS}; a glossary forces only "
            "those whose source is in a line"
        )
    return _table(found, forbid=False, backwards=backwards)


def checked(phrases: Sequence[str]) -> tuple[str, ...]:
    """Phrases without spaces around them, each once."""
    found = tuple(dict.fromkeys(phrase.strip(" ") for phrase in phrases))
    for phrase in found:
        if not phrase:
            raise UsageError("an empty phrase can be neither forced nor forbidden; take it out of the list")
        if "\n" in phrase:
            raise UsageError(f"the phrase {phrase!r} has a line break in it, and outputs are lines; split it into two")
    return found


def _table(phrases: tuple[str, ...], *, forbid: bool, backwards: bool) -> Table:
    finder = _Finder(tuple(phrase[::-1] for phrase in phrases) if backwards else phrases)
    rows = Rows((frozenset[int](), False))
    following: list[list[int]] = [[0] * finder.classes.count]
    marks: list[list[int]] = [[0] * finder.classes.count]
    last: list[int] = [0]
    place = 1
    while place < len(rows.states):
        active, inside = rows.states[place]
        to, left = [], []
        for character in finder.samples:
            after, found = finder.read(active, inside, character)
            to.append(0 if forbid and found else rows.number(after))
            left.append(0 if forbid else found)
        following.append(to)
        marks.append(left)
        last.append(finder.at_end(active))
        place += 1
        if len(rows.states) > MOST_ROWS:
            raise UsageError(
                f"{len(phrases):,} phrases are too many to be looked for at once: {MOST_ROWS:,} letters of them, those "
                "of common beginnings counted once, are the most"
            )
    ends = np.array(last, dtype=np.int64)
    accepting = ends == 0 if forbid else np.ones(len(last), dtype=bool)
    accepting[0] = False
    return Table(
        told=f"the output must {'not ' if forbid else ''}have {'any of ' if forbid else ''}{listed(phrases)} in it",
        classes=finder.classes,
        following=np.array(following, dtype=np.int32),
        marks=np.array(marks, dtype=np.int64),
        last_marks=np.zeros_like(ends) if forbid else ends,
        accepting=accepting,
        lengths=() if forbid else tuple(len(phrase.encode()) for phrase in phrases),
    )


class _Finder:
    """Finds all phrases at once: a state is the set of nodes of a trie that are being read, all from a word's edge."""

    def __init__(self, phrases: tuple[str, ...]) -> None:
        self.children: list[dict[str, int]] = [{}]
        self.ends: dict[int, int] = {}  # by node, the phrase's bit; any one bit will do to forbid
        self.open_ended: set[int] = set()
        for number, phrase in enumerate(phrases):
            node = 0
            for character in phrase:
                if character not in self.children[node]:
                    self.children[node][character] = len(self.children)
                    self.children.append({})
                node = self.children[node][character]
            self.ends[node] = 1 << min(number, MOST_MARKS)
            if not is_word(phrase[-1]):
                self.open_ended.add(node)
        used = sorted({character for phrase in phrases for character in phrase})
        sets = [*(Characters.one(character) for character in used), characters_that(is_word)]
        self.classes, parts = Classes.divide(sets)
        self.samples = self._samples(used, parts[-1])

    def _samples(self, used: list[str], words: list[int]) -> list[str]:
        """A character of each class; two in one stand for letters and for others that no phrase has."""
        samples = ["a\0" if number in words else "\0\0" for number in range(self.classes.count)]
        for character in used:
            samples[self.classes.of(character)] = character
        return samples

    def read(self, active: frozenset[int], inside: bool, character: str) -> tuple[tuple[frozenset[int], bool], int]:
        """The state after a character, and the phrases that are known to be there with it."""
        word = is_word(character[0])
        found = 0
        after: set[int] = set()
        for node in active:
            if node in self.ends and not word:
                found |= self.ends[node]
            if character in self.children[node]:
                after.add(self.children[node][character])
        if not (word and inside) and character in self.children[0]:
            after.add(self.children[0][character])
        for node in after & self.open_ended:
            found |= self.ends[node]
        return (frozenset(after), word), found

    def at_end(self, active: frozenset[int]) -> int:
        found = 0
        for node in active:
            found |= self.ends.get(node, 0)
        return found


def contains(text: str, phrase: str) -> bool:
    """Whether a phrase is in a text as whole words."""
    place = text.find(phrase)
    while place >= 0:
        end = place + len(phrase)
        before = place > 0 and is_word(phrase[0]) and is_word(text[place - 1])
        behind = end < len(text) and is_word(phrase[-1]) and is_word(text[end])
        if not before and not behind:
            return True
        place = text.find(phrase, place + 1)
    return False


def numbers_in(text: str) -> tuple[str, ...]:
    """Runs of digits, each once."""
    found = "".join(character if character.isdecimal() else " " for character in text).split()
    return tuple(dict.fromkeys(found))


@lru_cache(maxsize=256)
def number_table(numbers: tuple[str, ...], which: Literal["all", "only", "same"], *, backwards: bool = False) -> Table:
    """All of these numbers, only these, or both; a number is a run of digits, so that 1.5 and 1,5 have the same."""
    if which != "only" and len(numbers) > MOST_MARKS:
        raise UsageError(f"a line has {len(numbers)} numbers, and {MOST_MARKS} at most can be forced into one output")
    told = {"all": "must have all of", "only": "may have no numbers but", "same": "must have exactly"}[which]
    told = f"the output {told} the numbers of the source ({listed(numbers) or 'none'})"
    if backwards:
        numbers = tuple(number[::-1] for number in numbers)
    digits = sorted({digit for number in numbers for digit in number})
    classes, parts = Classes.divide([*map(Characters.one, digits), characters_that(str.isdecimal)])
    samples: list[str | None] = ["" if number in parts[-1] else None for number in range(classes.count)]
    for digit in digits:
        samples[classes.of(digit)] = digit
    bits = {number: 0 if which == "only" else 1 << place for place, number in enumerate(numbers)}
    beginnings = {number[:length] for number in numbers for length in range(1, len(number) + 1)}
    rows = Rows("")
    following, marks, last, accepting = [[0] * classes.count], [[0] * classes.count], [0], [False]
    place = 1
    while place < len(rows.states):
        read: str = rows.states[place]  # the digits of the number that is being read; "x" for one that is not listed
        known = read == "" or read in bits or which == "all"
        to, left = [], []
        for sample in samples:
            if sample is None:
                to.append(rows.number("") if known else 0)
                left.append(bits.get(read, 0) if known else 0)
                continue
            longer = read + sample if sample and read + sample in beginnings else "x"
            to.append(0 if longer == "x" and which != "all" else rows.number(longer))
            left.append(0)
        following.append(to)
        marks.append(left)
        last.append(bits.get(read, 0))
        accepting.append(known)
        place += 1
    return Table(
        told=told,
        classes=classes,
        following=np.array(following, dtype=np.int32),
        marks=np.array(marks, dtype=np.int64),
        last_marks=np.array(last, dtype=np.int64),
        accepting=np.array(accepting),
        lengths=() if which == "only" else tuple(map(len, numbers)),
    )
