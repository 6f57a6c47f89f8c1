"""Judging attention as an alignment, where the data has gold links (a JSONL key `alignment`, `0-0 1-2`)."""

from collections.abc import Iterator, Sequence

from regard.data.batch import make_batch
from regard.data.example import Example
from regard.errors import DataError
from regard.insight import Aligned, Reading, best_reading, cross_attention
from regard.metrics import Score, alignment_error, parse_pharaoh
from regard.metrics.alignment import Link
from regard.models import EncoderDecoder
from regard.recipe.build import Texts
from regard.text.words import word_spans

BATCH = 64
CHOSEN_ON = 500
"""Readings are compared on at most so many validation sentences."""


def gold_links(example: Example) -> frozenset[Link] | None:
    """The gold links of an example, (source, target) in whitespace words; None where there are none."""
    if "alignment" not in example.fields:
        return None
    links = parse_pharaoh(example.fields["alignment"], where=str(example.place))
    sizes = len(word_spans(example.source)), len(word_spans(example.target))
    for source, target in sorted(links):
        if source >= sizes[0] or target >= sizes[1]:
            raise DataError(
                f"{example.place}: the alignment links source word {source} with target word {target}, counted from 0, "
                f"but there are {sizes[0]} source and {sizes[1]} target words. Mend the key `alignment`, or take it out"
            )
    return links


def aligned(system: EncoderDecoder, texts: Texts, examples: Sequence[Example]) -> Iterator[Aligned]:
    """Examples that have gold links, with the attention of a teacher-forced pass over them."""
    golden = [(example, gold) for example in examples if (gold := gold_links(example)) is not None]
    for start in range(0, len(golden), BATCH):
        chunk = golden[start : start + BATCH]
        sources = [texts.source.encode(example.source) for example, _ in chunk]
        targets = [texts.target.encode(example.target) for example, _ in chunk]
        batch = make_batch([one.ids for one in sources], [one.ids for one in targets])
        attention = cross_attention(system, batch)
        for (example, gold), source, target, layers in zip(chunk, sources, targets, attention, strict=True):
            yield Aligned(
                layers=layers,
                source=example.source,
                target=example.target,
                source_encoding=source,
                target_encoding=target,
                gold=gold,
            )


def fitting_reading(system: EncoderDecoder, texts: Texts, examples: Sequence[Example]) -> Reading | None:
    """The reading of the attention that fits the gold links best; None where there are none."""
    sentences = list(aligned(system, texts, examples[:CHOSEN_ON]))
    return best_reading(sentences)[0] if sentences else None


def alignment_scores(
    system: EncoderDecoder, texts: Texts, examples: Sequence[Example], reading: Reading, *, resamples: int
) -> list[Score]:
    """The alignment error of a reading on the given targets; nothing where there are no gold links."""
    sentences = list(aligned(system, texts, examples))
    if not sentences:
        return []
    predicted = [one.links(reading) for one in sentences]
    return [alignment_error(predicted, [one.gold for one in sentences], resamples=resamples)]
