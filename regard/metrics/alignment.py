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


def _aggregate(totals: Statistics) -> tuple[float, Mapping[str, float]]:
    in_sure, in_possible, predicted, sure = totals.tolist()
    error = 1 - (in_sure + in_possible) / (predicted + sure) if predicted + sure else 0.0
    return 100 * error, {
        "precision": 100 * in_possible / predicted if predicted else 100.0,
        "recall": 100 * in_sure / sure if sure else 100.0,
        "predicted": predicted,
        "sure": sure,
    }
