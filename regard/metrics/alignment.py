"""Word alignments: the notation i-j, and the alignment error rate.

A link (i, j) joins source word i and target word j, both from 0.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import numpy as np

from regard.errors import DataError
from regard.metrics.resampling import Statistics, summarise
from regard.metrics.score import Score

Link = tuple[int, int]

_LINK: Final = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")
_GOLD: Final = re.compile(r"([0-9]{1,9})([-?])([0-9]{1,9})")


def parse_pharaoh(line: str, *, where: str = "") -> frozenset[Link]:
    """Read `0-0 1-2` (source-target, from 0); an empty line has no links. `where` is told in errors (`file:line`)."""
    links = set()
    for field in line.split():
        match = _LINK.fullmatch(field)
        if match is None:
            place = f"{where}: " if where else ""
            raise DataError(
                f"{place}{field!r} is not a link: write source-target, two numbers from 0 with a hyphen, such as 0-2"
            )
        links.add((int(match[1]), int(match[2])))
    return frozenset(links)


def format_pharaoh(links: Collection[Link]) -> str:
    """Write links as `0-0 1-2`, sorted by source and then by target."""
    for source, target in links:
        if source < 0 or target < 0:
            raise DataError(f"link ({source}, {target}) cannot be written: words are counted from 0")
    return " ".join(f"{source}-{target}" for source, target in sorted(links))


def alignment_error(
    predicted: Sequence[Collection[Link]],
    sure: Sequence[Collection[Link]],
    possible: Sequence[Collection[Link]] | None = None,
    *,
    resamples: int = 1000,
    seed: int = 12345,
    level: float = 0.95,
) -> Score:
    """Alignment error rate (Och and Ney 2003, equation 21), in per cent, lower is better.

    AER = 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|), precision = |A ∩ P| / |A|, recall = |A ∩ S| / |S|, with A predicted, S
    sure and P possible links. Every sure link is possible; without `possible`, P = S and AER = 1 − F1. Where nothing is
    predicted nothing predicted is wrong: precision is 100, and so recall where nothing is sure.
    """
    gold = sure if possible is None else possible
    if not len(predicted) == len(sure) == len(gold):
        raise DataError(
            f"alignment error: {len(predicted)} predicted alignments, {len(sure)} sure and {len(gold)} possible ones: "
            "there must be one of each for every sentence pair"
        )
    rows = []
    for links, certain, allowed in zip(map(set, predicted), map(set, sure), map(set, gold), strict=True):
        rows.append((len(links & certain), len(links & (certain | allowed)), len(links), len(certain)))
    return summarise(
        np.array(rows, dtype=np.float64).reshape(-1, 4),
        _aggregate,
        name="alignment error",
        signature=f"possible:{'no' if possible is None else 'yes'}|version:regard-1",
        higher_is_better=False,
        resamples=resamples,
        seed=seed,
        level=level,
    )


class AlignmentErrorRate:
    """The alignment error rate of alignments that are written as texts, `0-0 1-2`.

    A reference may have links that are possible but not sure, written with a question mark: `0-0 1?2`.
    """

    name: Final = "AER"
    signature: Final = "possible:marked|version:regard-1"
    higher_is_better: Final = False

    def statistics(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Statistics:
        """Per segment: |A ∩ S|, |A ∩ P|, |A|, |S|."""
        rows = []
        for number, (hypothesis, texts) in enumerate(zip(hypotheses, references, strict=True), start=1):
            if len(texts) != 1:
                raise DataError(f"segment {number} has {len(texts)} references; an alignment is compared with one")
            links = parse_pharaoh(hypothesis, where=f"alignment {number}")
            sure, possible = parse_gold(texts[0], where=f"reference {number}")
            rows.append((len(links & sure), len(links & possible), len(links), len(sure)))
        return np.array(rows, dtype=np.float64)

    def aggregate(self, totals: Statistics) -> tuple[float, Mapping[str, float]]:
        """As `alignment_error`."""
        return _aggregate(totals)


def parse_gold(line: str, *, where: str = "") -> tuple[frozenset[Link], frozenset[Link]]:
    """Sure and possible links of `0-0 1?2`; the sure ones are among the possible ones."""
    sure, possible = set(), set()
    for field in line.split():
        match = _GOLD.fullmatch(field)
        if match is None:
            place = f"{where}: " if where else ""
            raise DataError(
                f"{place}{field!r} is not a link: write source-target for a sure one and source?target for a possible "
                "one, two numbers from 0, such as 0-2 or 0?2"
            )
        link = (int(match[1]), int(match[3]))
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    return frozenset(sure), frozenset(possible)


def _aggregate(totals: Statistics) -> tuple[float, Mapping[str, float]]:
    in_sure, in_possible, predicted, sure = totals.tolist()
    error = 1 - (in_sure + in_possible) / (predicted + sure) if predicted + sure else 0.0
    return 100 * error, {
        "precision": 100 * in_possible / predicted if predicted else 100.0,
        "recall": 100 * in_sure / sure if sure else 100.0,
        "predicted": predicted,
        "sure": sure,
    }
