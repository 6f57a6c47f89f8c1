"""BLEU, chrF and TER as sacrebleu defines them.

Statistics and aggregates are sacrebleu's own functions, so that values are equal to its own to the last digit and the
signatures mean what they say. Its warning about text that looks tokenised is off: which tokenisation is right is the
caller's choice, and the signature carries it.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Final, Literal, get_args

import numpy as np
from sacrebleu.metrics.bleu import BLEU, BLEUScore, _get_tokenizer
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.version import __version__

from regard.errors import UsageError
from regard.metrics.resampling import Statistics

Tokenize = Literal["13a", "none", "intl", "zh", "char"]
"""How BLEU cuts text into words: `13a` for plain text, `none` for text that is already cut."""

TOKENIZATIONS: Final = get_args(Tokenize)


class Overlap:
    """One of sacrebleu's metrics behind the `Metric` contract."""

    def __init__(self, *, name: str, definition: BLEU | CHRF | TER, signature: str, higher_is_better: bool) -> None:
        self.name = name
        self.signature = f"{signature}|version:{__version__}"
        self.higher_is_better = higher_is_better
        self.definition = definition

    def statistics(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Statistics:
        """Sacrebleu's segment statistics; a missing second reference is None there."""
        columns = list(zip_longest(*references))
        return np.array(self.definition._extract_corpus_statistics(hypotheses, columns), dtype=np.float64)

    def aggregate(self, totals: Statistics) -> tuple[float, Mapping[str, float]]:
        """Sacrebleu's score from the totals; BLEU has its precisions, brevity penalty and lengths as parts."""
        score = self.definition._compute_score_from_stats(totals.tolist())
        parts: dict[str, float] = {}
        if isinstance(score, BLEUScore):
            parts = {f"precision_{order}": value for order, value in enumerate(score.precisions, start=1)}
            parts |= {
                "brevity_penalty": score.bp,
                "hypothesis_length": float(score.sys_len),
                "reference_length": float(score.ref_len),
            }
        return float(score.score), parts


def check_tokenize(tokenize: str, name: str) -> None:
    """Refuse a tokenisation that is not known."""
    if tokenize not in TOKENIZATIONS:
        raise UsageError(f"tokenize = {tokenize!r}: {name} can cut text by {', '.join(TOKENIZATIONS)}")


def words_by(tokenize: str) -> Callable[[str], list[str]]:
    """A function that cuts a text into words as BLEU does."""
    check_tokenize(tokenize, "words")
    cut = _get_tokenizer(tokenize)()
    return lambda text: str(cut(text.rstrip())).split()


def bleu(*, tokenize: str = "13a", order: int = 4, effective: bool = False) -> Overlap:
    """Papineni et al. 2002: the geometric mean of n-gram precisions times the brevity penalty, in per cent.

    `effective`: the mean is over orders that the output has n-grams of, as is fit for single segments.
    """
    check_tokenize(tokenize, "BLEU")
    if not 1 <= order <= 16:
        raise UsageError(f"order = {order}: the longest n-gram of BLEU must have 1 to 16 words")
    return Overlap(
        name="BLEU" if order == 4 else f"BLEU-{order}",
        definition=BLEU(tokenize=tokenize, max_ngram_order=order, effective_order=effective, force=True),
        signature=f"case:mixed|eff:{'yes' if effective else 'no'}|tok:{tokenize}|smooth:exp",
        higher_is_better=True,
    )


def chrf() -> Overlap:
    """Popović 2015: F2 over character n-grams up to 6, spaces left out, in per cent."""
    return Overlap(
        name="chrF", definition=CHRF(), signature="case:mixed|eff:yes|nc:6|nw:0|space:no", higher_is_better=True
    )


def ter() -> Overlap:
    """Snover et al. 2006: edits and shifts of words for each word of the reference, in per cent, case left out."""
    return Overlap(
        name="TER",
        definition=TER(),
        signature="case:lc|tok:tercom|norm:no|punct:yes|asian:no",
        higher_is_better=False,
    )
