r"""Regular expressions over a whole text, compiled by ourselves into a table of bounded size.

What is understood: characters, `.` (any but a line break), classes `[a-z]` and `[^a-z]`, `\d \w \s \D \W \S`, `\t`,
a backslash before any other sign, groups `( )` and `(?: )`, `|`, and the repetitions `* + ? {2} {2,} {2,5}`. The whole
text must match. There are no anchors, references or looks around: nothing that takes more than one pass over the text.

A pattern becomes a non-deterministic automaton (Thompson 1968), and this a deterministic one whose states are sets of
its states (Rabin & Scott 1959).
"""

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NoReturn

import numpy as np

from regard.errors import UsageError
from regard.search.constraints.characters import Characters, Classes, characters_that, is_word
from regard.search.constraints.table import Rows, Table

MOST_NODES = 20_000
MOST_ROWS = 10_000
MOST_WORK = 5_000_000
DEEPEST = 100
LINE = Characters.one("\n").others()
NAMED = {"d": str.isdecimal, "w": is_word, "s": str.isspace}


@lru_cache(maxsize=64)
def matching(pattern: str, *, backwards: bool = False) -> Table:
    """The whole text must match a pattern; `backwards`, it is read from its last character to its first."""
    if "\n" in pattern:
        raise UsageError(f"the pattern {pattern!r} has a line break in it, and outputs are lines; take it out")
    network = _Parser(pattern, backwards=backwards).parse()
    sets = list(dict.fromkeys(one for edges in network.edges for one, _ in edges))
    classes, parts = Classes.divide(sets)
    columns = dict(zip(sets, parts, strict=True))
    moves: list[list[tuple[int, int]]] = [
        [(column, to) for one, to in edges for column in columns[one]] for edges in network.edges
    ]
    rows = Rows(network.closure({network.start}))
    following, accepting = [[0] * classes.count], [False]
    place, work = 1, 0
    while place < len(rows.states):
        nodes: frozenset[int] = rows.states[place]
        reached: dict[int, set[int]] = {}
        for node in nodes:
            for column, to in moves[node]:
                reached.setdefault(column, set()).add(to)
        following.append(
            [rows.number(network.closure(reached[c])) if c in reached else 0 for c in range(classes.count)]
        )
        accepting.append(network.end in nodes)
        place += 1
        work += len(nodes)
        if len(rows.states) > MOST_ROWS or work > MOST_WORK:
            raise UsageError(
                f"the pattern {pattern!r} has too many states (more than {MOST_ROWS:,}, or large ones); make its "
                "repetitions shorter, or fewer"
            )
    empty = np.zeros((len(following), classes.count), dtype=np.int64)
    return Table(
        told=f"the whole output must match {pattern!r}",
        classes=classes,
        following=np.array(following, dtype=np.int32).reshape(empty.shape),
        marks=empty,
        last_marks=np.zeros(len(following), dtype=np.int64),
        accepting=np.array(accepting),
    )


def beginning(text: str, *, backwards: bool = False) -> Table:
    """The text must begin with another, of which every sign is meant as it is."""
    signs = "".join(sign if sign.isalnum() else f"\\{sign}" for sign in text)
    return replace(matching(f"{signs}.*", backwards=backwards), told=f"the output must begin with {text!r}")


@dataclass(slots=True)
class _Network:
    """Nodes with edges that read a character, and edges that read nothing."""

    edges: list[list[tuple[Characters, int]]] = field(default_factory=list)
    silent: list[list[int]] = field(default_factory=list)
    start: int = 0
    end: int = 0

    def node(self) -> int:
        self.edges.append([])
        self.silent.append([])
        return len(self.edges) - 1

    def closure(self, nodes: set[int]) -> frozenset[int]:
        """These nodes, and all that can be reached without reading."""
        found, left = set(nodes), list(nodes)
        while left:
            for to in self.silent[left.pop()]:
                if to not in found:
                    found.add(to)
                    left.append(to)
        return frozenset(found)


@dataclass(frozen=True, slots=True)
class _Some:
    """One character of a set."""

    characters: Characters


@dataclass(frozen=True, slots=True)
class _Chain:
    """One part after the other."""

    parts: tuple["_Part", ...]


@dataclass(frozen=True, slots=True)
class _Choice:
    """One of some parts."""

    parts: tuple["_Part", ...]


@dataclass(frozen=True, slots=True)
class _Repeated:
    """A part so many times; None: any number above."""

    part: "_Part"
    least: int
    most: int | None


_Part = _Some | _Chain | _Choice | _Repeated


class _Parser:
    """Reads a pattern by recursive descent."""

    def __init__(self, pattern: str, *, backwards: bool) -> None:
        self.pattern = pattern
        self.backwards = backwards
        self.place = 0
        self.depth = 0
        self.network = _Network()

    def parse(self) -> _Network:
        part = self._choice()
        if self.place < len(self.pattern):
            self._refuse("has a ) that closes nothing")
        self.network.start = self.network.node()
        self.network.end = self._build(part, self.network.start)
        return self.network

    def _refuse(self, fault: str) -> NoReturn:
        raise UsageError(
            f"the pattern {self.pattern!r} {fault} (character {self.place + 1}); put a backslash before a sign that is "
            "meant as it is"
        )

    def _peek(self) -> str:
        return self.pattern[self.place : self.place + 1]

    def _take(self, wanted: str) -> bool:
        found = self.pattern.startswith(wanted, self.place)
        self.place += len(wanted) if found else 0
        return found

    def _choice(self) -> _Part:
        parts = [self._chain()]
        while self._take("|"):
            parts.append(self._chain())
        return parts[0] if len(parts) == 1 else _Choice(tuple(parts))

    def _chain(self) -> _Part:
        parts = []
        while self._peek() not in ("", "|", ")"):
            parts.append(self._repeated())
        return _Chain(tuple(parts))

    def _repeated(self) -> _Part:
        part = self._single()
        while (sign := self._peek()) and sign in "*+?{":
            self.place += 1
            least, most = self._count() if sign == "{" else {"*": (0, None), "+": (1, None), "?": (0, 1)}[sign]
            part = _Repeated(part, least, most)
        return part

    def _count(self) -> tuple[int, int | None]:
        end = self.pattern.find("}", self.place)
        first, comma, last = self.pattern[self.place : max(end, self.place)].partition(",")
        if not first.isdecimal() or (last and not last.isdecimal()):
            self._refuse("has a { that no number of repetitions follows, such as {2} or {2,5}")
        self.place = end + 1
        least, most = int(first), int(last) if last else None if comma else int(first)
        if max(least, most or 0) > MOST_NODES or (most is not None and most < least):
            self._refuse(f"has repetitions from {least} to {most}, which cannot be")
        return least, most

    def _single(self) -> _Part:
        sign = self._peek()
        if sign in "*+?{":
            self._refuse(f"has a {sign} with nothing before it to repeat")
        if sign in "^$":
            self._refuse(f"has a {sign}, which is not needed: the whole output must match")
        self.place += 1
        match sign:
            case "(":
                if self._peek() == "?" and not self._take("?:"):
                    self._refuse("has a group of a kind that is not understood; there are ( ) and (?: )")
                self.depth += 1
                if self.depth > DEEPEST:
                    self._refuse(f"has more than {DEEPEST} groups inside each other")
                part = self._choice()
                self.depth -= 1
                if not self._take(")"):
                    self._refuse("has a ( that is not closed")
                return part
            case "[":
                return _Some(self._class())
            case "\\":
                return _Some(self._escaped())
            case ".":
                return _Some(LINE)
        return _Some(Characters.one(sign))

    def _escaped(self) -> Characters:
        sign = self._peek()
        if not sign:
            self._refuse("ends in a backslash")
        self.place += 1
        if sign.lower() in NAMED:
            named = characters_that(NAMED[sign.lower()])
            return named.others() if sign.isupper() else named
        if sign == "t":
            return Characters.one("\t")
        if sign.isalnum():
            self.place -= 1
            self._refuse(f"has \\{sign}, which has no meaning here")
        return Characters.one(sign)

    def _class(self) -> Characters:
        negative = self._take("^")
        found = Characters(())
        first = True
        while first or self._peek() != "]":
            first = False
            low = self._member()
            if self._peek() == "-" and self.pattern[self.place + 1 : self.place + 2] not in ("]", ""):
                self.place += 1
                high = self._member()
                ends = low.ranges[0][0], high.ranges[-1][1]
                if any(one.ranges[0][0] != one.ranges[-1][1] for one in (low, high)) or ends[0] > ends[1]:
                    self._refuse("has a range that goes backwards, or from or to more than one character")
                low = Characters((ends,))
            found = found.join(low)
        self.place += 1
        return found.others() if negative else found

    def _member(self) -> Characters:
        sign = self._peek()
        if not sign:
            self._refuse("has a [ that is not closed")
        self.place += 1
        return self._escaped() if sign == "\\" else Characters.one(sign)

    def _build(self, part: _Part, start: int) -> int:
        """Add what a part reads from a node on; returns the node after it."""
        network = self.network
        if len(network.edges) > MOST_NODES:
            raise UsageError(f"the pattern {self.pattern!r} is too large; make its repetitions shorter, or fewer")
        match part:
            case _Some(characters):
                end = network.node()
                network.edges[start].append((characters, end))
                return end
            case _Chain(parts):
                for one in reversed(parts) if self.backwards else parts:
                    start = self._build(one, start)
                return start
            case _Choice(parts):
                end = network.node()
                for one in parts:
                    begin = network.node()
                    network.silent[start].append(begin)
                    network.silent[self._build(one, begin)].append(end)
                return end
            case _Repeated(inner, least, most):
                return self._build_repeated(inner, least, most, start)

    def _build_repeated(self, inner: _Part, least: int, most: int | None, start: int) -> int:
        network = self.network
        for _ in range(least):
            start = self._build(inner, start)
        end = network.node()
        if most is None:
            begin = network.node()
            network.silent[start] += [begin, end]
            network.silent[self._build(inner, begin)] += [begin, end]
            return end
        for _ in range(most - least):
            begin = network.node()
            network.silent[start] += [begin, end]
            start = self._build(inner, begin)
        network.silent[start].append(end)
        return end
