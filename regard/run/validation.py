"""Judging a system on validation data while it is being trained, and showing what it writes."""

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from statistics import median

import torch

from regard.data.corpus import StoreCorpus
from regard.data.example import Example
from regard.metrics import Metric, evaluate
from regard.models import EncoderDecoder, MaskedLanguageModel, System
from regard.run.model import Model
from regard.training import Shown, Verdict

DECODED = 500
"""So many validation examples are decoded where a metric decides; the loss is taken over all."""

SHOWN = 3
"""At most so many outputs are shown at each validation: enough to see that something is wrong, at little cost."""

TRIED = 3
"""Batches that are tried to tell how long a validation takes."""


@torch.no_grad()
def mean_likelihood(system: System, corpus: StoreCorpus) -> float:
    """Negative log-likelihood in nats per target token, END included, without smoothing."""
    total, count = 0.0, 0
    for batch in corpus.once():
        loss = system.loss(batch)
        total += float(loss.parts["likelihood"])
        count += loss.count
    return total / count


class Judge:
    """A validation by the loss, or by a metric of greedy outputs.

    After each, `samples` are outputs for the first few sources, `seconds` is what all of it took and `sample_seconds`
    what the outputs did. Outputs that a metric was taken of are not searched again.
    """

    def __init__(
        self,
        corpus: StoreCorpus,
        metric: Metric | None,
        model: Model,
        examples: Sequence[Example],
        *,
        samples: int = SHOWN,
    ) -> None:
        self.corpus = corpus
        self.metric = metric
        self.model = model
        self.chosen = examples[:DECODED]
        self.shown = self._chosen_to_show(examples, min(samples, SHOWN))
        self.samples: tuple[Shown, ...] = ()
        self.seconds = self.sample_seconds = 0.0

    def __call__(self, system: System) -> Verdict:
        began = time.perf_counter()
        loss = mean_likelihood(system, self.corpus)
        if not math.isfinite(loss):  # such a system says nothing that could be searched
            self.samples, self.sample_seconds, self.seconds = (), 0.0, time.perf_counter() - began
            return Verdict(loss=loss, value=math.nan, metrics={})
        verdict, outputs = Verdict(loss=loss, value=-loss, metrics={}), None
        if self.metric is not None:
            outputs = self._outputs([one.source for one in self.chosen])
            score = evaluate(self.metric, outputs, [[one.target] for one in self.chosen], resamples=0)
            sign = 1 if self.metric.higher_is_better else -1
            verdict = Verdict(loss=loss, value=sign * score.value, metrics={self.metric.name: score.value})
        judged = time.perf_counter()
        self.samples = self._samples(outputs)
        self.sample_seconds = time.perf_counter() - judged
        self.seconds = time.perf_counter() - began
        return verdict

    def expected_seconds(self, system: System) -> float:
        """About how long a validation will take, from a few batches and outputs; nothing of training is touched.

        A model that has learned nothing does not end its outputs, so that they are given the length of references.
        """
        was, state = system.training, torch.get_rng_state()
        system.eval()
        try:
            began = time.perf_counter()
            batches = list(islice(self.corpus.once(), TRIED))
            lengths = [batch.tokens / len(batch.outputs) for batch in batches]
            with torch.no_grad():
                for batch in batches:
                    system.loss(batch)
            seconds = (time.perf_counter() - began) / max(1, len(batches)) * self.corpus.batches_in_epoch()
            if self.metric is None or not batches:
                return seconds
            tried = self.chosen[: self.model.recipe.search.batch_sentences]
            options = replace(self.model.options(beam=1), max_length=max(1, round(median(lengths))))
            began = time.perf_counter()
            for _ in self.model.predict_many([one.source for one in tried], options=options):
                pass
            return seconds + (time.perf_counter() - began) * len(self.chosen) / max(1, len(tried))
        finally:
            system.train(was)
            torch.set_rng_state(state)

    def _samples(self, outputs: Sequence[str] | None) -> tuple[Shown, ...]:
        """Outputs beside their references; a model that is given no text to answer shows a text that it draws."""
        if not self.shown:
            return ()
        sources = [one.source for one in self.shown]
        if self.draws:
            options = self.model.options(sample=True, seed=self.model.recipe.seed)
            drawn = self.model.predict_many(sources, options=options)
            return tuple(Shown(one.source, None, one.text) for one in drawn)
        found = outputs if outputs is not None else self._outputs(sources)
        return tuple(Shown(one.source, one.target, text) for one, text in zip(self.shown, found, strict=False))

    def _outputs(self, sources: Sequence[str]) -> list[str]:
        return [prediction.text for prediction in self.model.predict_many(sources, beam=1)]

    @property
    def draws(self) -> bool:
        """Whether the model writes texts of its own: what it is given, if anything, is no text to answer."""
        return (
            isinstance(self.model.system, EncoderDecoder)
            and self.model.collation.source.text is None
            and (not self.model.collation.source.pictures)
        )

    def _chosen_to_show(self, examples: Sequence[Example], count: int) -> tuple[Example, ...]:
        """The first examples; for a language model a text from nothing, for a masked one none."""
        if isinstance(self.model.system, MaskedLanguageModel) or not examples:
            return ()
        if self.draws and not self.model.collation.source.streams:
            return (Example({"source": "", "target": ""}, examples[0].place),)[:count]
        return tuple(examples[:count])


def judge_by(corpus: StoreCorpus, metric: Metric | None, model: Model, examples: Sequence[Example]) -> Judge:
    """A judge for a recipe: it shows as many outputs as the report does, up to three."""
    return Judge(corpus, metric, model, examples, samples=model.recipe.evaluation.samples)
