"""From texts to texts: a loop over the search that keeps order, blanks and bounded memory."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from regard.data.batch import Sources
from regard.data.collation import Collation, TextCollation
from regard.data.example import Misfit
from regard.data.store import Row
from regard.models import Scorer
from regard.report import AlignmentPicture
from regard.search import Finished, Hypothesis, Request, Search, SearchOptions

AHEAD = 16
"""So many batches of texts are read ahead and sorted by length, so that alike lengths are searched together."""


@dataclass(frozen=True, slots=True)
class Output:
    """One hypothesis as text. `log_probability` is the model's own; `score` is what outputs are ranked by."""

    text: str
    pieces: tuple[str, ...]
    log_probability: float
    score: float
    complete: bool


@dataclass(frozen=True, slots=True)
class Prediction:
    """What was made of one text. A blank text has no outputs.

    `cut_source` counts tokens of the source beyond the limit, which were not read; `fault` says what was wrong with
    the source where it could not be read at all.
    """

    source: str
    outputs: tuple[Output, ...]
    cut_source: int = 0
    fault: str = ""
    alignment: AlignmentPicture | None = None

    @property
    def text(self) -> str:
        return self.outputs[0].text if self.outputs else ""

    @property
    def log_probability(self) -> float:
        return self.outputs[0].log_probability if self.outputs else 0.0

    @property
    def score(self) -> float:
        return self.outputs[0].score if self.outputs else 0.0

    @property
    def cut_output(self) -> bool:
        """Whether the limit of length came before the end."""
        return bool(self.outputs) and not self.outputs[0].complete

    def with_alignment(self, alignment: AlignmentPicture) -> "Prediction":
        return replace(self, alignment=alignment)


@dataclass(frozen=True, slots=True)
class SourceLine:
    """The rows of a source, no longer than a model may read."""

    rows: Mapping[str, Row]
    items: int
    cut: int = 0
    fault: str = ""

    @property
    def readable(self) -> bool:
        return bool(self.items) and not self.fault


def read_source(collation: Collation, line: str, limit: int) -> SourceLine:
    """A line as rows of ids. A blank one has none; one with wrong columns has a fault."""
    if not line.strip():
        return SourceLine(rows={}, items=0)
    try:
        rows = collation.source.encode(line)
    except Misfit as misfit:
        return SourceLine(rows={}, items=0, fault=str(misfit))
    longest = max(len(row) for row in rows.values())
    kept = {name: row[:limit] for name, row in rows.items()}
    return SourceLine(rows=kept, items=min(longest, limit), cut=max(0, longest - limit))


def source_batch(collation: Collation, lines: Sequence[SourceLine]) -> Sources:
    """Several readable sources as one."""
    rows = {name: [line.rows[name] for line in lines] for name in collation.source.streams}
    return collation.source.sources(rows, len(lines))


class Predictor:
    """Searches texts with one set of options."""

    def __init__(
        self,
        scorer: Scorer,
        collation: TextCollation,
        *,
        options: SearchOptions,
        capacity: int,
        max_source: int,
        ahead: int | None = None,
    ) -> None:
        """`ahead` texts are read before the first is answered; some batches of them if it is left out."""
        self.ahead = AHEAD * capacity if ahead is None else ahead
        self.scorer = scorer
        self.collation = collation
        self.options = options
        self.capacity = capacity
        self.max_source = max_source

    def run(self, texts: Iterable[str]) -> Iterator[Prediction]:
        """One prediction for each text, in order."""
        rest = iter(texts)
        while window := list(islice(rest, self.ahead)):
            yield from self._window(window)

    def _window(self, texts: Sequence[str]) -> Iterator[Prediction]:
        lines = [read_source(self.collation, text, self.max_source) for text in texts]
        order = sorted(
            (index for index, line in enumerate(lines) if line.readable), key=lambda index: lines[index].items
        )
        search = Search(self.scorer, capacity=self.capacity)
        search.add(self._request(index, lines[index]) for index in order)
        found: dict[int, Finished] = {}
        while search.busy:
            found.update((finished.id, finished) for finished in search.step())
        for index, (text, line) in enumerate(zip(texts, lines, strict=True)):
            outputs = tuple(self._output(one) for one in found[index].hypotheses) if index in found else ()
            yield Prediction(source=text, outputs=outputs, cut_source=line.cut, fault=line.fault)

    def _request(self, index: int, line: SourceLine) -> Request:
        sources = source_batch(self.collation, [line])
        return Request(id=index, sources=sources, items=line.items, options=self.options)

    def _output(self, hypothesis: Hypothesis) -> Output:
        target = self.collation.target
        return Output(
            text=_one_line(target.decode(hypothesis.tokens)),
            pieces=tuple(target.piece(id_) for id_ in hypothesis.tokens),
            log_probability=hypothesis.log_probability,
            score=hypothesis.score,
            complete=hypothesis.complete,
        )


def _one_line(text: str) -> str:
    """An output never breaks the rule of one line in, one line out, whatever bytes a model writes."""
    return text.replace("\n", " ")
