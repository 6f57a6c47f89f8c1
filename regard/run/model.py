"""The model that people hold: weights, text, search and the run folder in one object.

Inference changes nothing in it, so one model can serve many threads.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Unpack

import torch

from regard.data.batch import Batch
from regard.data.collation import TextCollation
from regard.data.corpus import NO_EPOCH
from regard.data.example import Example, Misfit
from regard.data.store import Row
from regard.errors import DataError, UsageError
from regard.insight import Reading, by_words, in_reading_order
from regard.metrics import Score
from regard.models import Acceptor, Covering, EncoderDecoder, Labelling, MaskedLanguageModel, Rater, Scorer, System
from regard.recipe.build import alignment_reading, search_options, system_for
from regard.recipe.describe import describe
from regard.recipe.schema import AlignmentReading, Recipe
from regard.recipe.texts import Texts, build_collation, load_texts
from regard.report import AlignmentPicture
from regard.run.alignment import alignment_scores, as_read, attention_read, fitting_reading
from regard.run.folder import RunFolder
from regard.run.judging import answers_wanted, likelihood_scores, metric_scores
from regard.run.labelling import Labeller
from regard.run.masked import masked_scores
from regard.run.minimum_risk import least_risky
from regard.run.opening import chosen_weights, last_steps, mean_weights
from regard.run.prediction import Prediction, Predictor
from regard.run.scoring import PairScore, PairScorer, read_pair
from regard.run.searching import SearchEngine
from regard.run.sets import read_set
from regard.search import Constraint, MinimumRisk, Sampling, SearchOptions
from regard.text.words import word_spans
from regard.training import load_weights


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Scores of a set of examples, and what was predicted for each."""

    examples: tuple[Example, ...]
    scores: tuple[Score, ...]
    predictions: tuple[Prediction, ...]
    unscored: int = 0

    @property
    def notes(self) -> list[str]:
        """What was cut or left out."""
        outputs = sum(prediction.cut_output for prediction in self.predictions)
        sources = sum(bool(prediction.cut_source) for prediction in self.predictions)
        unseen = sum(bool(prediction.unseen) for prediction in self.predictions)
        faults = sum(bool(prediction.fault) for prediction in self.predictions)
        told = (
            (
                outputs,
                "output{s} reached the limit of length (search.max_length, search.max_ratio) before {its} end",
            ),
            (sources, "source{s} {was} longer than data.max_length and only {its} beginning was read"),
            (
                self.unscored,
                "example{s} {was} not scored: a side is empty, longer than data.max_length, does not fit the other, or "
                "is a text, a label or a tag that training did not have",
            ),
            (faults, "source{s} could not be read: see `regard predict`"),
            (unseen, "source{s} with an attribute that training did not have, and that was left out"),
        )
        one, more = {"s": "", "was": "was", "its": "its"}, {"s": "s", "was": "were", "its": "their"}
        return [f"{count:,} " + what.format_map(one if count == 1 else more) for count, what in told if count]


class Model:
    """Predict, score, evaluate, align. Where there is an `engine` (`run.native`) it searches instead of the system."""

    engine: SearchEngine | None = None

    def __init__(
        self, *, recipe: Recipe, system: System, texts: Texts, folder: Path, averaged: tuple[int, ...] = ()
    ) -> None:
        """`averaged` are the steps of checkpoints whose mean the weights are; none: those that training chose."""
        self.recipe = recipe
        self.system = system.eval()
        self.texts = texts
        self.collation = build_collation(recipe, texts)
        self.folder = folder
        self.averaged = averaged

    @classmethod
    def load(cls, path: str | Path, *, average: int | None = None) -> "Model":
        """Open a run folder. Nothing in it is run as code, and sizes are checked before memory is taken.

        With `average` the weights are the mean of so many checkpoints, the last ones, and not those training chose.
        """
        folder = RunFolder(Path(path))
        recipe = folder.read_recipe()
        texts = load_texts(recipe, folder.path)
        with torch.device("meta"):
            expected = system_for(recipe, texts)
        shapes = {name: tuple(p.shape) for name, p in expected.named_parameters()}
        steps = () if average is None else last_steps(folder, average)
        weights = mean_weights(folder, steps, shapes) if steps else chosen_weights(folder, shapes)
        system = system_for(recipe, texts)
        load_weights(system, weights)
        return Model(recipe=recipe, system=system, texts=texts, folder=folder.path, averaged=steps)

    @property
    def parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.system.parameters())

    def options(self, *, beam: int | None = None, best: int = 1, **sampling: Unpack[Sampling]) -> SearchOptions:
        """Search as the recipe says, with what is asked for here, say `options(best=3, sample=True, top_p=0.9)`.

        Without a source text outputs have no length that theirs could be compared with.
        """
        measured = self.collation.source.text is not None
        return search_options(self.recipe.search, beam=beam, best=best, measured=measured, **sampling)

    def predict(
        self,
        text: str,
        *,
        beam: int | None = None,
        best: int = 1,
        options: SearchOptions | None = None,
        prefix: str = "",
        constraint: Constraint | None = None,
        risk: MinimumRisk | None = None,
        capture: bool = False,
    ) -> Prediction:
        """The best output for one text; with `capture`, with its alignment. The rest is as in `predict_many`."""
        asked = partial(self.predict_many, [text], beam=beam, best=best, options=options, prefix=prefix)
        return next(asked(constraint=constraint, risk=risk, capture=capture))

    def predict_many(
        self,
        texts: Iterable[str],
        *,
        beam: int | None = None,
        best: int = 1,
        options: SearchOptions | None = None,
        prefix: str = "",
        constraint: Constraint | None = None,
        risk: MinimumRisk | None = None,
        capture: bool = False,
        ahead: int | None = None,
        first: int = 0,
    ) -> Iterator[Prediction]:
        """One prediction for each text, in order, in bounded memory; a blank text gives a blank.

        `options` (see `Model.options`) stands in place of `beam` and `best`. Every output begins with `prefix` and
        satisfies the `constraint`; where none can, there are no outputs and the `remark` says why.
        With `risk` what the search finds are candidates, and outputs are those with the least risk.
        Texts are read ahead, so that alike lengths are searched together; `ahead=1` answers each before the next.
        Samples are drawn by a text's number, which counts from `first`.
        """
        if options is not None and (beam is not None or best != 1):
            raise UsageError("beam and best are part of the options: say them there, or leave out the options")
        options = options or self.options(beam=beam, best=best)
        if risk is not None:
            searching = partial(self.predict_many, prefix=prefix, constraint=constraint, ahead=ahead, first=first)
            for found in least_risky(searching, texts, risk, options=options, section=self.recipe.evaluation):
                yield self._with_alignment(found) if capture else found
            return
        predictor = self._predictor(options, prefix, constraint, ahead)
        for prediction in predictor.run(texts, first):
            yield self._with_alignment(prediction) if capture else prediction

    def _predictor(
        self, options: SearchOptions, prefix: str, constraint: Constraint | None, ahead: int | None
    ) -> Predictor | Labeller:
        """What answers texts."""
        capacity, longest = self.recipe.search.batch_sentences, self.longest_source
        if ahead is None and self.collation.source.pictures:
            ahead = capacity  # they are many times larger than texts
        if isinstance(self.system, Labelling):
            if prefix or options.sample or options.stochastic or constraint:
                raise UsageError(
                    f"a model of shape {self.recipe.model.shape} writes no text to draw, to begin or to constrain"
                )
            return Labeller(
                self.system,
                self.collation,
                self.texts.target,
                best=options.best,
                capacity=capacity,
                max_source=longest,
                ahead=ahead,
            )
        scorer, collation = self._writer(covering=bool(options.coverage_penalty))
        return Predictor(
            scorer,
            collation,
            options=options,
            prefix=prefix,
            constraint=constraint,
            capacity=capacity,
            max_source=longest,
            ahead=ahead,
            engine=self.engine,
        )

    def _generator(self) -> tuple[EncoderDecoder, TextCollation]:
        """The parts of a model that writes texts."""
        if not isinstance(self.system, EncoderDecoder) or not isinstance(self.collation, TextCollation):
            raise UsageError(f"a model of shape {self.recipe.model.shape} writes no text")
        return self.system, self.collation

    def _writer(self, *, covering: bool) -> tuple[Scorer, TextCollation]:
        """What search is given, with or without coverage, and how lines are read for it."""
        system, collation = self._generator()
        return Covering(system) if covering else system, collation

    def _with_alignment(self, prediction: Prediction) -> Prediction:
        if not prediction.text.strip():
            return prediction
        source = prediction.source
        if prediction.cut_source:
            source = as_read(source, self.collation.source, self.longest_source)
        return prediction.with_alignment(self.align([(source, prediction.text)])[0])

    def score_many(self, pairs: Iterable[tuple[str, str]], *, batch: int = 64) -> Iterator[PairScore]:
        """log p(target | source), teacher-forced, of given pairs in order.

        A pair that does not fit the model, or is longer than `data.max_length`, has a fault and no score.
        """
        if isinstance(self.system, MaskedLanguageModel):
            raise UsageError(
                "a masked language model has probabilities of hidden words, not of texts; `regard evaluate` tells them"
            )
        longest = self.recipe.data.max_length
        scorer = PairScorer(self.system, self.collation, self.texts.target, batch=batch, longest=longest)
        return scorer.run(pairs)

    def score(self, source: str, target: str) -> PairScore:
        """log p(target | source) of one pair; one that does not fit is refused."""
        scored = next(self.score_many([(source, target)]))
        if scored.fault:
            raise _cannot_be_scored(source, target, scored.fault)
        return scored

    def batch(self, pairs: Sequence[tuple[str, str]]) -> Batch:
        """Given sources and targets as a batch; what is drawn for them follows from their numbers."""
        encoded = [self._rows(source, target) for source, target in pairs]
        rows = {name: [one[name] for one in encoded] for name in self.collation.streams}
        return self.collation.batch(rows, [(self.recipe.seed, NO_EPOCH, number) for number in range(len(pairs))])

    def _rows(self, source: str, target: str) -> Mapping[str, Row]:
        """The rows of a pair; one that does not fit together is refused."""
        try:
            return read_pair(self.collation, source, target)
        except Misfit as misfit:
            raise _cannot_be_scored(source, target, str(misfit)) from None

    @property
    def numbers(self) -> bool:
        """Whether targets are numbers."""
        return isinstance(self.system, Rater)

    @property
    def probable(self) -> bool:
        """Whether given targets have probabilities."""
        return not self.numbers

    @property
    def longest_source(self) -> int:
        """The most tokens of a source that are read."""
        return self.recipe.data.max_length

    def with_recipe(self, recipe: Recipe) -> "Model":
        """The same model with other settings of search or evaluation."""
        model = Model(recipe=recipe, system=self.system, texts=self.texts, folder=self.folder, averaged=self.averaged)
        model.engine = self.engine
        return model

    @property
    def reading(self) -> Reading:
        """Which attention is read as an alignment."""
        return alignment_reading(self.recipe.evaluation)

    @property
    def attends(self) -> bool:
        """Whether the decoder has attention."""
        return self.recipe.model.shape == "encoder-decoder" and self.recipe.model.decoder.attends

    @property
    def aligns_words(self) -> bool:
        """Alignments are between words, except where tokens are smaller by intent: characters and bytes."""
        return self.texts.target.unit not in ("character", "byte", "inflection")

    def align(self, pairs: Sequence[tuple[str, str]], reading: Reading | None = None) -> list[AlignmentPicture]:
        """Attention from target to source, from one teacher-forced pass over the pairs; an engine makes its own."""
        if not self.attends or self.collation.source.text is None:
            raise UsageError(
                f"this model has no attention to a source text to read an alignment from: it is of shape "
                f"{self.recipe.model.shape}, its decoder {describe(self.recipe.model.decoder)}"
            )
        if not pairs:
            return []
        system, collation = self._generator()
        read = attention_read(system, self.engine, self.batch(pairs), reading or self.reading)
        sources = [self.collation.source.columns(source)[0] for source, _ in pairs]
        encoded = [
            (self.texts.source.encode(source), collation.target.encode(target))
            for source, (_, target) in zip(sources, pairs, strict=True)
        ]
        pictures: list[AlignmentPicture] = []
        for source, (_, target), (from_, to), tokens in zip(sources, pairs, encoded, read, strict=True):
            if self.aligns_words:
                weights = by_words(tokens, source, from_, target, to)
                labels = [[text[start:end] for start, end in word_spans(text)] for text in (source, target)]
            else:
                weights, to = in_reading_order(tokens, to)
                labels = [
                    [tokenizer.piece(id_) for id_ in encoding.ids]
                    for tokenizer, encoding in ((self.texts.source, from_), (self.texts.target, to))
                ]
            pictures.append(AlignmentPicture(source=labels[0], target=labels[1], weights=weights))
        return pictures

    def best_reading(self, examples: Sequence[Example]) -> Reading | None:
        """The reading of attention that fits the gold links of some examples best; None without links or attention."""
        if not self.attends or self.collation.source.text is None:
            return None
        system, collation = self._generator()
        return fitting_reading(system, collation, self.fitting(examples))

    def with_reading(self, reading: Reading) -> "Model":
        """The same model, its attention read in another way."""
        chosen = AlignmentReading(layer=reading.layer, head=reading.head, shift=1 if reading.shift else 0)
        evaluation = self.recipe.evaluation.model_copy(update={"alignment": chosen})
        return self.with_recipe(self.recipe.model_copy(update={"evaluation": evaluation}))

    def examples(self, *files: str) -> list[Example]:
        """Pairs of a file, or of two parallel files, read as the training data was."""
        return read_set(self.recipe, files)

    def fitting(self, examples: Sequence[Example]) -> list[Example]:
        """Those that fit together and are no longer than `data.max_length`; others cannot be scored as a whole."""
        limit = self.recipe.data.max_length

        def fits(example: Example) -> bool:
            try:
                rows = self.collation.encode(example.source, example.target)
            except Misfit:
                return False
            long = any(len(rows[name]) > limit for name in self.collation.bounded)
            return not long and all(len(row) for row in rows.values())

        return [example for example in examples if fits(example)]

    def evaluate(self, examples: Sequence[Example], *, beam: int | None = None) -> Evaluation:
        """Predict every source and compare: the metrics of the recipe, perplexity, and alignment error if known."""
        if not examples:
            raise DataError("there is nothing to evaluate: no example was given")
        section = self.recipe.evaluation
        fitting = self.fitting(examples)
        if isinstance(self.system, MaskedLanguageModel):
            scores = masked_scores(self.system, self.collation, fitting, resamples=section.resamples)
            return Evaluation(tuple(examples), tuple(scores), (), len(examples) - len(fitting))
        predictions: tuple[Prediction, ...] = ()
        if section.metrics:
            best = answers_wanted(self.recipe, self.system, beam)
            predictions = tuple(self.predict_many((example.source for example in examples), beam=beam, best=best))
        judged = [
            (prediction, example)
            for prediction, example in zip(predictions, examples, strict=bool(predictions))
            if not self.numbers or (prediction.outputs and example in fitting)
        ]
        resamples = section.resamples
        scores = metric_scores(section, judged, labels=isinstance(self.system, Acceptor))
        if fitting and self.probable:
            scores += likelihood_scores(self, fitting)
        if self.attends and self.collation.source.text is not None:
            system, collation = self._generator()
            scores += alignment_scores(system, collation, fitting, self.reading, resamples=resamples)
        return Evaluation(
            examples=tuple(examples),
            scores=tuple(scores),
            predictions=predictions,
            unscored=len(examples) - len(fitting),
        )

    def perplexity(self, examples: Sequence[Example]) -> Score:
        """Perplexity of the given targets, per token of the model; of texts that are written, teacher-forced."""
        return likelihood_scores(self, examples)[0]


def _cannot_be_scored(source: str, target: str, fault: str) -> DataError:
    return DataError(f"a pair cannot be scored: {fault}. The pair is {source[:60]!r} and {target[:60]!r}")
