"""Which words of an output stand for which words of a reference, as METEOR chooses (Denkowski and Lavie 2011, 2).

Of all possible matches a subset is chosen in which each word is covered at most once, and that, in this order, covers
most words of both texts, has the fewest chunks, and the least sum of distances |start - start|. (Of those that are
equal even then, the one whose matches weigh most.) A chunk is a run of matches that stand side by side in both texts.

The search goes through the reference from left to right with a beam, as the original does. A match that has no rival is
taken at once, paths that can go on in the same ways are joined, and words that no later match asks for are forgotten,
so that for sentences of usual length the beam is hardly ever full and the result is exact.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

BEAM: Final = 40
"""Paths that are kept at each word; the original's number."""

COVERED: Final = 1 << 72
CHUNK: Final = 1 << 56
DISTANCE: Final = 1 << 28
WEIGHT: Final = 1000
"""Costs of a path are added up in one number, in which what comes first outweighs all that comes later."""

NOWHERE: Final = -1


@dataclass(frozen=True, slots=True)
class Match:
    """Words of the reference and of the output that may stand for each other; `module` says why."""

    reference: int
    hypothesis: int
    module: int = 0
    reference_length: int = 1
    hypothesis_length: int = 1

    @property
    def hypothesis_end(self) -> int:
        return self.hypothesis + self.hypothesis_length

    @property
    def bits(self) -> int:
        """The words of the output, as a set of bits."""
        return ((1 << self.hypothesis_length) - 1) << self.hypothesis


Chosen = tuple["Chosen", Match] | None
"""The matches of a path, the last one first."""

Path = tuple[int, Chosen]
"""The cost of a path, and its matches."""

State = tuple[int, int]
"""Words of the output that are taken and may yet be asked for, and where the last match ended."""


def align(
    matches: Sequence[Match], length: int, *, weights: Sequence[float] = (1.0,) * 4, beam: int = BEAM
) -> list[Match]:
    """The chosen matches in the order of the reference, which has `length` words."""
    fixed = _without_rivals(matches)
    starting: list[list[Match]] = [[] for _ in range(length)]
    for match in matches:
        starting[match.reference].append(match)
    wanted = _wanted_later(starting, fixed)
    waiting: list[dict[State, Path]] = [{} for _ in range(length + 1)]
    waiting[0][0, NOWHERE] = (0, None)
    for place in range(length):
        paths = waiting[place].items()
        if len(paths) > beam:
            paths = sorted(paths, key=lambda path: path[1][0])[:beam]  # type: ignore[assignment]
        waiting[place] = {}
        certain = fixed.get(place)
        for (taken, end), (cost, chosen) in paths:
            for match in (certain,) if certain else starting[place]:
                if certain is None and taken & match.bits:
                    continue
                after = place + match.reference_length
                state = ((taken if certain else taken | match.bits) & wanted[after], match.hypothesis_end)
                total = cost + _cost(match, weights) + (CHUNK if match.hypothesis != end else 0)
                _offer(waiting[after], state, (total, (chosen, match)))
            if certain is None:
                _offer(waiting[place + 1], (taken & wanted[place + 1], NOWHERE), (cost, chosen))
    return _listed(min(waiting[length].values(), key=lambda path: path[0])[1])


def count_chunks(chosen: Sequence[Match]) -> int:
    """Runs of matches, given in the order of the reference, that stand side by side in both texts."""
    chunks = 0
    before: Match | None = None
    for match in chosen:
        beside = before is not None and (
            match.reference == before.reference + before.reference_length and match.hypothesis == before.hypothesis_end
        )
        chunks += not beside
        before = match
    return chunks


def _cost(match: Match, weights: Sequence[float]) -> int:
    covered = match.reference_length + match.hypothesis_length
    weight = round(WEIGHT * weights[match.module] * covered)
    return -COVERED * covered + DISTANCE * abs(match.reference - match.hypothesis) - weight


def _offer(paths: dict[State, Path], state: State, path: Path) -> None:
    found = paths.get(state)
    if found is None or path[0] < found[0]:
        paths[state] = path


def _without_rivals(matches: Sequence[Match]) -> Mapping[int, Match]:
    """Matches whose words no other match asks for, by their place: they are part of every best alignment."""
    asked: tuple[dict[int, int], dict[int, int]] = ({}, {})
    for match in matches:
        for side, words in zip(asked, _words(match), strict=True):
            for word in words:
                side[word] = side.get(word, 0) + 1
    return {
        match.reference: match
        for match in matches
        if all(side[word] == 1 for side, words in zip(asked, _words(match), strict=True) for word in words)
    }


def _words(match: Match) -> tuple[range, range]:
    return (
        range(match.reference, match.reference + match.reference_length),
        range(match.hypothesis, match.hypothesis_end),
    )


def _wanted_later(starting: Sequence[Sequence[Match]], fixed: Mapping[int, Match]) -> list[int]:
    """For each place of the reference, the words of the output that matches from there on ask for."""
    wanted = [0] * (len(starting) + 1)
    for place in range(len(starting) - 1, -1, -1):
        wanted[place] = wanted[place + 1]
        if place not in fixed:
            for match in starting[place]:
                wanted[place] |= match.bits
    return wanted


def _listed(chosen: Chosen) -> list[Match]:
    found: list[Match] = []
    while chosen is not None:
        chosen, match = chosen
        found.append(match)
    return found[::-1]
