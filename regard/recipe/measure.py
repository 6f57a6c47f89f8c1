"""What pairs look like: how many, how long, how many words, and how often a new word is to be expected.

One pass in bounded memory. Counts of pairs and characters are of the whole data; lengths, words and alphabets are taken
from the first `LOOKED_AT` pairs.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from regard.data.example import Example, Place

LOOKED_AT = 200_000
MOST_TYPES = 50_000
LONGEST_TYPE = 100
_LONGEST = 4096
"""Lengths beyond this are counted as this."""


@dataclass(frozen=True, slots=True)
class SideFigures:
    """Figures of all sources, or of all targets."""

    characters: int
    words: int
    median_characters: int
    median_words: int
    most_characters: int
    most_words: int
    types: int
    unseen: float
    alphabet: Counter[str]
    vocabulary: Counter[str]


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of pairs. `most_*` is the length that all but one in a thousand stay within."""

    pairs: int
    empty: int
    first_empty: Place | None
    source: SideFigures
    target: SideFigures
    ratio: float


class _Side:
    """Counts of one side while it is read."""

    def __init__(self) -> None:
        self.characters = 0
        self.words = 0
        self._character_lengths: Counter[int] = Counter()
        self._word_lengths: Counter[int] = Counter()
        self._vocabulary: Counter[str] = Counter()
        self._alphabet: Counter[str] = Counter()
        self._rare = 0

    def add(self, text: str, *, closely: bool) -> tuple[int, int]:
        words = text.split()
        self.characters += len(text)
        self.words += len(words)
        if closely:
            self._character_lengths[min(len(text), _LONGEST)] += 1
            self._word_lengths[min(len(words), _LONGEST)] += 1
            self._alphabet.update(text)
            for word in words:
                self._count(word)
        return len(text), len(words)

    def _count(self, word: str) -> None:
        if word in self._vocabulary or (len(self._vocabulary) < MOST_TYPES and len(word) <= LONGEST_TYPE):
            self._vocabulary[word] += 1
        else:
            self._rare += 1

    def figures(self) -> SideFigures:
        """The figures of what was added.

        The chance that the next word is a new one is the share of words seen once (Good and Turing).
        """
        once = self._rare + sum(count == 1 for count in self._vocabulary.values())
        seen = self._rare + self._vocabulary.total()
        return SideFigures(
            characters=self.characters,
            words=self.words,
            median_characters=quantile(self._character_lengths, 0.5),
            median_words=quantile(self._word_lengths, 0.5),
            most_characters=quantile(self._character_lengths, 0.999),
            most_words=quantile(self._word_lengths, 0.999),
            types=len(self._vocabulary) + self._rare,
            unseen=once / max(seen, 1),
            alphabet=self._alphabet,
            vocabulary=self._vocabulary,
        )


def quantile(counts: Counter[int], share: float) -> int:
    """The smallest value that at least `share` of the counted values do not exceed; 0 if there are none."""
    needed = share * counts.total()
    reached = 0
    for value in sorted(counts):
        reached += counts[value]
        if reached >= needed:
            return value
    return 0


def measure(examples: Iterable[Example]) -> Figures:
    """Read pairs once. Of an inflection request only the lemma counts as text of the source."""
    source, target = _Side(), _Side()
    ratios: Counter[int] = Counter()
    pairs = empty = 0
    first_empty: Place | None = None
    for example in examples:
        request, _, features = example.source.partition("\t")
        if not request.strip() or not example.target.strip():
            empty += 1
            first_empty = first_empty or example.place
            continue
        pairs += 1
        closely = pairs <= LOOKED_AT
        source_characters, _ = source.add(request, closely=closely)
        target_characters, _ = target.add(example.target, closely=closely)
        if closely:
            shorter = source_characters + features.count(";")
            ratios[min(-(-target_characters // max(shorter, 1)), _LONGEST)] += 1
    return Figures(
        pairs=pairs,
        empty=empty,
        first_empty=first_empty,
        source=source.figures(),
        target=target.figures(),
        ratio=quantile(ratios, 0.999),
    )


def overlap(source: Counter[str], target: Counter[str]) -> float:
    """The share of what occurs in the target, by frequency, that occurs in the source, too; blanks aside."""
    counted = {entry: count for entry, count in target.items() if not entry.isspace()}
    known = sum(count for entry, count in counted.items() if entry in source)
    return known / max(sum(counted.values()), 1)
