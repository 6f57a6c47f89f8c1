"""Answers of models that write no sequence: labels, numbers, tags, and hidden words."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import torch
from torch import Tensor

from regard.data.collation import Collation, SourceTexts, TagCollation, factor_row, read_text
from regard.data.example import Misfit
from regard.errors import UsageError
from regard.models import Acceptor, Labelling, MaskedLanguageModel, Rater
from regard.run.prediction import (
    AHEAD,
    Output,
    Prediction,
    SourceLine,
    by_length,
    read_source,
    source_batch,
    unreadable,
)
from regard.special import FIRST_FREE, MASK
from regard.text import Tokenizer, word_spans

HIDDEN = "<mask>"
"""How a hidden word is written in a text that is to be filled in."""


class Labeller:
    """Answers sources, alike lengths together, in order."""

    def __init__(
        self,
        system: Labelling,
        collation: Collation,
        target: Tokenizer,
        *,
        best: int,
        capacity: int,
        max_source: int,
        ahead: int | None = None,
    ) -> None:
        """`best` answers of an acceptor are told; the others have one."""
        if best > 1 and (not isinstance(system, Acceptor) or isinstance(system, Rater)):
            raise UsageError(f"{best} best answers were asked for, and this model has one for each source")
        self.system = system
        self.collation = collation
        self.target = target
        self.best = best
        self.capacity = capacity
        self.max_source = max_source
        self.ahead = AHEAD * capacity if ahead is None else ahead

    def run(self, texts: Iterable[str]) -> Iterator[Prediction]:
        """One prediction for each text, in order."""
        rest = iter(texts)
        while window := list(islice(rest, self.ahead)):
            yield from self._window(window)

    @torch.no_grad()
    def _window(self, texts: Sequence[str]) -> Iterator[Prediction]:
        lines = [self._read(text) for text in texts]
        order = by_length(lines)
        found: dict[int, tuple[Output, ...]] = {}
        for start in range(0, len(order), self.capacity):
            chosen = order[start : start + self.capacity]
            answers = self._answers([texts[index] for index in chosen], [lines[index] for index in chosen])
            found.update(zip(chosen, answers, strict=True))
        for index, (text, line) in enumerate(zip(texts, lines, strict=True)):
            yield Prediction(source=text, outputs=found.get(index, ()), cut_source=line.cut, fault=line.fault)

    def _read(self, text: str) -> SourceLine:
        if not isinstance(self.system, MaskedLanguageModel):
            line = read_source(self.collation, text, self.max_source)
            if isinstance(self.collation, TagCollation) and line.readable:
                return _taggable(self.collation, text, line)
            return line
        return _with_hidden(self.collation.source, text, self.max_source)

    def _answers(self, texts: Sequence[str], lines: Sequence[SourceLine]) -> list[tuple[Output, ...]]:
        sources = source_batch(self.collation, lines)
        if isinstance(self.system, Rater):
            return [(_number(value),) for value in self.system.numbers(sources).flatten().tolist()]
        said = self.system.log_probabilities(sources)  # (B, M, V)
        said[..., :FIRST_FREE] = -torch.inf
        if isinstance(self.system, Acceptor):
            return [self._labels(row[0]) for row in said]
        if isinstance(self.collation, TagCollation):
            starts = [self.collation.starts(text) for text in texts]
            return [(self._tags(row, places),) for row, places in zip(said, starts, strict=True)]
        return [(self._filled(row, line),) for row, line in zip(said, lines, strict=True)]

    def _labels(self, said: Tensor) -> tuple[Output, ...]:
        values, ids = said.topk(min(self.best, len(said) - FIRST_FREE))
        return tuple(
            Output(text=label, pieces=(label,), log_probability=value, score=value, complete=True)
            for value, label in zip(values.tolist(), (self.target.decode([id_]) for id_ in ids.tolist()), strict=True)
        )

    def _tags(self, said: Tensor, places: Sequence[int]) -> Output:
        values, ids = said[list(places)].max(-1)
        return self._output(ids.tolist(), ids.tolist(), float(values.sum()))

    def _filled(self, said: Tensor, line: SourceLine) -> Output:
        """The text with its hidden items filled in, each for itself."""
        read = [int(id_) for id_ in line.rows["source"]]
        hidden = [place for place, id_ in enumerate(read) if id_ == MASK]
        values, ids = said[hidden].max(-1)
        for place, id_ in zip(hidden, ids.tolist(), strict=True):
            read[place] = id_
        return self._output(read, ids.tolist(), float(values.sum()))

    def _output(self, text: Sequence[int], said: Sequence[int], value: float) -> Output:
        pieces = tuple(self.target.piece(id_) for id_ in said)
        return Output(text=self.target.decode(text), pieces=pieces, log_probability=value, score=value, complete=True)


def _number(value: float) -> Output:
    text = f"{value:.6g}"
    return Output(text=text, pieces=(text,), log_probability=0.0, score=value, complete=True)


def _taggable(collation: TagCollation, text: str, line: SourceLine) -> SourceLine:
    """Every word of a source must have been read, for each gets a tag."""
    try:
        starts = collation.starts(text)
    except Misfit as misfit:
        return unreadable(str(misfit))
    if line.cut and starts[-1] >= line.items:
        words = len(word_spans(collation.source.columns(text)[0]))
        return unreadable(f"{words} words are more than the model may read (data.max_length)")
    return line


def _with_hidden(source: SourceTexts, line: str, limit: int) -> SourceLine:
    """A text in which `<mask>` stands for a hidden item; factors count it as a word, or as a part of one."""
    assert source.text is not None
    if not line.strip():
        return SourceLine(rows={}, items=0, readable=False)
    ids: list[int] = []
    spans: list[tuple[int, int]] = []
    place = 0
    try:
        text, *columns = source.columns(line)
        for number, part in enumerate(text.split(HIDDEN)):
            if number:
                ids.append(MASK)
                spans.append((place, place + len(HIDDEN)))
                place += len(HIDDEN)
            encoding = read_text(source.text, part)
            ids += encoding.ids
            spans += [(place + start, place + end) for start, end in encoding.spans]
            place += len(part)
        factors = [factor_row(text, spans, *one) for one in zip(source.factors, columns, strict=True)]
    except Misfit as misfit:
        return unreadable(str(misfit))
    rows = {"source": ids[:limit]} | {
        name: row[:limit] for name, row in zip(source.factor_streams, factors, strict=True)
    }
    return SourceLine(rows=rows, items=min(len(ids), limit), readable=bool(ids), cut=max(0, len(ids) - limit))
