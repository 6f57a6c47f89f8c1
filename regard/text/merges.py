"""Byte-pair merges applied to one word, all of them or, for BPE-dropout, a random part.

Provilkov et al. 2020, Algorithm 1: before every merge each possible one is dropped with probability p, and the best of
those that are left is done; when none is left, the word stays as it is. Coins are tossed here only for the merges that
come before the one that is done, which gives the same distribution. A heap over a linked list of symbols keeps the work
at O(n log n), so that a line of a hundred thousand characters without a space costs a second, not an hour.
"""

from collections.abc import Callable, Sequence
from hashlib import blake2b
from heapq import heapify, heappop, heappush
from random import Random

from regard.text.tokenizer import Draw

Rank = Callable[[str, str], float | None]
"""How early two neighbours are merged (lower is earlier), None if never."""


def random_for(draw: Draw, text: str) -> Random:
    """A generator that depends on key and text only."""
    seed = blake2b(f"{draw.key}\n{text}".encode(), digest_size=16).digest()
    return Random(int.from_bytes(seed, "big"))  # noqa: S311


def merge(symbols: Sequence[str], rank: Rank, *, everywhere: bool, rate: float, random: Random | None) -> list[str]:
    """Merge neighbouring symbols by rank until nothing can be merged.

    `everywhere`: a merge is done at all its places at once, from the left, before ranks are looked at again (as
    subword-nmt does), not at its first place only (as sentencepiece does).
    """
    word = _Word(symbols, rank)
    while chosen := word.best(everywhere=everywhere, rate=rate, random=random):
        for place in chosen:
            word.merge_at(place)
    return word.symbols()


class _Word:
    """Symbols in a linked list, and a heap of the merges that are possible, some of them outdated."""

    def __init__(self, symbols: Sequence[str], rank: Rank) -> None:
        count = len(symbols)
        self._symbols: list[str | None] = list(symbols)
        self._before = list(range(-1, count - 1))
        self._after = list(range(1, count + 1))
        self._rank = rank
        ranked = ((self._rank_at(place), place) for place in range(count - 1))
        self._heap = [(value, place) for value, place in ranked if value is not None]
        heapify(self._heap)

    def _rank_at(self, place: int) -> float | None:
        after = self._after[place]
        if after >= len(self._symbols):
            return None
        left, right = self._symbols[place], self._symbols[after]
        return None if left is None or right is None else self._rank(left, right)

    def best(self, *, everywhere: bool, rate: float, random: Random | None) -> list[int]:
        """The places of the merge to do next, from left to right."""
        chosen: list[int] = []
        dropped = []
        best = 0.0
        while self._heap and (not chosen or (everywhere and self._heap[0][0] == best)):
            value, place = heappop(self._heap)
            if self._rank_at(place) != value:
                continue
            if random is not None and random.random() < rate:
                dropped.append((value, place))
                continue
            best = value
            chosen.append(place)
        for entry in dropped:
            heappush(self._heap, entry)
        return chosen

    def merge_at(self, place: int) -> None:
        """Join the symbol at a place with the next one, unless a merge of the same round has taken it (`aaa`)."""
        left = self._symbols[place]
        if left is None:
            return
        right_place = self._after[place]
        right = self._symbols[right_place]
        assert right is not None, "merges of one round come from the left"
        self._symbols[place], self._symbols[right_place] = left + right, None
        after = self._after[place] = self._after[right_place]
        if after < len(self._symbols):
            self._before[after] = place
        for changed in (self._before[place], place):
            if changed >= 0 and (value := self._rank_at(changed)) is not None:
                heappush(self._heap, (value, changed))

    def symbols(self) -> list[str]:
        """What the word consists of now."""
        return [symbol for symbol in self._symbols if symbol is not None]
