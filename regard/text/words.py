"""Words of the raw text, and which token belongs to which: how attention over subwords is merged to words."""

import re
from collections.abc import Sequence
from typing import Final

_WORD: Final = re.compile(r"\S+")


def word_spans(text: str) -> tuple[tuple[int, int], ...]:
    """The ranges of a text that whitespace, of any kind, separates."""
    return tuple(match.span() for match in _WORD.finditer(text))


def tokens_to_words(spans: Sequence[tuple[int, int]], words: Sequence[tuple[int, int]]) -> tuple[int | None, ...]:
    """For each token the word with which it shares most characters, the first of equals; None if it shares none.

    Tokens that stand for white space alone, and the mark for the start of a text, belong to no word. Words must be in
    the order of the text, as `word_spans` are; tokens need not be.
    """
    owners: list[int | None] = [None] * len(spans)
    first = 0
    for token in sorted(range(len(spans)), key=lambda token: spans[token][0]):
        start, end = spans[token]
        while first < len(words) and words[first][1] <= start:
            first += 1
        best, owner, index = 0, None, first
        while index < len(words) and words[index][0] < end:
            shared = min(end, words[index][1]) - max(start, words[index][0])
            if shared > best:
                best, owner = shared, index
            index += 1
        owners[token] = owner
    return tuple(owners)
