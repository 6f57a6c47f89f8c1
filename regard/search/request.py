"""What search is asked for: one sentence."""

from dataclasses import dataclass

from regard.data.batch import Sources
from regard.errors import UsageError
from regard.search.constraints import Lifted
from regard.search.options import SearchOptions
from regard.special import END, NAMES, PAD, START


@dataclass(frozen=True, slots=True)
class Request:
    """One sentence to be searched. `items` is the length of its source, which limits the output.

    Every output begins with the tokens of `prefix`; their log-probabilities count like all others, and they come on
    top of the limit of length, but not of what the scorer can read (`Scorer.longest`), where every output is cut off.
    UNKNOWN may be forced, even where it may not be found. Every output satisfies the `constraint`, if there is one.
    """

    id: int
    sources: Sources
    items: int
    options: SearchOptions
    prefix: tuple[int, ...] = ()
    constraint: Lifted | None = None

    def __post_init__(self) -> None:
        for token in self.prefix:
            if token in (PAD, START, END):
                raise UsageError(f"a prefix is made of words, and {NAMES[token]} (id {token}) is none; leave it out")

    @property
    def limit(self) -> int:
        """The most tokens an output may have, the end included."""
        return len(self.prefix) + self.options.limit(self.items)
