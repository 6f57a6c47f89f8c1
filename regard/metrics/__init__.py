"""How good outputs are: values with intervals and signatures."""

from regard.metrics.alignment import Link, alignment_error, format_pharaoh, parse_pharaoh
from regard.metrics.matching import EditDistance, ExactMatch, TokenAccuracy, levenshtein
from regard.metrics.metric import Metric, evaluate
from regard.metrics.named import NAMES, metric
from regard.metrics.perplexity import perplexity
from regard.metrics.resampling import summarise
from regard.metrics.score import Score

__all__ = [
    "NAMES",
    "EditDistance",
    "ExactMatch",
    "Link",
    "Metric",
    "Score",
    "TokenAccuracy",
    "alignment_error",
    "evaluate",
    "format_pharaoh",
    "levenshtein",
    "metric",
    "parse_pharaoh",
    "perplexity",
    "summarise",
]
