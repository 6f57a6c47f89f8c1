"""From texts to texts: a loop over the search that keeps order, blanks and bounded memory."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from regard.data.batch import Sources
from regard.data.collation import Collation, TextCollation
from regard.data.example import Misfit
from regard.data.store import Row
from regard.errors import UsageError
from regard.models import Scorer
from regard.report import AlignmentPicture
from regard.run.searching import SearchEngine, Searching
from regard.search import (
    Constrainer,
    Constraint,
    Decision,
    Finished,
    Hypothesis,
    Request,
    Search,
    SearchOptions,
    Trace,
)
from regard.special import NAMES, UNKNOWN
from regard.text import BackwardTokenizer, Tokenizer
from regard.text.beginning import LONGEST_TEXT, encode_beginning

AHEAD = 16
"""So many batches of texts are read ahead and sorted by length, so that alike lengths are searched together."""

MOST_CHARACTERS = 2**24
"""Texts are read ahead no further than so many characters, however many lines that are."""


def windows(texts: Iterable[str], ahead: int) -> Iterator[list[str]]:
    """Texts in order, `ahead` at a time; fewer where they are very long."""
    window: list[str] = []
    characters = 0
    for text in texts:
        window.append(text)
        characters += len(text)
        if len(window) == ahead or characters >= MOST_CHARACTERS:
            yield window
            window, characters = [], 0
    if window:
        yield window


@dataclass(frozen=True, slots=True)
class Output:
    """One hypothesis as text. `log_probability` is the model's own; `score` is what outputs are ranked by.

    `pieces` stand in the order in which they were written; `parts` are those of the score, where it has several. A
    score of -∞ is that of an output that stands last because it could not be judged.
    """

    text: str
    pieces: tuple[str, ...]
    log_probability: float
    score: float
    complete: bool
    parts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Prediction:
    """What was made of one text. A blank text has no outputs.

    `cut_source` counts tokens of the source beyond the limit, which were not read (of the longest texts, a part of
    them); `fault` says what was wrong with the source where it could not be read at all; `unseen` are attributes that
    training did not have, and that are left out; `remark` says what else was not done as asked, say why no output
    satisfies a constraint; `trace` is the tree that was searched, and `decision` the
    utilities that the outputs were chosen by, where they were asked for.
    """

    source: str
    outputs: tuple[Output, ...]
    cut_source: int = 0
    fault: str = ""
    unseen: tuple[str, ...] = ()
    remark: str = ""
    alignment: AlignmentPicture | None = None
    trace: Trace | None = None
    decision: Decision | None = None

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
    readable: bool = True
    cut: int = 0
    fault: str = ""
    unseen: tuple[str, ...] = ()
    remark: str = ""
    prefix: tuple[int, ...] = ()  # how the output begins, where there is nothing but that to read


def read_source(collation: Collation, line: str, limit: int) -> SourceLine:
    """A line as rows of ids. A blank one has none; one with wrong columns has a fault."""
    if not line.strip():
        return SourceLine(rows={}, items=0, readable=False)
    try:
        columns = collation.source.columns(line)
        if not collation.source.tabs and "\t" in columns[0]:
            raise collation.source.wrong_columns(len(columns), line.count("\t") + 1)
        rows = collation.source.encode(line)
    except Misfit as misfit:
        return unreadable(str(misfit))
    if not all(len(row) for row in rows.values()):
        return unreadable("its text is empty")
    longest = max((len(row) for name, row in rows.items() if name in collation.bounded), default=0)
    kept = {name: row[:limit] if name in collation.bounded else row for name, row in rows.items()}
    return SourceLine(
        rows=kept,
        items=max(len(kept[name]) for name in collation.source.counted),
        cut=max(0, longest - limit),
        unseen=tuple(collation.source.unseen(line)),
    )


def answered(text: str, line: SourceLine, outputs: tuple[Output, ...]) -> Prediction:
    """What was made of a line, and what was wrong with it."""
    return Prediction(
        source=text,
        outputs=outputs,
        cut_source=line.cut,
        fault=line.fault,
        unseen=line.unseen,
        remark=line.remark,
    )


def unreadable(fault: str) -> SourceLine:
    """A line that is answered with a blank."""
    return SourceLine(rows={}, items=0, readable=False, fault=fault)


def read_beginning(target: Tokenizer, line: str, limit: int) -> SourceLine:
    """What a language model goes on from; a blank line is the beginning of all. Unknown words are read as such."""
    encoding = encode_beginning(target, line)
    if len(encoding) > limit:
        count = f"more than {LONGEST_TEXT:,}" if len(encoding) > LONGEST_TEXT else len(encoding)
        return unreadable(f"a beginning of {count} tokens is longer than data.max_length ({limit})")
    unknown = [line[slice(*span)] for id_, span in zip(encoding.ids, encoding.spans, strict=True) if id_ == UNKNOWN]
    words, one = ", ".join([*map(repr, unknown[:3]), *(("…",) if len(unknown) > 3 else ())]), len(unknown) == 1
    remark = (
        f"{words} {'is' if one else 'are'} not in the vocabulary and {'was' if one else 'were'} read as "
        f"{NAMES[UNKNOWN]}"
    )
    return SourceLine(rows={}, items=len(encoding), prefix=encoding.ids, remark=remark if unknown else "")


def by_length(lines: Sequence[SourceLine]) -> list[int]:
    """Which lines can be read, the shortest first."""
    return sorted((index for index, line in enumerate(lines) if line.readable), key=lambda index: lines[index].items)


def source_batch(collation: Collation, lines: Sequence[SourceLine]) -> Sources:
    """Several readable sources as one."""
    rows = {name: [line.rows[name] for line in lines] for name in collation.source.streams}
    return collation.source.sources(rows, len(lines))


class Predictor:
    """Searches texts with one set of options. A text's number is its request's id, by which samples are drawn."""

    def __init__(
        self,
        scorer: Scorer,
        collation: TextCollation,
        *,
        options: SearchOptions,
        capacity: int,
        max_source: int,
        prefix: str = "",
        constraint: Constraint | None = None,
        ahead: int | None = None,
        engine: SearchEngine | None = None,
    ) -> None:
        """`ahead` texts are read before the first is answered; some batches of them if it is left out.

        The `engine` searches in the place of the scorer, where there is one.
        """
        if prefix and not collation.source.streams:
            raise UsageError(
                f"a language model goes on with each line it is given: write {prefix!r} there, and no prefix"
            )
        if prefix and isinstance(collation.target, BackwardTokenizer):  # it is what such a model writes last
            prefix, constraint = "", replace(constraint or Constraint(), begin=prefix)
        self.prefix = forced_tokens(prefix, collation.target)
        self.constraint = constraint
        self.constrainer = Constrainer.of(constraint, collation.target) if constraint else None
        if constraint is not None and constraint.about_source and collation.source.text is None:
            raise UsageError(
                f"{', '.join(constraint.about_source)}: what is demanded depends on words of the source, and this "
                "model reads no text; leave it out"
            )
        self.ahead = AHEAD * capacity if ahead is None else ahead
        self.engine = engine
        self.scorer = scorer
        self.collation = collation
        self.options = options
        self.capacity = capacity
        self.max_source = max_source

    def run(self, texts: Iterable[str], first: int = 0) -> Iterator[Prediction]:
        """One prediction for each text, in order; the texts are numbered from `first`."""
        number = first
        for window in windows(texts, self.ahead):
            yield from self._window(window, number)
            number += len(window)

    def _window(self, texts: Sequence[str], first: int) -> Iterator[Prediction]:
        lines = [self._read(text) for text in texts]
        search = self._search()
        found: dict[int, Finished] = {}
        for index in by_length(lines):
            try:
                search.add([self._request(first + index, lines[index], texts[index])])
            except UsageError as error:
                found[first + index] = Finished(id=first + index, hypotheses=(), reason=str(error))
        while search.busy:
            found.update((finished.id, finished) for finished in search.step())
        for number, (text, line) in enumerate(zip(texts, lines, strict=True), start=first):
            begun = text if UNKNOWN in line.prefix else ""
            if number not in found:
                yield answered(text, line, ())
                continue
            done = found[number]
            told = answered(text, line, tuple(self._output(one, begun) for one in done.hypotheses))
            yield replace(told, remark="; ".join(filter(None, (told.remark, done.reason))), trace=done.trace)

    def _search(self) -> Searching:
        if self.engine is None:
            return Search(self.scorer, capacity=self.capacity)
        return self.engine.searching(
            self.options, prefix=self.prefix, constraint=self.constraint, capacity=self.capacity
        )

    def _read(self, text: str) -> SourceLine:
        if self.collation.source.streams:
            return read_source(self.collation, text, self.max_source)
        return read_beginning(self.collation.target, text, self.max_source)

    def _request(self, number: int, line: SourceLine, text: str) -> Request:
        constraint = None
        if self.constrainer is not None:
            source = self.collation.source
            constraint = self.constrainer.lifted("" if source.text is None else source.columns(text)[0])
        return Request(
            id=number,
            sources=source_batch(self.collation, [line]),
            items=line.items,
            options=self.options,
            prefix=self.prefix or line.prefix,
            constraint=constraint,
        )

    def _output(self, hypothesis: Hypothesis, begun: str) -> Output:
        """`begun` is the beginning as it was typed, where there are unknown words in it."""
        target = self.collation.target
        return Output(
            text=one_line(_go_on(target, begun, hypothesis.tokens) if begun else target.decode(hypothesis.tokens)),
            pieces=tuple(target.piece(id_) for id_ in hypothesis.tokens),
            log_probability=hypothesis.log_probability,
            score=hypothesis.score,
            complete=hypothesis.complete,
            parts=hypothesis.parts.told(),
        )


def _go_on(target: Tokenizer, begun: str, tokens: Sequence[int]) -> str:
    """A text as it was typed, and what a model writes behind it."""
    read = target.decode(target.encode(begun).ids)
    return (begun if read.endswith(" ") else begun.rstrip(" ")) + target.decode(tokens)[len(read) :]


def forced_tokens(prefix: str, target: Tokenizer) -> tuple[int, ...]:
    """A text as the beginning of an output.

    Where the text stops inside a word, its last tokens are not those of the whole word: what comes out begins with the
    text, but along a path the model has hardly learned.
    """
    encoding = encode_beginning(target, prefix)
    for id_, (start, end) in zip(encoding.ids, encoding.spans, strict=True):
        if id_ == UNKNOWN:
            raise UsageError(
                f"outputs cannot begin with {prefix!r}: {prefix[start:end]!r} is not in the vocabulary of the model's "
                "outputs; leave it out of the prefix"
            )
    return encoding.ids


def one_line(text: str) -> str:
    """An output never breaks the rule of one line in, one line out, whatever bytes a model writes."""
    return text.replace("\n", " ")
