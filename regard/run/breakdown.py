"""An evaluation taken apart: by length, by frequency in the training data, by labels of words, by segment."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from regard.data import Ledger, read_examples
from regard.data.lines import read_lines
from regard.errors import DataError, RegardError, UsageError
from regard.metrics import Metric, SpanF1, evaluate, metric
from regard.metrics.breakdown import Bucket, Segment, by_frequency, by_label, by_length, by_segment
from regard.metrics.named import OF_LISTS, OF_NUMBERS, OF_SOURCES
from regard.metrics.overlap import words_by
from regard.metrics.spans import span_types
from regard.models import EncoderDecoder
from regard.recipe.build import build_metrics
from regard.report import SetScore
from regard.report.evaluation import BucketTable, EvaluationPage, JudgedSample
from regard.run.folder import RunFolder
from regard.run.judging import compared
from regard.run.model import Evaluation, Model

LOOKED_AT = 200_000
"""Examples of the training data that words are counted in."""

PARTS = 5
"""Into so many parts of like size lengths are cut."""

SHOWN = 6
"""So many of the worst, and of the best."""


@dataclass(frozen=True, slots=True)
class _Texts:
    """Outputs and references beside the sources, for metrics of one output."""

    sources: list[str]
    outputs: list[str]
    references: list[str]

    @property
    def lists(self) -> list[list[str]]:
        return [[text] for text in self.references]


def evaluation_page(model: Model, evaluation: Evaluation, *, set_name: str, tags: str | None = None) -> EvaluationPage:
    """What the page of an evaluation shows. `tags` is a file with a label for each word of each reference."""
    if not evaluation.predictions:
        raise UsageError(
            f"a model of shape {model.recipe.model.shape} is judged without outputs, and there is nothing to take apart"
        )
    section = model.recipe.evaluation
    chosen = _chosen(build_metrics(section))
    pairs = [
        (prediction, example)
        for prediction, example in zip(evaluation.predictions, evaluation.examples, strict=True)
        if not model.numbers or prediction.outputs
    ]
    outputs, references = compared(chosen.name, pairs)
    texts = _Texts([example.source for _, example in pairs], outputs, [one[0] for one in references])
    notes = list(evaluation.notes)
    tables = [_lengths(chosen, texts, section.resamples)] if model.collation.source.text is not None else []
    tables += _types(section.metrics, texts, section.resamples)
    if isinstance(model.system, EncoderDecoder) and chosen.name not in OF_SOURCES:
        words = words_by(section.tokenize)
        try:
            counts = training_counts(model, words)
        except RegardError as error:
            notes.append(f"words cannot be told apart by their frequency, for training data cannot be read: {error}")
        else:
            tables.append(_frequencies(texts, counts, words, section.resamples))
    if tags is not None:
        tables.append(_labels(texts, tags, section.resamples))
    judge = _segment_judge(chosen)
    worst, best = _ends(by_segment(judge, texts.outputs, texts.lists))
    return EvaluationPage(
        title=f"{model.recipe.task}: {model.folder.name} on {set_name}",
        run=str(model.folder),
        scores=[SetScore(set_name=set_name, score=score) for score in evaluation.scores],
        tables=tables,
        judge=judge.name,
        worst=[_sample(texts, one) for one in worst],
        best=[_sample(texts, one) for one in best],
        notes=notes,
    )


def training_counts(model: Model, words: Callable[[str], list[str]]) -> Counter[str]:
    """How often the training data has each word of the target side; sets that were split off are left out."""
    section = model.recipe.data
    held = _held_out(model)
    examples = read_examples(
        section.train if isinstance(section.train, str) else tuple(section.train),
        format=section.format,
        source=section.source,
        target=section.target,
        further=(*section.factors, *section.attributes),
        bad_lines="skip",
        ledger=Ledger(),
    )
    counts: Counter[str] = Counter()
    for example in islice(examples, LOOKED_AT):
        if (example.place.file, example.place.line) not in held:
            counts.update(words(example.target))
    return counts


def _held_out(model: Model) -> set[tuple[str, int]]:
    held = set()
    for name in ("valid", "test"):
        path = RunFolder(model.folder).data / f"{name}.jsonl"
        if path.is_file():
            for line in read_lines(path):
                place = json.loads(line)["place"]
                held.add((str(place["file"]), int(place["line"])))
    return held


def _chosen(metrics: Sequence[Metric]) -> Metric:
    """The first metric of one output."""
    return next((one for one in metrics if one.name not in OF_LISTS), metric("exact"))


def _segment_judge(chosen: Metric) -> Metric:
    """What single segments are ordered by: BLEU and correlations are for sets, not for one segment."""
    if chosen.name == "BLEU":
        return metric("chrF")
    return metric("squared_error") if chosen.name in OF_NUMBERS else chosen


def _lengths(chosen: Metric, texts: _Texts, resamples: int) -> BucketTable:
    sizes = [len(text.split("\t", 1)[0].split()) for text in texts.sources]
    unit = "words"
    if max(sizes) <= 1:
        sizes, unit = [len(text.split("\t", 1)[0]) for text in texts.sources], "characters"
    cuts = np.quantile(sizes, np.arange(1, PARTS) / PARTS, method="nearest")
    edges = sorted({int(cut) + 1 for cut in cuts if cut < max(sizes)})
    buckets = by_length(chosen, texts.outputs, texts.lists, sizes, edges=edges, resamples=resamples)
    return BucketTable(
        title="By length of the source",
        caption=f"{chosen.name} of sources with so many {unit}.",
        what=f"{unit} of the source",
        counted="segments",
        buckets=buckets,
    )


def _types(names: Sequence[str], texts: _Texts, resamples: int) -> list[BucketTable]:
    if "span_F1" not in names:
        return []
    buckets = []
    for type_ in span_types(texts.references):
        score = evaluate(SpanF1(type=type_), texts.outputs, texts.lists, resamples=resamples)
        buckets.append((type_, int(score.parts["true"]), score))
    total = sum(count for _, count, _ in buckets)
    return [
        BucketTable(
            title="By type of span",
            caption="span_F1 of spans of each type.",
            what="type",
            counted="spans",
            buckets=[Bucket(name, count, count / total, score) for name, count, score in buckets],
        )
    ]


def _frequencies(
    texts: _Texts, counts: Mapping[str, int], words: Callable[[str], list[str]], resamples: int
) -> BucketTable:
    return BucketTable(
        title="By frequency of words",
        caption="F1 of words that the training data has so often: of those in the output, and those in the reference.",
        what="times in the training data",
        counted="words",
        buckets=by_frequency(texts.outputs, texts.references, counts, words=words, resamples=resamples),
    )


def _labels(texts: _Texts, tags: str, resamples: int) -> BucketTable:
    lines = [line.split() for line in read_lines(tags)]
    if len(lines) != len(texts.references):
        raise DataError(
            f"{tags} has {len(lines):,} lines, and there are {len(texts.references):,} references: it must have a line "
            "for each, with a label for each word"
        )
    return BucketTable(
        title="By label of the word",
        caption="The share of the references' words that are in the outputs, by their label.",
        what="label",
        counted="words",
        buckets=by_label(texts.outputs, texts.references, lines, resamples=resamples),
    )


def _ends(segments: Sequence[Segment], count: int = SHOWN) -> tuple[list[Segment], list[Segment]]:
    """The worst and the best, each first; no segment is both."""
    half = min(count, len(segments) // 2) or len(segments)
    return list(segments[:half]), list(segments[half:][-half:])[::-1]


def _sample(texts: _Texts, segment: Segment) -> JudgedSample:
    return JudgedSample(
        number=segment.number + 1,
        source=texts.sources[segment.number],
        reference=texts.references[segment.number],
        output=texts.outputs[segment.number],
        value=segment.value,
    )
