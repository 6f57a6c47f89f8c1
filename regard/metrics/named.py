"""From the name of a metric, as recipes spell it, to the metric."""

from dataclasses import dataclass
from typing import Final

from regard.errors import UsageError
from regard.metrics.alignment import AlignmentErrorRate
from regard.metrics.brackets import BracketF1
from regard.metrics.matching import EditDistance, ExactMatch, TokenAccuracy
from regard.metrics.metric import Metric
from regard.metrics.numbers import Pearson, Spearman, SquaredError
from regard.metrics.ranking import MOST, PrecisionAt, ReciprocalRank
from regard.metrics.rates import character_error_rate, word_error_rate
from regard.metrics.slots import SlotError
from regard.metrics.spans import SpanF1

NAMES: Final = (
    "BLEU", "chrF", "TER", "METEOR", "exact", "accuracy", "edit_distance", "WER", "CER", "span_F1", "bracket_F1",
    "slot_error", "AER", "MRR", "P@1", "P@3", "P@5", "P@10", "pearson", "spearman", "squared_error",
)  # fmt: skip

OF_NUMBERS: Final = frozenset({"pearson", "spearman", "squared_error"})
OF_SOURCES: Final = frozenset({"slot_error"})
"""Metrics that compare an output with its source, not with its reference."""

OF_LISTS: Final = frozenset({"MRR", "P@1", "P@3", "P@5", "P@10"})
"""Metrics of several answers for each source."""

CANDIDATES: Final = MOST
"""As many answers are looked at by the metrics of lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeteorSources:
    """Which METEOR: its version, and where synonyms (a folder of WordNet's files) and paraphrases come from."""

    version: str = "1.5"
    wordnet: str | None = None
    paraphrases: str | None = None


def metric(name: str, *, tokenize: str = "13a", meteor: MeteorSources | None = None) -> Metric:
    """The metric of this name.

    `tokenize` is how BLEU and METEOR cut words; the others have their own definition of a piece.
    """
    match name:
        case "exact":
            return ExactMatch()
        case "accuracy":
            return TokenAccuracy()
        case "edit_distance":
            return EditDistance()
        case "WER":
            return word_error_rate()
        case "CER":
            return character_error_rate()
        case "span_F1":
            return SpanF1()
        case "bracket_F1":
            return BracketF1()
        case "slot_error":
            return SlotError()
        case "AER":
            return AlignmentErrorRate()
        case "MRR":
            return ReciprocalRank()
        case "P@1" | "P@3" | "P@5" | "P@10":
            return PrecisionAt(int(name[2:]))
        case "pearson":
            return Pearson()
        case "spearman":
            return Spearman()
        case "squared_error":
            return SquaredError()
        case "METEOR":
            return _meteor(meteor or MeteorSources(), tokenize)
        case "BLEU" | "chrF" | "TER":
            return _overlap(name, tokenize)
        case _:
            known = {known.lower(): known for known in NAMES}.get(name.lower())
            hint = f"; did you mean {known}?" if known else ""
            raise UsageError(f"unknown metric {name!r}: must be one of {', '.join(NAMES)}{hint}")


def _overlap(name: str, tokenize: str) -> Metric:
    # Imported late: sacrebleu takes 0.1 s to import, which `regard --help` does not have.
    from regard.metrics.overlap import bleu, chrf, ter

    match name:
        case "BLEU":
            return bleu(tokenize=tokenize)
        case "chrF":
            return chrf()
        case _:
            return ter()


def _meteor(sources: MeteorSources, tokenize: str) -> Metric:
    from regard.metrics.meteor import Meteor
    from regard.metrics.paraphrases import Paraphrases
    from regard.metrics.wordnet import WordNet

    return Meteor(
        version=sources.version,
        tokenize=tokenize,
        wordnet=None if sources.wordnet is None else WordNet(sources.wordnet),
        paraphrases=None if sources.paraphrases is None else Paraphrases.read(sources.paraphrases),
    )
