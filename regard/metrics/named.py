"""From the name of a metric, as recipes spell it, to the metric."""

from regard.errors import UsageError
from regard.metrics.matching import EditDistance, ExactMatch, TokenAccuracy
from regard.metrics.metric import Metric
from regard.metrics.numbers import Pearson, SquaredError

NAMES = ("BLEU", "chrF", "TER", "exact", "accuracy", "edit_distance", "pearson", "squared_error")


def metric(name: str, *, tokenize: str = "13a") -> Metric:
    """The metric of this name. `tokenize` is how BLEU cuts words; the others have their own definition of a piece."""
    match name:
        case "exact":
            return ExactMatch()
        case "accuracy":
            return TokenAccuracy()
        case "edit_distance":
            return EditDistance()
        case "pearson":
            return Pearson()
        case "squared_error":
            return SquaredError()
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
