"""A list of entries with ids, and how it is chosen from counts."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from regard.special import FIRST_FREE, UNKNOWN

Entry = TypeVar("Entry", bound="str | tuple[Any, ...]")


def most_frequent(counts: Mapping[Entry, int], *, size: int, minimum_count: int) -> list[Entry]:
    """The entries of a vocabulary of at most `size` ids, the reserved ones included.

    Ordered by count, the highest first, and by code points where counts are equal: the order of the texts has no say.
    """
    frequent = [(-count, entry) for entry, count in counts.items() if count >= minimum_count]
    return [entry for _, entry in sorted(frequent)[: max(0, size - FIRST_FREE)]]


class Vocabulary:
    """Entries whose ids are their places in the list, after the reserved ids."""

    def __init__(self, entries: Sequence[str]) -> None:
        self.entries = tuple(entries)
        self._ids = {entry: FIRST_FREE + place for place, entry in enumerate(self.entries)}
        assert len(self._ids) == len(self.entries), "entries of a vocabulary are distinct"

    def __contains__(self, entry: str) -> bool:
        return entry in self._ids

    @property
    def size(self) -> int:
        """How many ids there are, the reserved ones included."""
        return FIRST_FREE + len(self.entries)

    def id(self, entry: str) -> int:
        """The id of an entry, UNKNOWN for any other text."""
        return self._ids.get(entry, UNKNOWN)
