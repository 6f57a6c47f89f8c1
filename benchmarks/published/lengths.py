"""BLEU by the length of the source: how far one vector for a whole sentence carries, against attention.

The sentences are those of the test sets, filled up with long ones of a further drawing that training has not seen.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from published.entries import Bucket
from published.training import command, records
from regard.metrics import evaluate, metric

WITHOUT: Final = ("sutskever2014", "cho2014")
WITH: Final = ("bahdanau2015", "luong2015_general", "vaswani2017_tiny")
COMPARED: Final = (*WITHOUT, *WITH)

FIRSTS: Final = (3, 7, 10, 13, 16, 19)
"""The shortest source of each bucket, in words with the full stop; the longest drawn have about 21."""

LONG: Final = 13
ENOUGH: Final = 300
"""Buckets from so many words on are filled up to so many sentences."""

DRAWING: Final = ("data", "make", "pocket", "long", "--seed", "2")

Pair = tuple[str, str]


def bucket_of(source: str) -> int:
    """The first length of the bucket that a source belongs to."""
    words = len(source.split())
    return max((first for first in FIRSTS if first <= words), default=FIRSTS[0])


def judged_pairs(folder: Path) -> list[Pair]:
    """The test sets, then long sentences of another drawing that are in none of the sets, of known words only."""
    if not (folder / "long").exists():
        command(*DRAWING, folder=folder)
    pairs = _pairs(folder / "pocket/test.jsonl") + _pairs(folder / "pocket/combinations.jsonl")
    train = _pairs(folder / "pocket/train.jsonl")
    known = ({word for source, _ in train for word in source.split()}, {w for _, t in train for w in t.split()})
    seen = {source for source, _ in (*pairs, *train, *_pairs(folder / "pocket/valid.jsonl"))}
    counts = {first: sum(bucket_of(source) == first for source, _ in pairs) for first in FIRSTS}
    for source, target in _pairs(folder / "long/train.jsonl"):
        first = bucket_of(source)
        wanted = first >= LONG and counts[first] < ENOUGH and source not in seen
        if wanted and known[0].issuperset(source.split()) and known[1].issuperset(target.split()):
            pairs.append((source, target))
            seen.add(source)
            counts[first] += 1
    return pairs


def _pairs(path: Path) -> list[Pair]:
    return [(record["source"], record["target"]) for record in records(path)]


def predict(name: str, folder: Path, pairs: Sequence[Pair]) -> list[str]:
    """The outputs of a finished run."""
    sources = "".join(f"{source}\n" for source, _ in pairs)
    return command("predict", f"runs/{name}", folder=folder, text=sources).splitlines()


def by_length(pairs: Sequence[Pair], outputs: Sequence[str], *, resamples: int = 1000) -> tuple[Bucket, ...]:
    """BLEU with its interval in each bucket that has sentences."""
    measured: list[Bucket] = []
    for first, after in zip(FIRSTS, (*FIRSTS[1:], None), strict=True):
        inside = [
            (output, [target])
            for (source, target), output in zip(pairs, outputs, strict=True)
            if bucket_of(source) == first
        ]
        if not inside:
            continue
        hypotheses, references = [output for output, _ in inside], [texts for _, texts in inside]
        score = evaluate(metric("BLEU", tokenize="none"), hypotheses, references, resamples=resamples)
        measured.append(
            Bucket(
                first=first,
                last=None if after is None else after - 1,
                sentences=len(inside),
                value=round(score.value, 2),
                low=None if score.low is None else round(score.low, 2),
                high=None if score.high is None else round(score.high, 2),
            )
        )
    return tuple(measured)
