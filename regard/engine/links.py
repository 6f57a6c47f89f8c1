"""Attention as links of words: what `regard.insight` and `regard predict --align` make of it, without numpy."""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.engine.requests import Attention
from regard.text.encoding import Encoding
from regard.text.words import tokens_to_words, word_spans


@dataclass(frozen=True, slots=True)
class Side:
    """What is linked on one side: `count` words or tokens, and to which of them each token of the model belongs."""

    count: int
    owners: Sequence[int | None]

    @staticmethod
    def of_words(text: str, encoding: Encoding) -> "Side":
        words = word_spans(text)
        return Side(len(words), tokens_to_words(encoding.spans, words))

    @staticmethod
    def of_source_tokens(encoding: Encoding) -> "Side":
        return Side(len(encoding), range(len(encoding)))

    @staticmethod
    def of_target_tokens(encoding: Encoding) -> "Side":
        """From the first to the last, where they were written backwards."""
        places = range(len(encoding))
        return Side(len(encoding), places if list(encoding.spans) == sorted(encoding.spans) else places[::-1])


def links(attention: Attention, source: Side, target: Side, *, shift: int) -> str:
    """Each target word with the source word it attends to most, `0-0 1-2`, sorted by source.

    `shift` 0 takes the step that writes a token, 1 the step that has just read it. Weights are summed over the tokens
    of a word on both sides: their mean over those of a target word would be largest at the same source word.
    """
    totals = [[0.0] * source.count for _ in range(target.count)]
    for step, row in zip(attention.steps[shift:], target.owners, strict=False):  # the end is no token
        for weight, column in zip(step, source.owners, strict=False):  # nor is END
            if row is not None and column is not None:
                totals[row][column] += weight
    found = [(total.index(max(total)), row) for row, total in enumerate(totals) if total]
    return " ".join(f"{first}-{second}" for first, second in sorted(found))
