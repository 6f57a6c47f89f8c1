"""From an example to rows of ids, and from rows to a batch: all that shapes of model differ in about data.

A source is one line: a text, or the path of a picture. It may be followed by factors (a column with one item for each
word: Sennrich and Haddow 2016) and by attributes (a topic, a speaker), each behind a tab; there may also be attributes
only, or nothing at all.

Shapes: B rows, N source items, M target items, F factors or attributes.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.data.batch import Batch, Category, Ids, Image, Source, Sources, pad, source_ids
from regard.data.example import Misfit, NothingToLearn
from regard.data.pictures import Pictures
from regard.data.store import Row, Store
from regard.errors import DataError
from regard.special import END, FIRST_FREE, MASK, PAD, START, UNKNOWN
from regard.text import Encoding, Tokenizer, tokens_to_words
from regard.text.beginning import LONGEST_TEXT, encode_beginning
from regard.text.word import space_words

Rows = Mapping[str, Sequence[Row]]
Key = tuple[int, ...]
"""What random choices about one row follow from: seed, epoch, number of the example."""

NO_TEXTS = ("image", "attributes")
"""Streams whose length is no length of a text."""


@dataclass(frozen=True, slots=True)
class SourceTexts:
    """How a source line is read. `text` is None where there is a picture, attributes only, or nothing.

    `tabs` says that a text may have tabs of its own; else a tab stands between columns.
    """

    text: Tokenizer | None
    factors: tuple[Tokenizer, ...] = ()
    attributes: tuple[Tokenizer, ...] = ()
    pictures: Pictures | None = None
    tabs: bool = True

    @property
    def streams(self) -> tuple[str, ...]:
        return (
            *(("source",) if self.text else ()),
            *(("image",) if self.pictures else ()),
            *self.factor_streams,
            *(("attributes",) if self.attributes else ()),
        )

    @property
    def counted(self) -> tuple[str, ...]:
        """The streams that a source is as long as."""
        return self.streams

    @property
    def factor_streams(self) -> tuple[str, ...]:
        return tuple(f"factor{number}" for number in range(1, len(self.factors) + 1))

    def columns(self, line: str) -> list[str]:
        """Text or picture (if there is one), factors and attributes of a line; a text may have tabs of its own."""
        further, first = len(self.factors) + len(self.attributes), bool(self.text or self.pictures)
        found = line.rsplit("\t", further) if first else line.split("\t") if further else []
        wanted = further + first
        if len(found) != wanted:
            raise self.wrong_columns(wanted, len(found))
        return found

    def wrong_columns(self, wanted: int, found: int) -> Misfit:
        """What is said of a line with other columns than a source has."""
        several = "column was" if wanted == 1 else "columns separated by tabs was"
        return Misfit(
            f"a source of {wanted} {several} expected ({', '.join(self.streams)}), and there "
            f"{'is' if found == 1 else 'are'} {found}"
        )

    def encode(self, line: str) -> dict[str, Row]:
        """Ids of each stream of a line."""
        columns = self.columns(line)
        rows: dict[str, Row] = {}
        if self.pictures:
            path = columns.pop(0)
            rows["image"] = self.pictures.read(path) if path.strip() else ()
        if self.text:
            text = columns.pop(0)
            encoding = read_text(self.text, text)
            rows["source"] = encoding.ids
            for name, tokenizer in zip(self.factor_streams, self.factors, strict=True):
                rows[name] = factor_row(text, encoding.spans, tokenizer, columns.pop(0))
        if self.attributes:
            rows["attributes"] = [attribute(*one) for one in zip(self.attributes, columns, strict=True)]
        return rows

    def unseen(self, line: str) -> list[str]:
        """Attributes of a line that did not occur in training; they are left out."""
        values = self.columns(line)[-len(self.attributes) :] if self.attributes else []
        return [
            value
            for tokenizer, value in zip(self.attributes, values, strict=True)
            if UNKNOWN in tokenizer.encode(value).ids
        ]

    def sources(self, rows: Rows, count: int) -> Sources:
        """Named sources of `count` rows."""
        sources: dict[str, Source] = {}
        if self.pictures:
            sources["source"] = image(self.pictures.arrays(rows["image"]), self.pictures.channels)
        if self.text:
            plain = source_ids(rows["source"])
            factors = [source_ids(rows[name]).ids for name in self.factor_streams]
            ids = torch.cat((plain.ids, *factors), dim=-1) if factors else plain.ids
            sources["source"] = Ids(ids=ids, mask=plain.mask)
        values = torch.tensor(
            np.array(rows["attributes"]) if self.attributes else np.zeros((count, 0)), dtype=torch.long
        )
        if self.attributes or not sources:
            sources["attributes" if sources else "source"] = Category(values=values, mask=values != PAD)
        return sources


def image(pictures: Sequence[npt.NDArray[np.float32]], channels: int) -> Image:
    """Pictures (C, height, width) as one batch, padded to the right and below."""
    height, width = (max((picture.shape[axis] for picture in pictures), default=0) for axis in (1, 2))
    pixels = torch.zeros(len(pictures), channels, height, width)
    mask = torch.zeros(len(pictures), height, width, dtype=torch.bool)
    for row, picture in enumerate(pictures):
        place = (row, ..., slice(picture.shape[1]), slice(picture.shape[2]))
        pixels[place] = torch.from_numpy(picture)
        mask[place] = True
    return Image(pixels=pixels, mask=mask)


def read_text(tokenizer: Tokenizer, text: str) -> Encoding:
    """The tokens of a text, no more than can be of use; blanks alone are none, whatever a token is."""
    return encode_beginning(tokenizer, text) if text.strip() else Encoding(ids=(), spans=())


def _refuse_endless(tokens: int) -> None:
    """What belongs to words must belong to all of them."""
    if tokens > LONGEST_TEXT:
        raise Misfit(f"the source has more than {LONGEST_TEXT:,} tokens, the most that any model reads")


def attribute(tokenizer: Tokenizer, value: str) -> int:
    """The id of an attribute; PAD, which is masked, where it is blank or did not occur in training."""
    ids = tokenizer.encode(value).ids
    return ids[0] if ids and ids[0] != UNKNOWN else PAD


def words_of(text: str) -> list[tuple[int, int]]:
    """The ranges of the words that tags and factors belong to; only spaces part them, as in the unit `word`."""
    return [(start, start + len(word)) for word, start in space_words(text)]


def factor_row(text: str, spans: Sequence[tuple[int, int]], tokenizer: Tokenizer, column: str) -> Row:
    """An id for each token of a text: that of the word it belongs to."""
    _refuse_endless(len(spans))
    words = words_of(text)
    ids = tokenizer.encode(column).ids
    if len(ids) != len(words):
        raise Misfit(f"the source has {len(words)} words, and a factor of it {len(ids)} items: {column[:60]!r}")
    return [PAD if owner is None else ids[owner] for owner in tokens_to_words(spans, words)]


class Collation(ABC):
    """How the examples of one shape of model become rows, and rows a batch."""

    def __init__(self, *, source: SourceTexts) -> None:
        self.source = source

    @property
    @abstractmethod
    def streams(self) -> tuple[str, ...]:
        """Names of the rows of an example."""

    @abstractmethod
    def encode(self, source: str, target: str) -> dict[str, Row]:
        """Rows of an example, one for each stream; one that is empty says that a side is."""

    @abstractmethod
    def batch(self, rows: Rows, keys: Sequence[Key]) -> Batch:
        """Rows of each stream as one batch."""

    def lengths(self, store: Store) -> npt.NDArray[np.int64]:
        """How many items each example has on its two sides: (n, 2). A shape with one long side has it twice."""
        pictures = self.source.pictures
        first = (
            pictures.items(store, "image") if pictures else store.lengths("source" if self.source.text else "target")
        )
        targets = "target" in self.streams and not self.short_targets
        return np.stack([first, store.lengths("target") if targets else first], axis=1)

    @property
    def bounded(self) -> tuple[str, ...]:
        """Streams that `data.max_length` is a limit of: texts."""
        return tuple(name for name in self.streams if name not in NO_TEXTS)

    short_targets = False
    """Whether targets are not as long as what is computed for them."""


class TargetCollation(Collation):
    """Examples have a target."""

    def __init__(self, *, source: SourceTexts, target: Tokenizer) -> None:
        super().__init__(source=source)
        self.target = target

    @property
    def streams(self) -> tuple[str, ...]:
        return (*self.source.streams, "target")


class TextCollation(TargetCollation):
    """Targets are texts that are written item by item."""

    def encode(self, source: str, target: str) -> dict[str, Row]:
        return {**self.source.encode(source), "target": read_text(self.target, target).ids}

    def batch(self, rows: Rows, keys: Sequence[Key]) -> Batch:  # noqa: ARG002
        targets = rows["target"]
        inputs, mask = pad(targets, before=START)
        outputs, _ = pad(targets, after=END)
        return Batch(sources=self.source.sources(rows, len(targets)), inputs=inputs, outputs=outputs, mask=mask)


class AnswerCollation(TargetCollation):
    """The target is one answer: a label, or a number."""

    short_targets = True

    def encode(self, source: str, target: str) -> dict[str, Row]:
        try:
            answer = self.target.encode(target).ids
        except DataError as error:
            raise Misfit(f"the target: {error}") from None
        if self.target.unit == "label" and UNKNOWN in answer:
            raise NothingToLearn(f"training did not have the label {target.strip()[:60]!r}, so it has no probability")
        return {**self.source.encode(source), "target": answer}

    def batch(self, rows: Rows, keys: Sequence[Key]) -> Batch:  # noqa: ARG002
        answers = torch.tensor(np.array(rows["target"], dtype=np.int32))  # (B, 1)
        outputs = answers.view(torch.float32) if self.target.unit == "number" else answers.long()
        return _without_inputs(
            self.source.sources(rows, len(outputs)), outputs, torch.ones_like(outputs, dtype=torch.bool)
        )


class TagCollation(TargetCollation):
    """The target has one item for each word of the source; it stands at the first token of the word."""

    short_targets = True

    def __init__(self, *, source: SourceTexts, target: Tokenizer) -> None:
        super().__init__(source=source, target=target)
        assert source.text is not None
        self.text = source.text

    @property
    def streams(self) -> tuple[str, ...]:
        return (*self.source.streams, "starts", "target")

    def starts(self, source: str) -> list[int]:
        """The first token of each word of a source line."""
        text = self.source.columns(source)[0]
        spans = encode_beginning(self.text, text).spans
        _refuse_endless(len(spans))
        words = words_of(text)
        first: dict[int, int] = {}
        for token, owner in enumerate(tokens_to_words(spans, words)):
            if owner is not None:
                first.setdefault(owner, token)
        if len(first) != len(words):
            raise Misfit(f"of {len(words)} words of the source {len(words) - len(first)} have no token of their own")
        return [first[word] for word in range(len(words))]

    def encode(self, source: str, target: str) -> dict[str, Row]:
        starts, found = self.starts(source), self.target.encode(target)
        tags = found.ids
        if starts and tags and len(starts) != len(tags):
            raise Misfit(f"the source has {len(starts)} words, and the target {len(tags)} items")
        if UNKNOWN in tags:
            first, end = found.spans[tags.index(UNKNOWN)]
            raise NothingToLearn(f"training did not have the tag {target[first:end][:60]!r}, so it has no probability")
        return {**self.source.encode(source), "starts": starts, "target": tags}

    def batch(self, rows: Rows, keys: Sequence[Key]) -> Batch:  # noqa: ARG002
        sources = self.source.sources(rows, len(rows["starts"]))
        source = sources["source"]
        assert isinstance(source, Ids)
        outputs = torch.full(source.mask.shape, PAD)
        mask = torch.zeros_like(source.mask)
        for row, (starts, tags) in enumerate(zip(rows["starts"], rows["target"], strict=True)):
            places = torch.tensor(np.array(starts), dtype=torch.long)
            outputs[row, places] = torch.tensor(np.array(tags), dtype=torch.long)
            mask[row, places] = True
        return _without_inputs(sources, outputs, mask)


@dataclass(frozen=True, slots=True)
class Masking:
    """What is hidden of a text (Devlin et al. 2019, 3.1).

    A share of the items is asked for, of which most read as MASK, some as another item, the rest as they are. At least
    one item of a text is chosen, and none that is unknown.
    """

    share: float = 0.15
    masked: float = 0.8
    replaced: float = 0.1

    def draw(self, row: Row, vocabulary: int, key: Key) -> tuple[list[int], list[int]]:
        """What the model reads, and the places it is asked about."""
        random = np.random.Generator(np.random.Philox(np.random.SeedSequence(key)))
        known = [place for place, id_ in enumerate(row) if id_ != UNKNOWN]
        count = max(1, round(self.share * len(row)))
        chosen = sorted(random.permutation(known)[:count].tolist())
        read = [int(id_) for id_ in row]
        for place in chosen:
            fate = random.random()
            if fate < self.masked:
                read[place] = MASK
            elif fate < self.masked + self.replaced:
                read[place] = int(random.integers(FIRST_FREE, vocabulary))
        return read, chosen


def hide(factor: Row, read: Sequence[int]) -> list[int]:
    """A factor, hidden where the item is: a lemma would give it away."""
    return [MASK if word == MASK else int(id_) for id_, word in zip(factor, read, strict=True)]


class MaskCollation(Collation):
    """There is no target: items of the source are hidden, drawn anew in each epoch, and asked for."""

    def __init__(self, *, source: SourceTexts, masking: Masking) -> None:
        super().__init__(source=source)
        assert source.text is not None
        self.text = source.text
        self.masking = masking

    @property
    def streams(self) -> tuple[str, ...]:
        return self.source.streams

    def encode(self, source: str, target: str) -> dict[str, Row]:  # noqa: ARG002
        rows = self.source.encode(source)
        if len(rows["source"]) and all(id_ == UNKNOWN for id_ in rows["source"]):
            raise NothingToLearn("every item of the text is unknown, so there is none to hide and ask for")
        return rows

    def batch(self, rows: Rows, keys: Sequence[Key]) -> Batch:
        texts = rows["source"]
        drawn = [self.masking.draw(row, self.text.size, key) for row, key in zip(texts, keys, strict=True)]
        reads = [read for read, _ in drawn]
        factors = {
            name: [hide(*one) for one in zip(rows[name], reads, strict=True)] for name in self.source.factor_streams
        }
        sources = self.source.sources({**rows, **factors, "source": reads}, len(texts))
        outputs = source_ids(texts)
        mask = torch.zeros_like(outputs.mask)
        for row, (_, places) in enumerate(drawn):
            mask[row, places] = True
        return _without_inputs(sources, outputs.ids[..., 0], mask)


def _without_inputs(sources: Sources, outputs: Tensor, mask: Tensor) -> Batch:
    """A batch of a shape that reads nothing of its own output."""
    return Batch(
        sources=sources, inputs=outputs.new_zeros(len(outputs), 0, dtype=torch.long), outputs=outputs, mask=mask
    )
