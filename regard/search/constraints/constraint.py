"""What outputs must be like: plain data, which becomes automata when a source is known."""

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import asdict, dataclass
from functools import reduce
from typing import Any, Literal
from weakref import WeakKeyDictionary

from regard.errors import UsageError
from regard.search.constraints.automaton import Automaton
from regard.search.constraints.lifted import Lifted, lift_all
from regard.search.constraints.literals import bracketing, one_of, tagging
from regard.search.constraints.pattern import beginning, matching
from regard.search.constraints.phrases import checked, contains, forbidding, forcing, number_table, numbers_in
from regard.search.constraints.surfaces import Surfaces, surfaces_of
from regard.search.constraints.table import Table, intersect
from regard.text import Tokenizer

NUMBERS = ("", "all", "only", "same")
KEPT = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """Demands on the text of an output; all that are made hold together.

    `begin` is what it begins with; `forbid` and `force` are phrases that must not and must be in it, as whole words; of
    the `glossary`, pairs of source and target, a target is forced where its source is in the source. The output is one
    of the lines of `only`, matches the whole pattern `matching`, is a tree of brackets with the labels of `brackets`
    over the words of the source (each closed with its label if `closing`), or tags O, B-X and I-X with the labels of
    `bio`, one for each word. `numbers`: all of the source's, only those, or exactly the same.
    """

    begin: str = ""
    forbid: tuple[str, ...] = ()
    force: tuple[str, ...] = ()
    glossary: tuple[tuple[str, str], ...] = ()
    only: tuple[str, ...] | None = None
    matching: str | None = None
    brackets: tuple[str, ...] = ()
    closing: bool = False
    bio: tuple[str, ...] = ()
    numbers: Literal["", "all", "only", "same"] = ""

    def __post_init__(self) -> None:
        if self.numbers not in NUMBERS:
            raise UsageError(f"numbers can be all, only or same (those of the source), not {self.numbers!r}")
        if self.closing and not self.brackets:
            raise UsageError("closing is about brackets: name their labels as well")
        for source, target in self.glossary:
            if not source.strip(" ") or not target.strip(" "):
                raise UsageError(f"a pair of the glossary has an empty side: {source!r} and {target!r}")

    def __bool__(self) -> bool:
        return self != Constraint()

    @property
    def about_source(self) -> tuple[str, ...]:
        """The demands that depend on the words of a source."""
        return tuple(name for name in ("glossary", "brackets", "bio", "numbers") if getattr(self, name))

    def record(self) -> dict[str, Any]:
        """This as JSON has it: only what is demanded."""
        usual = asdict(Constraint())
        fields = {name: value for name, value in asdict(self).items() if value != usual[name]}
        return {name: _listed(value) for name, value in fields.items()}

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> "Constraint":
        """What `record` gave."""
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in record.items()
        }
        fields["glossary"] = tuple((source, target) for source, target in record.get("glossary", ()))
        return Constraint(**fields)

    def tables(self, *, backwards: bool = False) -> list[Table]:
        """The demands that are the same for every source, as tables."""
        found = [forbidding(tuple(self.forbid), backwards=backwards)] if self.forbid else []
        found += [beginning(self.begin, backwards=backwards)] if self.begin else []
        return found if self.matching is None else [*found, matching(self.matching, backwards=backwards)]

    def forced(self, source: str) -> tuple[str, ...]:
        """The phrases that the output for a source must have."""
        wanted = [target for given, target in self.glossary if contains(source, given.strip(" "))]
        return checked((*self.force, *wanted))


class Constrainer:
    """Makes the constraint of each request, for one vocabulary. What is the same for many sources is made once."""

    def __init__(self, constraint: Constraint, surfaces: Surfaces) -> None:
        self.constraint = constraint
        self.surfaces = surfaces
        self._same = _merged(constraint.tables(backwards=surfaces.backwards))
        self._only = None if constraint.only is None else one_of(constraint.only, backwards=surfaces.backwards)
        if constraint.brackets:  # what no source can mend is refused before the first
            bracketing(constraint.brackets, ("word",))
        if constraint.bio:
            tagging(constraint.bio, 1)
        if constraint.force:
            forcing(checked(constraint.force))
        self._made: OrderedDict[Hashable, Lifted] = OrderedDict()

    @classmethod
    def of(cls, constraint: Constraint, tokenizer: Tokenizer) -> "Constrainer":
        """For the outputs of a tokenizer; the last one is kept, so that calls in a row need not make it anew."""
        last = _last.get(tokenizer)
        if last is None or last.constraint != constraint:
            last = _last[tokenizer] = cls(constraint, surfaces_of(tokenizer))
        return last

    def lifted(self, source: str) -> Lifted | None:
        """The constraint on the output for a source; None where nothing is demanded of it."""
        one = self.constraint
        words = tuple(source.split()) if one.brackets or one.bio else ()
        numbers = numbers_in(source) if one.numbers else ()
        forced = one.forced(source)
        key = (forced, numbers, words if one.brackets else len(words))
        found = self._made.pop(key, None)
        if found is None:
            automata = self._automata(forced, numbers, words)
            if not automata:
                return None
            found = lift_all(automata, self.surfaces)
        self._made[key] = found
        if len(self._made) > KEPT:
            self._made.popitem(last=False)
        return found

    def _automata(self, forced: tuple[str, ...], numbers: tuple[str, ...], words: tuple[str, ...]) -> list[Automaton]:
        one, backwards = self.constraint, self.surfaces.backwards
        tables = [*self._same]
        if forced:
            tables.append(forcing(forced, backwards=backwards))
        if one.numbers:
            tables.append(number_table(numbers, one.numbers, backwards=backwards))
        found: list[Automaton] = [*_merged(tables)]
        if self._only is not None:
            found.append(self._only)
        if one.brackets:
            found.append(bracketing(one.brackets, words, closing=one.closing, backwards=backwards))
        if one.bio:
            found.append(tagging(one.bio, len(words), backwards=backwards))
        return found


def _listed(value: object) -> object:
    return [_listed(one) for one in value] if isinstance(value, tuple) else value


_last: WeakKeyDictionary[Tokenizer, Constrainer] = WeakKeyDictionary()


def _merged(tables: list[Table]) -> list[Table]:
    """As few tables as possible: two become one where this is not too large."""

    def merge(done: list[Table], new: Table) -> list[Table]:
        for place, old in enumerate(done):
            if (both := intersect(old, new)) is not None:
                return [*done[:place], both, *done[place + 1 :]]
        return [*done, new]

    return reduce(merge, tables, [])
