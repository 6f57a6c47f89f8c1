"""How is the best y found? Search sees only a `Scorer`: `start` and `step`."""

from regard.search.hypothesis import Finished, Hypothesis
from regard.search.options import Sampling, SearchOptions
from regard.search.request import Request
from regard.search.search import Search

__all__ = ["Finished", "Hypothesis", "Request", "Sampling", "Search", "SearchOptions"]
