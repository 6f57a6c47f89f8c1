"""Judging attention as an alignment, where the data has gold links (a JSONL key `alignment`, `0-0 1-2`)."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from regard.data.batch import Batch
from regard.data.collation import SourceTexts, TextCollation, words_of
from regard.data.example import Example
from regard.errors import DataError
from regard.insight import Aligned, Reading, best_reading, cross_attention, read
from regard.insight.alignment import Weights
from regard.metrics import Score, alignment_error, parse_pharaoh
from regard.metrics.alignment import Link
from regard.models import EncoderDecoder
from regard.models.memory import over_source
from regard.run.searching import SearchEngine
from regard.text.beginning import read_part
from regard.text.words import word_spans

BATCH = 64
CHOSEN_ON = 500
"""Readings are compared on at most so many validation sentences."""


def as_read(line: str, source: SourceTexts, longest: int) -> str:
    """What was read of a source line with more tokens than that, its factors and attributes behind it."""
    assert source.text is not None
    text, *columns = source.columns(line)
    text = read_part(source.text, text, longest)
    factors, words = len(source.factors), len(words_of(text))
    kept = [" ".join(column.split()[:words]) for column in columns[:factors]]
    return "\t".join((text, *kept, *columns[factors:]))


def gold_links(example: Example, text: str) -> frozenset[Link] | None:
    """The gold links of an example, (source, target) in whitespace words; None where there are none.

    `text` is the source without the factors and attributes that stand behind it.
    """
    if "alignment" not in example.fields:
        return None
    links = parse_pharaoh(example.fields["alignment"], where=str(example.place))
    sizes = len(word_spans(text)), len(word_spans(example.target))
    for source, target in sorted(links):
        if source >= sizes[0] or target >= sizes[1]:
            raise DataError(
                f"{example.place}: the alignment links source word {source} with target word {target}, counted from 0, "
                f"but there are {sizes[0]} source and {sizes[1]} target words. Mend the key `alignment`, or take it out"
            )
    return links


@torch.no_grad()
def source_attention(system: EncoderDecoder, batch: Batch) -> list[list[Tensor]]:
    """For each row of a batch, for each decoder layer, weights over the source (H, M, N); END rows and columns stay.

    A memory may stand in another order than the source, have fewer positions, or attributes among them: its spans say
    what is meant. A model without attention has no layers here.
    """
    source = batch.sources["source"]
    memory = system.memory(batch.sources)
    rows: list[list[Tensor]] = []
    for row, layers in enumerate(cross_attention(system, batch)):
        items = int(source.mask[row].sum())
        spans, mask = memory.spans[row : row + 1], memory.mask[row : row + 1]
        rows.append([over_source(layer.unsqueeze(0), spans, mask, items).squeeze(0) for layer in layers])
    return rows


def attention_read(
    system: EncoderDecoder, engine: SearchEngine | None, batch: Batch, reading: Reading
) -> list[Weights]:
    """Of each row the weights of its target tokens over its source tokens, told by the engine where it can."""
    told = None if engine is None else engine.attention(batch, reading)
    return [read(layers, reading) for layers in source_attention(system, batch)] if told is None else told


def aligned(system: EncoderDecoder, collation: TextCollation, examples: Sequence[Example]) -> Iterator[Aligned]:
    """Examples that have gold links, with the attention of a teacher-forced pass over them."""
    tokenizer = collation.source.text
    assert tokenizer is not None
    texts = ((example, collation.source.columns(example.source)[0]) for example in examples)
    golden = [(example, text, gold) for example, text in texts if (gold := gold_links(example, text)) is not None]
    for start in range(0, len(golden), BATCH):
        chunk = golden[start : start + BATCH]
        encoded = [collation.encode(example.source, example.target) for example, _, _ in chunk]
        rows = {name: [one[name] for one in encoded] for name in collation.streams}
        attention = source_attention(system, collation.batch(rows, [()] * len(chunk)))
        for (example, source, gold), layers in zip(chunk, attention, strict=True):
            yield Aligned(
                layers=layers,
                source=source,
                target=example.target,
                source_encoding=tokenizer.encode(source),
                target_encoding=collation.target.encode(example.target),
                gold=gold,
            )


def fitting_reading(system: EncoderDecoder, collation: TextCollation, examples: Sequence[Example]) -> Reading | None:
    """The reading of the attention that fits the gold links best; None where there are no links or no attention."""
    found = best_reading(aligned(system, collation, examples[:CHOSEN_ON]))
    return None if found is None else found[0]


def alignment_scores(
    system: EncoderDecoder, collation: TextCollation, examples: Sequence[Example], reading: Reading, *, resamples: int
) -> list[Score]:
    """The alignment error of a reading on the given targets; nothing where there are no gold links or no attention."""
    predicted, gold = [], []
    for one in aligned(system, collation, examples):
        if not one.layers:
            return []
        predicted.append(one.links(reading))
        gold.append(one.gold)
    return [alignment_error(predicted, gold, resamples=resamples)] if gold else []
