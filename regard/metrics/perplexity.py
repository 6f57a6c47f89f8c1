"""Perplexity: how many equally likely choices a model faces for each token. Bits per character: what texts cost it."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from regard.errors import DataError
from regard.metrics.resampling import Statistics, summarise
from regard.metrics.score import Score


def perplexity(
    nll_sums: Sequence[float],
    token_counts: Sequence[int],
    *,
    unit: str = "token",
    name: str = "perplexity (teacher-forced)",
    resamples: int = 1000,
    seed: int = 12345,
    level: float = 0.95,
) -> Score:
    """exp(Σ −log p / Σ tokens), each token predicted after the true ones before it.

    `nll_sums[i]` is −log p (natural logarithm) of segment i and `token_counts[i]` the number of its predicted tokens,
    the end included. Perplexities of different units cannot be compared; the signature therefore names the unit.
    """
    if len(nll_sums) != len(token_counts):
        raise DataError(f"perplexity: {len(nll_sums)} negative log-probabilities but {len(token_counts)} token counts")
    for number, (nll, tokens) in enumerate(zip(nll_sums, token_counts, strict=True), start=1):
        if not math.isfinite(nll) or nll < 0:
            raise DataError(f"perplexity: segment {number} has −log p = {nll}: must be finite and not negative")
        if tokens < 1:
            raise DataError(f"perplexity: segment {number} has {tokens} tokens: must be 1 or more (the end counts)")
    return summarise(
        np.array([nll_sums, token_counts], dtype=np.float64).T,
        _aggregate,
        name=name,
        signature=f"unit:{unit}|version:regard-1",
        higher_is_better=False,
        resamples=resamples,
        seed=seed,
        level=level,
    )


def _aggregate(totals: Statistics) -> tuple[float, Mapping[str, float]]:
    nll, tokens = totals.tolist()
    mean = nll / tokens
    return math.exp(mean) if mean < 700 else math.inf, {"nll_per_token": mean, "tokens": tokens}


def bits_per_character(
    nll_sums: Sequence[float],
    character_counts: Sequence[int],
    *,
    resamples: int = 1000,
    seed: int = 12345,
    level: float = 0.95,
) -> Score:
    """Σ −log₂ p / Σ characters, teacher-forced. It does not depend on what a token is, so all models can be compared.

    `nll_sums[i]` is −log p (natural logarithm) of segment i, its end included; `character_counts[i]` are its code
    points, and 1 for its end.
    """
    if len(nll_sums) != len(character_counts):
        raise DataError(
            f"bits per character: {len(nll_sums)} negative log-probabilities but {len(character_counts)} lengths"
        )
    for number, (nll, characters) in enumerate(zip(nll_sums, character_counts, strict=True), start=1):
        if not math.isfinite(nll) or nll < 0:
            raise DataError(f"bits per character: segment {number} has −log p = {nll}: must be finite, not negative")
        if characters < 1:
            raise DataError(
                f"bits per character: segment {number} has {characters} characters: must be 1 or more (the end counts)"
            )
    return summarise(
        np.array([nll_sums, character_counts], dtype=np.float64).T,
        _bits,
        name="bits per character",
        signature="end:counted|version:regard-1",
        higher_is_better=False,
        resamples=resamples,
        seed=seed,
        level=level,
    )


def _bits(totals: Statistics) -> tuple[float, Mapping[str, float]]:
    nll, characters = totals.tolist()
    return nll / math.log(2) / characters, {"bits": nll / math.log(2), "characters": characters}
