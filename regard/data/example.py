"""One line of a corpus, and where it stands."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a file, counted from 1."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Example:
    """Named raw texts of one line, for example `source` and `target`."""

    fields: Mapping[str, str]
    place: Place

    @property
    def source(self) -> str:
        return self.fields["source"]

    @property
    def target(self) -> str:
        return self.fields["target"]


class Misfit(ValueError):
    """Parts of an example that do not belong together; the text says which."""


class NothingToLearn(Misfit):
    """An example that is right and yet of no use: it is left out and counted, never refused."""
