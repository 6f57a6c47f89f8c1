"""Labelled spans in tag sequences: precision, recall and F1, as the script `conlleval` of the CoNLL tasks counts.

Tags are cut at white space: `O`, or a letter, a hyphen and a type. B begins a span, I and E go on, E ends one, S stands
alone. A span also begins where the type changes or where I or E follow O, so that IOB1, IOB2 and IOBES are all read by
one rule and nothing is refused; a tag without a hyphen other than O is a span of one word.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from regard.metrics.matching import VERSION
from regard.metrics.resampling import Statistics

OUTSIDE: Final = "O"
PREFIXES: Final = frozenset("BIES")


class Span(NamedTuple):
    """Words from `start` up to `end`, which is not among them."""

    type: str
    start: int
    end: int


def read_spans(tags: Sequence[str]) -> list[Span]:
    """The spans of a sequence of tags, in order."""
    spans: list[Span] = []
    opened: tuple[str, int] | None = None
    for place, tag in enumerate([*tags, OUTSIDE]):
        prefix, type_ = _cut(tag)
        if opened is not None and (prefix in "OBS" or opened[0] != type_):
            spans.append(Span(*opened, place))
            opened = None
        if prefix != OUTSIDE and opened is None:
            opened = (type_, place)
        if prefix in "ES" and opened is not None:
            spans.append(Span(*opened, place + 1))
            opened = None
    return spans


class SpanF1:
    """F1 of labelled spans over the whole set, in per cent; a span is right if its type and both ends are."""

    name: Final = "span_F1"
    higher_is_better: Final = True

    def __init__(self, *, type: str | None = None) -> None:
        """With `type`, only spans of this type count."""
        self.type = type
        self.signature = f"scheme:conlleval|type:{type or 'all'}|{VERSION}"

    def statistics(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Statistics:
        """Per segment, against its best reference: right, found, true spans; 1 if the numbers of tags differ."""
        rows = [
            max((self._compared(hypothesis, text) for text in texts), key=lambda row: _f1(*row[:3]))
            for hypothesis, texts in zip(hypotheses, references, strict=True)
        ]
        return np.array(rows, dtype=np.float64)

    def aggregate(self, totals: Statistics) -> tuple[float, Mapping[str, float]]:
        """2PR / (P + R); 100 where there are no spans and none are found."""
        right, found, true, unequal = totals.tolist()
        return 100 * _f1(right, found, true), {
            "precision": 100 * right / found if found else 100.0 if not true else 0.0,
            "recall": 100 * right / true if true else 100.0,
            "found": found,
            "true": true,
            "unequal_lengths": unequal,
        }

    def _compared(self, hypothesis: str, reference: str) -> tuple[int, int, int, int]:
        tags = hypothesis.split(), reference.split()
        found, true = (
            Counter(span for span in read_spans(side) if self.type is None or span.type == self.type) for side in tags
        )
        return (found & true).total(), found.total(), true.total(), int(len(tags[0]) != len(tags[1]))


def span_types(texts: Iterable[str]) -> list[str]:
    """The types of all spans in some tag sequences, sorted."""
    return sorted({span.type for text in texts for span in read_spans(text.split())})


def _cut(tag: str) -> tuple[str, str]:
    prefix, hyphen, type_ = tag.partition("-")
    if tag == OUTSIDE:
        return OUTSIDE, ""
    if hyphen and prefix in PREFIXES:
        return prefix, type_
    return "S", tag


def _f1(right: float, found: float, true: float) -> float:
    return 2 * right / (found + true) if found + true else 1.0
