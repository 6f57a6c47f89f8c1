"""What a tokenizer gives: ids, and for each id the place in the raw text that it came from."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Encoding:
    """Token ids of one text, without start and end.

    `spans[i]` is the half-open range `[start, end)` of characters of the raw text, before any normalisation, that
    token `i` stands for. Tokens that share one character (bytes of "é") share its span.
    """

    ids: tuple[int, ...]
    spans: tuple[tuple[int, int], ...]

    def __len__(self) -> int:
        return len(self.ids)
