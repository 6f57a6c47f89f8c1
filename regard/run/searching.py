"""What may search in the place of torch: the contract of engines behind a `Model`."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from regard.search import Constraint, Finished, Request, SearchOptions


class Searching(Protocol):
    """What `regard.search.Search` is for those who ask: requests go in, finished ones come out."""

    @property
    def busy(self) -> bool: ...

    def add(self, requests: Iterable[Request]) -> None: ...

    def step(self) -> list[Finished]: ...


class SearchEngine(Protocol):
    """A model in the hands of another program than torch."""

    @property
    def identity(self) -> Mapping[str, str]:
        """What predictions follow from beside the files of the run, by name."""
        ...

    def searching(
        self, options: SearchOptions, *, prefix: tuple[int, ...], constraint: Constraint | None, capacity: int
    ) -> Searching:
        """What searches so; UsageError where it cannot, by the definitions of `regard.search`."""
        ...
