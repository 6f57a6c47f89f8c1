"""From texts to texts: a loop over the search that keeps order, blanks and bounded memory."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from regard.data.batch import source_ids
from regard.errors import UsageError
from regard.models import Scorer
from regard.recipe.build import Texts
from regard.report import AlignmentPicture
from regard.search import Finished, Hypothesis, Request, Search, SearchOptions
from regard.special import UNKNOWN
from regard.text import Tokenizer

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

    `cut_source` counts tokens of the source beyond the limit, which were not read.
    """

    source: str
    outputs: tuple[Output, ...]
    cut_source: int = 0
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


class Predictor:
    """Searches texts with one set of options. A text's number is its request's id, by which samples are drawn."""

    def __init__(
        self,
        scorer: Scorer,
        texts: Texts,
        *,
        options: SearchOptions,
        capacity: int,
        max_source: int,
        prefix: str = "",
        ahead: int | None = None,
    ) -> None:
        """`ahead` texts are read before the first is answered; some batches of them if it is left out."""
        self.prefix = forced_tokens(prefix, texts.target)
        self.ahead = AHEAD * capacity if ahead is None else ahead
        self.scorer = scorer
        self.texts = texts
        self.options = options
        self.capacity = capacity
        self.max_source = max_source

    def run(self, texts: Iterable[str]) -> Iterator[Prediction]:
        """One prediction for each text, in order."""
        rest = iter(texts)
        number = 0
        while window := list(islice(rest, self.ahead)):
            yield from self._window(window, number)
            number += len(window)

    def _window(self, texts: Sequence[str], first: int) -> Iterator[Prediction]:
        encoded = [self.texts.source.encode(text).ids if text.strip() else () for text in texts]
        order = sorted((index for index, ids in enumerate(encoded) if ids), key=lambda index: len(encoded[index]))
        search = Search(self.scorer, capacity=self.capacity)
        search.add(self._request(first + index, encoded[index]) for index in order)
        found: dict[int, Finished] = {}
        while search.busy:
            found.update((finished.id, finished) for finished in search.step())
        for index, text in enumerate(texts):
            done = found.get(first + index)
            outputs = tuple(self._output(one) for one in done.hypotheses) if done else ()
            cut = max(0, len(encoded[index]) - self.max_source)
            yield Prediction(source=text, outputs=outputs, cut_source=cut)

    def _request(self, number: int, ids: Sequence[int]) -> Request:
        kept = ids[: self.max_source]
        return Request(
            id=number,
            sources={"source": source_ids([kept])},
            items=len(kept),
            options=self.options,
            prefix=self.prefix,
        )

    def _output(self, hypothesis: Hypothesis) -> Output:
        target = self.texts.target
        return Output(
            text=_one_line(target.decode(hypothesis.tokens)),
            pieces=tuple(target.piece(id_) for id_ in hypothesis.tokens),
            log_probability=hypothesis.log_probability,
            score=hypothesis.score,
            complete=hypothesis.complete,
        )


def forced_tokens(prefix: str, target: Tokenizer) -> tuple[int, ...]:
    """A text as the beginning of an output.

    Where the text stops inside a word, its last tokens are not those of the whole word: what comes out begins with the
    text, but along a path the model has hardly learned.
    """
    encoding = target.encode(prefix)
    for id_, (start, end) in zip(encoding.ids, encoding.spans, strict=True):
        if id_ == UNKNOWN:
            raise UsageError(
                f"outputs cannot begin with {prefix!r}: {prefix[start:end]!r} is not in the vocabulary of the model's "
                "outputs; leave it out of the prefix"
            )
    return encoding.ids


def _one_line(text: str) -> str:
    """An output never breaks the rule of one line in, one line out, whatever bytes a model writes."""
    return text.replace("\n", " ")
