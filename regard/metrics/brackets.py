"""Labelled brackets of constituency trees: precision, recall and F1, as EVALB counts with the parameters COLLINS.prm.

A bracket is a label with the words it spans; part-of-speech tags are no brackets. The root (TOP), traces and
punctuation are deleted, ADVP and PRT are one label, and a label ends before its function (NP-SBJ is NP). Which words
are punctuation is decided by the tags of the reference, for both trees.

EVALB leaves out sentences whose output is no tree over the words of the reference. Here such an output has no brackets,
so that a parser cannot gain by them; they are counted in the part `invalid`.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from regard.errors import DataError
from regard.metrics.matching import VERSION
from regard.metrics.resampling import Statistics

Bracket = tuple[str, int, int]
"""A label, the first word, and the word after the last."""

_TOKEN: Final = re.compile(r"\(|\)|[^\s()]+")
_UNTAGGED: Final = re.compile(r"\(\s*[^\s()]+\s+[^\s()]+(?:\s+[^\s()]|\s*\()|\)\s*[^\s()]")
"""A word beside another child of its bracket, so that the bracket is no tag."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BracketRules:
    """Which labels count, and how."""

    deleted: frozenset[str] = frozenset({"TOP", "ROOT", "S1", "-NONE-", ",", ":", "``", "''", ".", "PUNCT"})
    equal: Mapping[str, str] | None = None
    labelled: bool = True

    def label(self, label: str) -> str:
        """The label as it is compared: without its function, one name for those that are equal."""
        bare = label if label.startswith("-") else re.split(r"(?<=.)[-=]", label, maxsplit=1)[0]
        return ({"PRT": "ADVP"} if self.equal is None else self.equal).get(bare, bare)


COLLINS: Final = BracketRules()


@dataclass(frozen=True, slots=True)
class Tree:
    """The words of a tree with their tags, and its brackets, inner ones before those around them."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    brackets: tuple[Bracket, ...]


def read_tree(text: str, *, where: str = "", tagged: bool = True) -> Tree:
    """Read `(S (NP (DT the) (NN cat)) (VP (VBD sat)))`. Brackets without a word are left out.

    A bracket around a single word is its tag, unless the tree is not `tagged`, as in `(S (NP XX XX) (VP XX))`. A pair
    of brackets without a label around everything, as treebanks have it, is passed over.
    """
    place = f"{where}: " if where else ""
    words: list[str] = []
    tags: list[str] = []
    brackets: list[Bracket] = []
    opened: list[tuple[str, int, int]] = []  # label, words and brackets before it
    expecting = ended = False
    for piece in _TOKEN.findall(text):
        if ended:
            raise DataError(f"{place}a tree is followed by {piece!r}: there must be one tree in a line: {text[:60]!r}")
        if piece == "(":
            if expecting:
                opened.append(("", len(words), len(brackets)))
            expecting = True
        elif piece == ")":
            if expecting or not opened:
                what = "is empty" if expecting else "is closed that was not opened"
                raise DataError(f"{place}a bracket {what}: {text[:60]!r}")
            label, first, before = opened.pop()
            if tagged and len(words) == first + 1 and len(brackets) == before and not tags[-1]:
                tags[-1] = label
            elif len(words) > first and label:
                brackets.append((label, first, len(words)))
            ended = not opened
        elif expecting:
            opened.append((piece, len(words), len(brackets)))
            expecting = False
        elif opened:
            words.append(piece)
            tags.append("")
        else:
            raise DataError(f"{place}a tree begins with a bracket, not with {piece!r}: {text[:60]!r}")
    if opened or expecting or not ended:
        raise DataError(f"{place}{len(opened) + expecting} brackets are not closed, or there is no tree: {text[:60]!r}")
    return Tree(tuple(words), tuple(tags), tuple(brackets))


class BracketF1:
    """F1 of labelled brackets over the whole set, in per cent."""

    name: Final = "bracket_F1"
    higher_is_better: Final = True

    def __init__(self, rules: BracketRules = COLLINS) -> None:
        self.rules = rules
        own = "collins" if rules == COLLINS else "own"
        self.signature = f"rules:{own}|labelled:{'yes' if rules.labelled else 'no'}|invalid:zero|{VERSION}"

    def statistics(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Statistics:
        """Per segment: right, found, true; crossing; right tags, words; whole, without crossing, invalid, 1."""
        rows = []
        tagged = not any(_UNTAGGED.search(text) for texts in references for text in texts)
        for number, (hypothesis, texts) in enumerate(zip(hypotheses, references, strict=True), start=1):
            golden = [read_tree(text, where=f"reference {number}", tagged=tagged) for text in texts]
            found = [self._compared(hypothesis, gold, tagged=tagged) for gold in golden]
            rows.append(max(found, key=lambda row: _f1(*row[:3])))
        return np.array(rows, dtype=np.float64)

    def aggregate(self, totals: Statistics) -> tuple[float, Mapping[str, float]]:
        """2PR / (P + R), and EVALB's other figures."""
        right, found, true, crossing, tags, words, whole, uncrossed, invalid, segments = totals.tolist()
        return 100 * _f1(right, found, true), {
            "precision": 100 * right / found if found else 0.0,
            "recall": 100 * right / true if true else 100.0,
            "exact": 100 * whole / segments,
            "crossing": crossing / segments,
            "without_crossing": 100 * uncrossed / segments,
            "tagging": 100 * tags / words if words else 100.0,
            "invalid": invalid,
        }

    def _compared(self, hypothesis: str, gold: Tree, *, tagged: bool) -> tuple[float, ...]:
        kept = [self.rules.label(tag) not in self.rules.deleted for tag in gold.tags]
        true = self.brackets(gold, kept)
        try:
            tree = read_tree(hypothesis, tagged=tagged)
        except DataError:
            tree = Tree((), (), ())
        if len(tree.words) != len(gold.words):
            return (0, 0, true.total(), 0, 0, sum(kept), 0, 1, 1, 1)
        found = self.brackets(tree, kept)
        right = (found & true).total()
        crossing = sum(count for one, count in found.items() if any(_cross(one, other) for other in true))
        tags = sum(keep and left == right_ for keep, left, right_ in zip(kept, tree.tags, gold.tags, strict=True))
        whole = right == found.total() == true.total()
        return (right, found.total(), true.total(), crossing, tags, sum(kept), whole, crossing == 0, 0, 1)

    def brackets(self, tree: Tree, kept: Sequence[bool]) -> Counter[Bracket]:
        """The brackets that count, over the words that are kept."""
        places = [0]
        for keep in kept:
            places.append(places[-1] + keep)
        counted: Counter[Bracket] = Counter()
        for label, start, end in tree.brackets:
            named = self.rules.label(label)
            if named not in self.rules.deleted and places[end] > places[start]:
                counted[named if self.rules.labelled else "", places[start], places[end]] += 1
        return counted


def _cross(left: Bracket, right: Bracket) -> bool:
    (_, a, b), (_, c, d) = left, right
    return a < c < b < d or c < a < d < b


def _f1(right: float, found: float, true: float) -> float:
    return 2 * right / (found + true) if found + true else 1.0
