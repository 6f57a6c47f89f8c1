"""How probable given targets are: pairs in order, alike lengths together, in bounded memory."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import torch

from regard.data.collation import Collation, TextCollation
from regard.data.corpus import NO_EPOCH
from regard.data.example import Misfit
from regard.data.store import Row
from regard.models import Ensemble, MaskedLanguageModel, Rater, System
from regard.run.prediction import AHEAD
from regard.text import Tokenizer
from regard.text.beginning import LONGEST_TEXT


@dataclass(frozen=True, slots=True)
class PairScore:
    """The log-probability of a given target, token by token; the end is the last.

    A pair that does not fit the model has no tokens; `fault` says what is wrong with it.
    """

    source: str
    target: str
    pieces: tuple[str, ...]
    log_probabilities: tuple[float, ...]
    fault: str = ""

    @property
    def log_probability(self) -> float:
        return sum(self.log_probabilities)


def read_pair(collation: Collation, source: str, target: str) -> Mapping[str, Row]:
    """The rows of a pair; a Misfit says why there are none. Texts that are written may be empty, answers may not."""
    rows = collation.encode(source, target)
    if not isinstance(collation, TextCollation) and not all(len(row) for row in rows.values()):
        raise Misfit("a side of it is empty")
    return rows


class PairScorer:
    """Scores pairs with one model."""

    def __init__(
        self, system: System | Ensemble, collation: Collation, target: Tokenizer, *, batch: int, longest: int
    ) -> None:
        """Sides of more than `longest` tokens are not read."""
        assert not isinstance(system, MaskedLanguageModel)
        self.system = system
        self.collation = collation
        self.target = target
        self.batch = batch
        self.longest = longest
        # Pictures are many times larger than texts.
        self.ahead = batch if collation.source.pictures else AHEAD * batch

    def run(self, pairs: Iterable[tuple[str, str]]) -> Iterator[PairScore]:
        """One score for each pair, in order."""
        rest = iter(pairs)
        while window := list(islice(rest, self.ahead)):
            yield from self._window(window)

    def _window(self, pairs: Sequence[tuple[str, str]]) -> Iterator[PairScore]:
        faults: dict[int, str] = {}
        rows: dict[int, Mapping[str, Row]] = {}
        for index, pair in enumerate(pairs):
            try:
                rows[index] = self._read(*pair)
            except Misfit as misfit:
                faults[index] = str(misfit)
        order = sorted(rows, key=lambda index: sorted(map(len, rows[index].values()), reverse=True))
        found: dict[int, PairScore] = {}
        for start in range(0, len(order), self.batch):
            chosen = order[start : start + self.batch]
            scored = self._score([pairs[index] for index in chosen], [rows[index] for index in chosen])
            found.update(zip(chosen, scored, strict=True))
        for index, (source, target) in enumerate(pairs):
            yield found[index] if index in found else PairScore(source, target, (), (), fault=faults[index])

    def _read(self, source: str, target: str) -> Mapping[str, Row]:
        rows = read_pair(self.collation, source, target)
        for name in self.collation.bounded:
            if len(rows[name]) > self.longest:
                count = "all those" if len(rows[name]) > LONGEST_TEXT else f"{len(rows[name]):,}"
                raise Misfit(f"{count} tokens ({name}) are more than data.max_length ({self.longest})")
        return rows

    @torch.no_grad()
    def _score(self, pairs: Sequence[tuple[str, str]], encoded: Sequence[Mapping[str, Row]]) -> list[PairScore]:
        rows = {name: [one[name] for one in encoded] for name in self.collation.streams}
        batch = self.collation.batch(rows, [(NO_EPOCH,)] * len(pairs))
        numbers = isinstance(self.system, Rater)
        scored = []
        for (source, target), scores, mask, ids in zip(
            pairs, self.system.token_log_probabilities(batch), batch.mask, batch.outputs, strict=True
        ):
            pieces = tuple(target if numbers else self.target.piece(id_) for id_ in ids[mask].tolist())
            scored.append(PairScore(source, target, pieces, tuple(scores[mask].tolist())))
        return scored
