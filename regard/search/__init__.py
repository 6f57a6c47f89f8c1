"""How is the best y found? Search sees only a `Scorer`: `start` and `step`."""

from regard.search.constraints import Constrainer, Constraint, Lifted
from regard.search.hypothesis import Finished, Hypothesis, Parts
from regard.search.options import Sampling, SearchOptions
from regard.search.request import Request
from regard.search.risk import Decision, MinimumRisk, minimum_risk, probabilities, utilities, utility
from regard.search.search import Search
from regard.search.trace import Node, Trace

__all__ = [
    "Constrainer",
    "Constraint",
    "Decision",
    "Finished",
    "Hypothesis",
    "Lifted",
    "MinimumRisk",
    "Node",
    "Parts",
    "Request",
    "Sampling",
    "Search",
    "SearchOptions",
    "Trace",
    "minimum_risk",
    "probabilities",
    "utilities",
    "utility",
]
