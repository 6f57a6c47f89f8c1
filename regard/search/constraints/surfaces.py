"""The texts of all tokens of a vocabulary, laid out so that an automaton reads them all at once.

Tokens that begin alike share what they have in common (a trie), so that no character is read twice. What `decode` takes
off the two ends of a text (`Tokenizer.margin`) is no part of it: in front, tokens have other texts than later; and a
space that would go if the text ended here is held back until something follows. Bytes that are no whole character
wait until they are one.

Of a model that writes from right to left, everything is turned around: its text is read from its last character to its
first, and so are the tokens. A part of a character would come before the character's beginning there, and is not
permitted.

No token with a line break is ever permitted: outputs are lines. UNKNOWN is not, either: nobody knows what it says.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from weakref import WeakKeyDictionary

import numpy as np

from regard.special import END, PAD, START, UNKNOWN
from regard.text import BackwardTokenizer, Tokenizer

NEVER = 1 << 40


@dataclass(frozen=True, slots=True)
class Part:
    """A token with bytes that are no whole characters: what it reads, and what then waits for more."""

    token: int
    text: str
    rest: bytes
    held: bool


class Forest:
    """The tokens in one place of a text. Nodes are numbered level by level, the root is 0."""

    def __init__(self, bodies: Sequence[tuple[int, bytes, bool]]) -> None:
        children: list[dict[str, int]] = [{}]
        whole: list[tuple[int, int, bool]] = []
        self.broken: list[tuple[int, bytes, bool]] = []
        for token, body, held in bodies:
            try:
                text = body.decode()
            except UnicodeDecodeError:
                self.broken.append((token, body, held))
                continue
            node = 0
            for character in text:
                if character not in children[node]:
                    children[node][character] = len(children)
                    children.append({})
                node = children[node][character]
            whole.append((token, node, held))
        self._number(children, whole)
        self._parts: dict[bytes, tuple[Part, ...]] = {}

    def _number(self, children: list[dict[str, int]], whole: list[tuple[int, int, bool]]) -> None:
        signs = sorted({character for each in children for character in each})
        place_of = {sign: place for place, sign in enumerate(signs)}
        order, parents, read, self.levels = [0], [0], [0], [0, 1]
        numbers = {0: 0}
        while self.levels[-1] > self.levels[-2]:
            for place in range(self.levels[-2], self.levels[-1]):
                for character, child in children[order[place]].items():
                    numbers[child] = len(order)
                    order.append(child)
                    parents.append(place)
                    read.append(place_of[character])
            self.levels.append(len(order))
        self.signs = signs
        self.parents, self.read = np.array(parents), np.array(read)
        self.children = [{character: numbers[child] for character, child in children[old].items()} for old in order]
        self.tokens = np.array([token for token, _, _ in whole], dtype=np.int64)
        self.nodes = np.array([numbers[node] for _, node, _ in whole], dtype=np.int64)
        self.held = np.array([held for _, _, held in whole], dtype=bool)
        self.ends: dict[int, list[int]] = {}
        for place, node in enumerate(self.nodes.tolist()):
            self.ends.setdefault(node, []).append(place)

    def parts(self, waiting: bytes) -> tuple[Part, ...]:
        """The tokens with broken characters that can follow bytes that wait."""
        found = self._parts.get(waiting)
        if found is None:
            found = self._parts[waiting] = tuple(self._follow(waiting))
        return found

    def _follow(self, waiting: bytes) -> Iterator[Part]:
        for token, body, held in self.broken:
            try:
                text, rest = read_whole(waiting + body)
            except UnicodeDecodeError:
                continue
            if not (held and rest):
                yield Part(token, text, rest, held)


class Surfaces:
    """A vocabulary as constraints see it."""

    def __init__(
        self, surfaces: Sequence[bytes], margin: tuple[bytes, bytes] = (b"", b""), *, backwards: bool = False
    ) -> None:
        usable = [
            (token, surface)
            for token, surface in enumerate(surfaces)
            if token not in (PAD, UNKNOWN, START, END) and b"\n" not in surface
        ]
        self.backwards = backwards
        if backwards:
            turned = ((token, _turned(surface)) for token, surface in usable)
            usable = [(token, surface) for token, surface in turned if surface is not None]
            margin = margin[1], margin[0]
        self.silent = np.array([token for token, surface in usable if not surface], dtype=np.int64)
        front, back = margin
        self.back = back.decode()

        def body(token: int, surface: bytes) -> tuple[int, bytes, bool]:
            held = bool(back) and surface.endswith(back)
            return token, surface.removesuffix(back), held

        self.later = Forest([body(token, surface) for token, surface in usable if surface])
        self.front = self.later
        if front:
            self.front = Forest([body(token, surface.removeprefix(front)) for token, surface in usable if surface])
        self.has_front = bool(front)
        self.longest = max((len(surface) for _, surface in usable), default=1) or 1
        single = {surface for _, surface in usable if len(surface) == 1}
        self.spells = len(single) >= 255
        """Whether every byte but the line break is a token, so that any text can be spelled."""
        self.plain = self.spells and all(len(surface) == 1 for _, surface, _ in self.later.broken)
        """Whether, besides, only such tokens have parts of characters."""


_known: WeakKeyDictionary[Tokenizer, Surfaces] = WeakKeyDictionary()


def surfaces_of(tokenizer: Tokenizer) -> Surfaces:
    """The surfaces of a tokenizer, found once."""
    found = _known.get(tokenizer)
    if found is None:
        each = [tokenizer.surface(id_) for id_ in range(tokenizer.size)]
        backwards = isinstance(tokenizer, BackwardTokenizer)
        found = _known[tokenizer] = Surfaces(each, tokenizer.margin, backwards=backwards)
    return found


def _turned(surface: bytes) -> bytes | None:
    """The characters from last to first; None where some are not whole."""
    try:
        return surface.decode()[::-1].encode()
    except UnicodeDecodeError:
        return None


def read_whole(content: bytes) -> tuple[str, bytes]:
    """The whole characters of bytes, and the beginning of another; UnicodeDecodeError where there can be none."""
    try:
        return content.decode(), b""
    except UnicodeDecodeError as error:
        if error.reason != "unexpected end of data":
            raise
        return content[: error.start].decode(), content[error.start :]


@lru_cache(maxsize=4096)
def points_between(beginning: bytes) -> tuple[int, int]:
    """The code points of characters whose UTF-8 begins so: the least and the last."""
    lead = beginning[0]
    width = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
    bits = lead & (0x7F >> width)
    for value in beginning[1:]:
        bits = bits << 6 | value & 0x3F
    left = 6 * (width - len(beginning))
    lowest = {2: 0x80, 3: 0x800, 4: 0x10000}[width]
    low, high = max(bits << left, lowest), min((bits + 1 << left) - 1, 0x10FFFF)
    if low <= 0xDFFF and high >= 0xD800:  # surrogates are no characters
        low, high = (low, 0xD7FF) if low < 0xD800 else (0xE000, high)
    return low, high


def segments(text: str, surfaces: Surfaces, *, held: bool) -> int:
    """The least tokens that spell a text to its end; many more than there ever are where none do.

    `held`: a space was held back that the text must begin with. Parts of characters are single bytes, or none is there.
    """
    forest, back = surfaces.later, surfaces.back
    if held and text:
        if text[0] != back:
            return NEVER
        text = text[1:]
    reached = [NEVER] * (len(text) + 1)
    reached[0] = 0

    def reach(place: int, count: int) -> None:
        reached[place] = min(reached[place], count)

    blank = any(forest.held[at] for at in forest.ends.get(0, ()))
    for start in range(len(text)):
        if reached[start] == NEVER:
            continue
        if surfaces.spells:
            reach(start + 1, reached[start] + len(text[start].encode()))
        if blank and text[start] == back and start + 1 < len(text):
            reach(start + 1, reached[start] + 1)
        node = 0
        for end in range(start + 1, len(text) + 1):
            after = forest.children[node].get(text[end - 1])
            if after is None:
                break
            node = after
            for at in forest.ends.get(node, ()):
                if not forest.held[at] or end == len(text):
                    reach(end, reached[start] + 1)
                elif text[end] == back and end + 1 < len(text):  # the space is read with what follows it
                    reach(end + 1, reached[start] + 1)
    return reached[-1]
