"""Answers of models that write no sequence: labels, numbers, tags, and hidden words."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

import torch
from torch import Tensor

from regard.data.collation import Collation, SourceTexts, TagCollation, factor_row, hide, read_text
from regard.data.example import Misfit
from regard.errors import UsageError
from regard.models import Acceptor, Labelling, MaskedLanguageModel, Rater
from regard.models.labelling import HALF_LOG_2_PI
from regard.run.prediction import (
    AHEAD,
    Output,
    Prediction,
    SourceLine,
    answered,
    by_length,
    one_line,
    read_source,
    source_batch,
    unreadable,
    windows,
)
from regard.special import FIRST_FREE, MASK
from regard.text import Tokenizer

SINGLE = ("character", "byte")
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

    def run(self, texts: Iterable[str], _first: int = 0) -> Iterator[Prediction]:
        """One prediction for each text, in order, whatever its number."""
        for window in windows(texts, self.ahead):
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
            yield answered(text, line, found.get(index, ()))

    def _read(self, text: str) -> SourceLine:
        if not isinstance(self.system, MaskedLanguageModel):
            line = read_source(self.collation, text, self.max_source)
            if isinstance(self.collation, TagCollation) and line.readable:
                return _taggable(self.collation, text, line)
            return line
        return read_hidden(self.collation.source, text, self.max_source)

    def _answers(self, texts: Sequence[str], lines: Sequence[SourceLine]) -> list[tuple[Output, ...]]:
        sources = source_batch(self.collation, lines)
        if isinstance(self.system, Rater):
            return [(_number(value),) for value in self.system.numbers(sources).flatten().tolist()]
        said = self.system.log_probabilities(sources)  # (B, M, V)
        if isinstance(self.system, Acceptor):
            return [self._labels(row[0]) for row in said]
        if isinstance(self.collation, TagCollation):
            starts = [self.collation.starts(text) for text in texts]
            return [(self._tags(row, places),) for row, places in zip(said, starts, strict=True)]
        return [(self._filled(row, text, line),) for row, text, line in zip(said, texts, lines, strict=True)]

    def _labels(self, said: Tensor) -> tuple[Output, ...]:
        values, ids = said.topk(min(self.best, len(said) - FIRST_FREE))
        return tuple(
            self._output(self.target.decode([id_]), [id_], value)
            for id_, value in zip(ids.tolist(), values.tolist(), strict=True)
        )

    def _tags(self, said: Tensor, places: Sequence[int]) -> Output:
        values, ids = said[list(places)].max(-1)
        return self._output(self.target.decode(ids.tolist()), ids.tolist(), float(values.sum()))

    def _filled(self, said: Tensor, text: str, line: SourceLine) -> Output:
        """The text as it was given, with its hidden items filled in, each for itself; one that was not read stays."""
        hidden = [place for place, id_ in enumerate(line.rows["source"]) if id_ == MASK]
        values, ids = said[hidden].max(-1)
        first, *rest = hidden_mark(self.target).split(_apart(self.target, self.collation.source.columns(text)[0]))
        found = [self.target.surface(id_).decode(errors="replace") for id_ in ids.tolist()]
        filled = first
        for piece, part in zip_longest(found, rest):
            filled += (HIDDEN if piece is None else self._fitting(piece, filled)) + part
        return self._output(filled, ids.tolist(), float(values.sum()))

    def _fitting(self, piece: str, before: str) -> str:
        """A found item behind what stands before it; one that begins a word does so."""
        if self.target.unit in SINGLE:
            return piece
        begins = piece.startswith(" ") and before and not before[-1].isspace()
        return f" {piece.strip()}" if begins else piece.strip()

    def _output(self, text: str, said: Sequence[int], value: float) -> Output:
        pieces = tuple(self.target.piece(id_) for id_ in said)
        return Output(text=one_line(text), pieces=pieces, log_probability=value, score=value, complete=True)


def _number(value: float) -> Output:
    """As many digits as do not depend on the batch; the density at the middle of a normal distribution around it."""
    text = f"{value:.4g}"
    return Output(text=text, pieces=(text,), log_probability=-HALF_LOG_2_PI, score=value, complete=True)


def _taggable(collation: TagCollation, text: str, line: SourceLine) -> SourceLine:
    """Every word of a source must have been read, for each gets a tag."""
    try:
        starts = collation.starts(text)
    except Misfit as misfit:
        return unreadable(str(misfit))
    if line.cut and starts[-1] >= line.items:
        words = len(starts)
        return unreadable(f"{words} words are more than the model may read (data.max_length)")
    return line


def hidden_mark(tokenizer: Tokenizer) -> re.Pattern[str]:
    """How a hidden item is written: `<mask>`; models from elsewhere know `[MASK]` as well."""
    return re.compile(rf"{HIDDEN}|\[MASK\]" if tokenizer.unit == "imported" else HIDDEN)


def _apart(tokenizer: Tokenizer, text: str) -> str:
    """A text in which hidden items are words of their own, where items are words."""
    if tokenizer.unit != "word":
        return text
    return re.sub(rf"(?<=[^ ])(?={HIDDEN})|(?<={HIDDEN})(?=[^ ])", " ", text)


def read_hidden(source: SourceTexts, line: str, limit: int) -> SourceLine:
    """A text in which `<mask>` stands for a hidden item; factors count it as a word, or as a part of one."""
    assert source.text is not None
    if not line.strip():
        return SourceLine(rows={}, items=0, readable=False)
    try:
        text, *columns = source.columns(line)
        text = _apart(source.text, text)
        ids, spans = hidden_tokens(source.text, text)
        factors = [factor_row(text, spans, *one) for one in zip(source.factors, columns, strict=True)]
    except Misfit as misfit:
        return unreadable(str(misfit))
    rows = {"source": ids[:limit]} | {
        name: hide(row, ids)[:limit] for name, row in zip(source.factor_streams, factors, strict=True)
    }
    return SourceLine(
        rows=rows,
        items=min(len(ids), limit),
        readable=bool(ids),
        cut=max(0, len(ids) - limit),
        remark=_unfilled(len(hidden_mark(source.text).findall(text)), rows["source"].count(MASK)),
    )


def _unfilled(marks: int, read: int) -> str:
    if not marks:
        return f"there is no {HIDDEN} in it, so there was nothing to fill in"
    if read == marks:
        return ""
    return f"{marks - read} of {marks} {HIDDEN} {'was' if marks - read == 1 else 'were'} not read and so not filled in"


def hidden_tokens(tokenizer: Tokenizer, text: str) -> tuple[list[int], list[tuple[int, int]]]:
    """Tokens of a text, and MASK in the place of all tokens of a `<mask>`.

    The text is cut as a whole, so that what stands around is cut as it was in training. A blank that is a token of its
    own in front of a hidden item belongs to the item, except where items are single characters.
    """
    places = [match.span() for match in hidden_mark(tokenizer).finditer(text)]
    encoding = read_text(tokenizer, text)
    ids: list[int] = []
    spans: list[tuple[int, int]] = []
    for id_, (start, end) in zip(encoding.ids, encoding.spans, strict=True):
        inside = next((place for place in places if start < place[1] and end > place[0]), None)
        before = next((place for place in places if end == place[0]), None)
        if inside is None and before is not None and tokenizer.unit not in SINGLE and not text[start:end].strip():
            inside = before if end > start else None
        if inside is None:
            ids.append(id_)
            spans.append((start, end))
        elif not (spans and spans[-1] == inside and ids[-1] == MASK):
            ids.append(MASK)
            spans.append(inside)
    return ids, spans
