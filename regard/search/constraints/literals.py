"""Texts made of given pieces: one of many lines, brackets around the words of a source, and tags beside them.

A grammar says which pieces can come next; `Literals` makes it an automaton over characters. The pieces that can come
are sorted, so that a state is a range of them that begin alike, and even a hundred thousand lines need no tree.
All of them can be made for a text that is read `backwards`, from its last character to its first; pieces are turned
around, then, and come in the opposite order.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol, cast

from regard.errors import UsageError
from regard.search.constraints.phrases import listed

UNKNOWN_SIZE = 1 << 40


class Grammar(Protocol):
    """Which pieces can come next. Of two pieces, a longer one is read where both could be meant."""

    @property
    def start(self) -> Hashable: ...

    @property
    def told(self) -> str: ...

    def choices(self, state: Hashable) -> tuple[str, ...]:
        """Sorted pieces, none empty; no choices where the text is over."""
        ...

    def after(self, state: Hashable, piece: str) -> Hashable: ...

    def final(self, state: Hashable) -> bool: ...

    def least(self, state: Hashable) -> int:
        """A lower bound of the bytes that must still come."""
        ...


State = tuple[Hashable, int, int, int]
"""Where the grammar stands; the range of pieces that begin as what was read since, and how much that is."""


@dataclass(frozen=True, eq=False)
class Literals:
    """The texts of a grammar."""

    grammar: Grammar
    goal: int = 0
    _known: dict[Hashable, tuple[str, ...]] = field(default_factory=dict, repr=False)

    @property
    def told(self) -> str:
        return self.grammar.told

    @property
    def start(self) -> State:
        return self._enter(self.grammar.start)

    @property
    def size(self) -> int:
        return UNKNOWN_SIZE

    def texts_left(self, state: Hashable) -> Iterator[str] | None:
        """What can still come, text by text, where the grammar is a list of lines."""
        if not isinstance(self.grammar, Lines):
            return None
        place, low, high, depth = cast(State, state)
        return (piece[depth:] for piece in self._choices(place)[low:high]) if place else iter(("",))

    def _choices(self, place: Hashable) -> tuple[str, ...]:
        found = self._known.get(place)
        if found is None:
            found = self._known[place] = self.grammar.choices(place)
        return found

    def _enter(self, place: Hashable) -> State:
        return (place, 0, len(self._choices(place)), 0)

    def _complete(self, state: State) -> State | None:
        """The state after the piece that was just read to its end; None inside a piece."""
        place, low, high, depth = state
        if depth == 0 or low == high:
            return None
        piece = self._choices(place)[low]
        return self._enter(self.grammar.after(place, piece)) if len(piece) == depth else None

    def next(self, state: Hashable, character: str) -> State | None:
        place, low, high, depth = cast(State, state)
        pieces = self._choices(place)
        first = bisect_left(pieces, character, low, high, key=lambda piece: piece[depth : depth + 1])
        last = bisect_right(pieces, character, first, high, key=lambda piece: piece[depth : depth + 1])
        if first < last:
            longer = (place, first, last, depth + 1)
            done = self._complete(longer) if last - first == 1 else None
            return done or longer
        done = self._complete(cast(State, state))
        return None if done is None else self.next(done, character)

    def accepts(self, state: Hashable) -> bool:
        place, _, _, depth = cast(State, state)
        if depth == 0:
            return self.grammar.final(place)
        done = self._complete(cast(State, state))
        return done is not None and self.grammar.final(done[0])

    def least(self, state: Hashable) -> int:
        place, low, high, depth = cast(State, state)
        if depth == 0:
            return self.grammar.least(place)
        piece = self._choices(place)[low]
        if high - low > 1:
            read = len(piece[:depth].encode())
            return max(0 if self._complete(cast(State, state)) else 1, self.grammar.least(place) - read)
        return len(piece) - depth + self.grammar.least(self.grammar.after(place, piece))

    def progress(self, state: Hashable) -> int:
        del state
        return 0

    def takes(self, state: Hashable, low: int, high: int) -> bool:
        place, first, last, depth = cast(State, state)
        pieces = self._choices(place)
        begin = bisect_left(pieces, chr(low), first, last, key=lambda piece: piece[depth : depth + 1])
        end = bisect_right(pieces, chr(high), first, last, key=lambda piece: piece[depth : depth + 1])
        if begin < end:
            return True
        done = self._complete(cast(State, state))
        return done is not None and self.takes(done, low, high)

    def characters(self, state: Hashable, most: int) -> set[str] | None:
        """What can come next, where at most so many pieces can; None where there are more."""
        place, low, high, depth = cast(State, state)
        if high - low > most:
            return None
        found = {piece[depth] for piece in self._choices(place)[low:high] if len(piece) > depth}
        done = self._complete(cast(State, state))
        if done is None:
            return found
        more = self.characters(done, most)
        return None if more is None else found | more

    def characters_between(self, state: Hashable, low: int, high: int) -> list[str]:
        place, first, last, depth = cast(State, state)
        pieces = self._choices(place)
        done = self._complete(cast(State, state))
        found = [] if done is None else self.characters_between(done, low, high)
        first = bisect_left(pieces, chr(low), first, last, key=lambda piece: piece[depth : depth + 1])
        while first < last and pieces[first][depth] <= chr(high):
            sign = pieces[first][depth]
            found.append(sign)
            first = bisect_right(pieces, sign, first, last, key=lambda piece: piece[depth : depth + 1])
        return found


@dataclass(frozen=True, eq=False)
class Lines:
    """One of some lines, and nothing else."""

    lines: tuple[str, ...]
    backwards: bool = False
    shortest: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "shortest", min(len(line.encode()) for line in self.lines))

    @property
    def told(self) -> str:
        shown = [line[::-1] if self.backwards else line for line in self.lines[:3]]
        return f"the output must be one of {len(self.lines):,} given lines ({listed(shown)} ...)"

    @property
    def start(self) -> bool:
        return True

    def choices(self, state: Hashable) -> tuple[str, ...]:
        return self.lines if state else ()

    def after(self, state: Hashable, piece: str) -> bool:
        del state, piece
        return False

    def final(self, state: Hashable) -> bool:
        return not state

    def least(self, state: Hashable) -> int:
        return self.shortest if state else 0


@lru_cache(maxsize=16)
def one_of(lines: tuple[str, ...], *, backwards: bool = False) -> Literals:
    """The whole text must be one of some lines."""
    kept = tuple(sorted({line[::-1] if backwards else line for line in lines if line}))
    if not kept:
        raise UsageError("the list of the only outputs there may be is empty; write one on each line of it")
    return Literals(Lines(kept, backwards))


Bracketing = tuple[int, tuple[str, ...], str]
"""How many words were read; what is open; the kind of piece before, "" at the start."""


@dataclass(frozen=True, eq=False)
class Brackets:
    """`(S (NP the cat) (VP sleeps))`: one tree over all words in order; no bracket is empty."""

    labels: tuple[str, ...]
    words: tuple[str, ...]
    closing: bool  # whether a bracket closes with its label, `)NP`
    deepest: int

    @property
    def told(self) -> str:
        return f"the output must be a tree of brackets, labelled {listed(self.labels)}, over the words of the source"

    @property
    def start(self) -> Bracketing:
        return (0, (), "")

    def choices(self, state: Hashable) -> tuple[str, ...]:
        read, stack, before = cast(Bracketing, state)
        space = " " if before else ""
        found = []
        if before != "end":
            if read < len(self.words) and len(stack) < self.deepest:
                found += [f"{space}({label}" for label in self.labels]
            if read < len(self.words) and stack:
                found.append(f" {self.words[read]}")
            if before in ("word", "close") and (len(stack) > 1 or read == len(self.words)):
                found.append(f"){stack[-1]}")
        return tuple(sorted(set(found)))

    def after(self, state: Hashable, piece: str) -> Bracketing:
        read, stack, _ = cast(Bracketing, state)
        body = piece.removeprefix(" ")
        if body.startswith("(") and body[1:] in self.labels:
            return (read, (*stack, body[1:] if self.closing else ""), "open")
        if piece.startswith(")"):
            return (read, stack[:-1], "close" if len(stack) > 1 else "end")
        return (read + 1, stack, "word")

    def final(self, state: Hashable) -> bool:
        return cast(Bracketing, state)[2] == "end"

    def least(self, state: Hashable) -> int:
        read, stack, before = cast(Bracketing, state)
        if before == "end":
            return 0
        return sum(len(word) + 1 for word in self.words[read:]) + max(len(stack), 1)


@dataclass(frozen=True, eq=False)
class BracketsBackwards(Brackets):
    """The same from the last bracket to the first: each is met where it closes, and is over where it opens."""

    def choices(self, state: Hashable) -> tuple[str, ...]:
        read, stack, before = cast(Bracketing, state)
        found = [*self._closes(state), *self._opens(state)]
        if before != "end" and read < len(self.words) and stack:
            found.append(f"{self.words[-1 - read][::-1]} ")
        return tuple(sorted(set(found)))

    def _closes(self, state: Hashable) -> list[str]:
        read, stack, before = cast(Bracketing, state)
        if before == "end" or read == len(self.words) or len(stack) == self.deepest:
            return []
        return [f"{label[::-1]})" for label in (self.labels if self.closing else ("",))]

    def _opens(self, state: Hashable) -> list[str]:
        read, stack, before = cast(Bracketing, state)
        if before not in ("word", "open") or (len(stack) == 1 and read < len(self.words)):
            return []
        space = " " if len(stack) > 1 else ""
        return [f"{label[::-1]}({space}" for label in ((stack[-1],) if self.closing else self.labels)]

    def after(self, state: Hashable, piece: str) -> Bracketing:
        read, stack, _ = cast(Bracketing, state)
        if piece in self._opens(state):
            return (read, stack[:-1], "open" if len(stack) > 1 else "end")
        if piece in self._closes(state):
            return (read, (*stack, piece[:-1][::-1]), "close")
        return (read + 1, stack, "word")

    def least(self, state: Hashable) -> int:
        read, stack, before = cast(Bracketing, state)
        if before == "end":
            return 0
        return sum(len(word) + 1 for word in self.words[: len(self.words) - read]) + max(len(stack), 1)


def bracketing(
    labels: tuple[str, ...],
    words: tuple[str, ...],
    *,
    closing: bool = False,
    deepest: int = 100,
    backwards: bool = False,
) -> Literals:
    """The text must be a tree of labelled brackets over some words."""
    _refuse_parts("label of brackets", labels, " ()\n")
    if not words:
        raise UsageError("a tree of brackets needs words, and the source has none")
    kind = BracketsBackwards if backwards else Brackets
    return Literals(kind(labels=labels, words=words, closing=closing, deepest=deepest))


Tagging = tuple[int, str]
"""How many tags there are, and the label of the span that the last one is in."""


@dataclass(frozen=True, eq=False)
class Tags:
    """`O B-PER I-PER O`: so many tags, and I-X only after B-X or I-X (Ramshaw & Marcus 1995)."""

    labels: tuple[str, ...]
    count: int

    @property
    def told(self) -> str:
        return f"the output must be {self.count} tags O, B- and I- with the labels {listed(self.labels)}"

    @property
    def start(self) -> Tagging:
        return (0, "")

    def choices(self, state: Hashable) -> tuple[str, ...]:
        read, label = cast(Tagging, state)
        if read == self.count:
            return ()
        tags = ["O", *(f"B-{one}" for one in self.labels), *([f"I-{label}"] if label else [])]
        return tuple(sorted(f" {tag}" if read else tag for tag in tags))

    def after(self, state: Hashable, piece: str) -> Tagging:
        read, _ = cast(Tagging, state)
        return (read + 1, piece.partition("-")[2])

    def final(self, state: Hashable) -> bool:
        return cast(Tagging, state)[0] == self.count

    def least(self, state: Hashable) -> int:
        read, _ = cast(Tagging, state)
        return max(0, 2 * (self.count - read) - (read == 0))


@dataclass(frozen=True, eq=False)
class TagsBackwards(Tags):
    """The same from the last tag to the first: I-X needs a B-X or I-X that is still to come."""

    def choices(self, state: Hashable) -> tuple[str, ...]:
        read, label = cast(Tagging, state)
        if read == self.count:
            return ()
        first = read == self.count - 1
        kinds = "B" if first else "BI"
        tags = [f"{kind}-{one}" for one in ((label,) if label else self.labels) for kind in kinds]
        tags += [] if label else ["O"]
        return tuple(sorted(tag[::-1] if first else f"{tag[::-1]} " for tag in tags))

    def after(self, state: Hashable, piece: str) -> Tagging:
        read, _ = cast(Tagging, state)
        kind, _, label = piece.removesuffix(" ")[::-1].partition("-")
        return (read + 1, label if kind == "I" else "")


def tagging(labels: tuple[str, ...], count: int, *, backwards: bool = False) -> Literals:
    """The text must be a well-formed sequence of so many tags."""
    _refuse_parts("label of tags", labels, " \n")
    return Literals((TagsBackwards if backwards else Tags)(labels=labels, count=count))


def _refuse_parts(what: str, labels: tuple[str, ...], signs: str) -> None:
    for label in labels:
        if not label or set(label) & set(signs):
            raise UsageError(f"{label!r} is no {what}: it must have a sign in it, and none of {signs!r}")
    if not labels:
        raise UsageError(f"no {what} is given; name at least one")
