"""What may search in the place of torch: the contract of engines behind a `Model`."""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Protocol

from regard.data.batch import Batch
from regard.insight import Reading
from regard.insight.alignment import Weights
from regard.search import Constraint, Finished, Request, SearchOptions


class Searching(Protocol):
    """What `regard.search.Search` is for those who ask: requests go in, finished ones come out."""

    @property
    def busy(self) -> bool: ...

    def add(self, requests: Iterable[Request]) -> None: ...

    def step(self) -> list[Finished]: ...


class Waiting:
    """The requests of an engine that answers in one step all that were added."""

    def __init__(self) -> None:
        self._queue: deque[Request] = deque()

    @property
    def busy(self) -> bool:
        return bool(self._queue)

    def add(self, requests: Iterable[Request]) -> None:
        self._queue.extend(requests)

    def taken(self) -> list[Request]:
        """Everything that waits, which no longer does."""
        found = list(self._queue)
        self._queue.clear()
        return found


class SearchEngine(Protocol):
    """A model in the hands of another program than torch."""

    @property
    def identity(self) -> Mapping[str, str]:
        """What predictions follow from beside the files of the run, by name."""
        ...

    @property
    def quantised(self) -> bool:
        """Whether its weights are rounded to 8 bits."""
        ...

    def searching(
        self, options: SearchOptions, *, prefix: tuple[int, ...], constraint: Constraint | None, capacity: int
    ) -> Searching:
        """What searches so; UsageError where it cannot, by the definitions of `regard.search`."""
        ...

    def attention(self, batch: Batch, reading: Reading) -> list[Weights] | None:
        """What `regard.insight.read` gives for each row; None: it is left to torch."""
        ...
