"""How is the best y found? Search sees only a `Scorer`: `start` and `step`."""

from regard.search.beam import Request, Search
from regard.search.hypothesis import Finished, Hypothesis
from regard.search.options import SearchOptions

__all__ = ["Finished", "Hypothesis", "Request", "Search", "SearchOptions"]
