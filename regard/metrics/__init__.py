"""How good outputs are: values with intervals and signatures."""

from regard.metrics.alignment import AlignmentErrorRate, Link, alignment_error, format_pharaoh, parse_pharaoh
from regard.metrics.brackets import BracketF1, BracketRules
from regard.metrics.matching import EditDistance, ExactMatch, TokenAccuracy, levenshtein
from regard.metrics.metric import Metric, evaluate
from regard.metrics.named import NAMES, MeteorSources, metric
from regard.metrics.perplexity import bits_per_character, perplexity
from regard.metrics.randomisation import randomised_p_value
from regard.metrics.ranking import PrecisionAt, ReciprocalRank, join_candidates
from regard.metrics.resampling import summarise
from regard.metrics.score import Score
from regard.metrics.slots import SlotError
from regard.metrics.spans import SpanF1, read_spans

__all__ = [
    "NAMES",
    "AlignmentErrorRate",
    "BracketF1",
    "BracketRules",
    "EditDistance",
    "ExactMatch",
    "Link",
    "MeteorSources",
    "Metric",
    "PrecisionAt",
    "ReciprocalRank",
    "Score",
    "SlotError",
    "SpanF1",
    "TokenAccuracy",
    "alignment_error",
    "bits_per_character",
    "evaluate",
    "format_pharaoh",
    "join_candidates",
    "levenshtein",
    "metric",
    "parse_pharaoh",
    "perplexity",
    "randomised_p_value",
    "read_spans",
    "summarise",
]
