"""One line of input for several models that read it each in its own way: other tokens, other vocabularies.

The sources of all of them travel as one mapping: `1/source` is the source of the first, `2/source` that of the second.
So batches, requests and search need know nothing of it, and a member may itself be several.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.data.batch import Sources
from regard.data.collation import NO_TEXTS, Rows, SourceTexts, TextCollation
from regard.data.example import Misfit
from regard.data.store import Row


def pack_sources(members: Sequence[Sources]) -> Sources:
    """The sources of several models under one roof."""
    return {f"{number}/{name}": one for number, own in enumerate(members, start=1) for name, one in own.items()}


def own_sources(sources: Sources, number: int) -> Sources:
    """What `pack_sources` packed for the member of this number, which counts from 1."""
    prefix = f"{number}/"
    return {name.removeprefix(prefix): one for name, one in sources.items() if name.startswith(prefix)}


@dataclass(frozen=True, slots=True)
class JointSource(SourceTexts):
    """Reads a line for several models. Its own columns, and the text that people see, are those of the first."""

    members: tuple[SourceTexts, ...] = ()

    @classmethod
    def of(cls, members: Sequence[SourceTexts]) -> "JointSource":
        first = members[0]
        return cls(
            text=first.text,
            factors=first.factors,
            attributes=first.attributes,
            pictures=first.pictures,
            tabs=all(one.tabs for one in members),
            members=tuple(members),
        )

    @property
    def streams(self) -> tuple[str, ...]:
        return tuple(f"{number}/{name}" for number, one in enumerate(self.members, start=1) for name in one.streams)

    def wrong_columns(self, wanted: int, found: int) -> Misfit:
        return self.members[0].wrong_columns(wanted, found)

    def encode(self, line: str) -> dict[str, Row]:
        encoded = enumerate((one.encode(line) for one in self.members), start=1)
        return {f"{number}/{name}": row for number, rows in encoded for name, row in rows.items()}

    def unseen(self, line: str) -> list[str]:
        return list(dict.fromkeys(value for one in self.members for value in one.unseen(line)))

    def sources(self, rows: Rows, count: int) -> Sources:
        return pack_sources(
            [
                one.sources({name: rows[f"{number}/{name}"] for name in one.streams}, count)
                for number, one in enumerate(self.members, start=1)
            ]
        )


class JointCollation(TextCollation):
    """Pairs for several models that write with one vocabulary."""

    @property
    def bounded(self) -> tuple[str, ...]:
        return tuple(name for name in self.streams if name.rpartition("/")[2] not in NO_TEXTS)
