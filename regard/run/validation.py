"""Judging a system on validation data while it is being trained, and showing what it writes."""

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice, pairwise
from statistics import median

import numpy as np
import torch

from regard.data.corpus import StoreCorpus
from regard.data.example import Example
from regard.metrics import Metric, evaluate
from regard.models import Acceptor, EncoderDecoder, Labelling, MaskedLanguageModel, Rater, System
from regard.models.labelling import HALF_LOG_2_PI
from regard.run.model import Model
from regard.training import Shown, Verdict

DECODED = 500
"""So many validation examples are searched where a metric decides; the loss is taken over all, and so are metrics of
models that answer without a search."""

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


def spread(count: int, most: int, seed: int) -> list[int]:
    """At most so many of `count` places, in order: one drawn from each of as many equal stretches.

    The beginning of a file is no sample of it: files are sorted by label, by length, by source.
    """
    if count <= most:
        return list(range(count))
    random = np.random.Generator(np.random.Philox(np.random.SeedSequence((seed, count))))
    edges = [place * count // max(1, most) for place in range(most + 1)]
    return [int(random.integers(low, high)) for low, high in pairwise(edges)]


def judged_places(model: Model, count: int) -> list[int]:
    """Which of `count` validation examples a metric is taken of."""
    return spread(count, count if isinstance(model.system, Labelling) else DECODED, model.recipe.seed)


def judged_by(model: Model, count: int) -> str:
    """What the best of several checkpoints is chosen by, for people."""
    select = model.recipe.training.select
    if select == "loss":
        return f"the loss of all {count:,}"
    judged = len(judged_places(model, count))
    part = f"all {count:,}" if judged == count else f"{judged:,} of {count:,}, drawn evenly over them"
    return f"{select} of greedy outputs for {part}" if judged < count else f"{select} of outputs for {part}"


class Judge:
    """A validation by the loss, or by a metric of greedy outputs.

    After each, `samples` are outputs for a few sources, `seconds` is what all of it took and `sample_seconds`
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
        self.chosen = [examples[place] for place in judged_places(model, len(examples))]
        self.places = spread(len(self.chosen), min(samples, SHOWN), model.recipe.seed)
        self.shown = self._chosen_to_show()
        self.samples: tuple[Shown, ...] = ()
        self.seconds = self.sample_seconds = 0.0

    def __call__(self, system: System) -> Verdict:
        began = time.perf_counter()
        loss = mean_likelihood(system, self.corpus)
        if not math.isfinite(loss):  # such a system says nothing that could be searched
            self.samples, self.sample_seconds, self.seconds = (), 0.0, time.perf_counter() - began
            return Verdict(loss=loss, value=math.nan, metrics={})
        metrics = (
            {"squared_error": max(0.0, 2 * (loss - HALF_LOG_2_PI))} if isinstance(self.model.system, Rater) else {}
        )
        verdict, outputs = Verdict(loss=loss, value=-loss, metrics=metrics), None
        if self.metric is not None:
            outputs = self._outputs([one.source for one in self.chosen])
            stripped = isinstance(self.model.system, Acceptor)  # blanks around an answer are no part of it
            targets = [[one.target.strip() if stripped else one.target] for one in self.chosen]
            score = evaluate(self.metric, outputs, targets, resamples=0)
            sign = 1 if self.metric.higher_is_better else -1
            verdict = Verdict(loss=loss, value=sign * score.value, metrics={**metrics, self.metric.name: score.value})
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
        found = self._outputs(sources) if outputs is None else [outputs[place] for place in self.places]
        return tuple(Shown(one.source, one.target, text) for one, text in zip(self.shown, found, strict=True))

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

    def _chosen_to_show(self) -> tuple[Example, ...]:
        """Examples over the whole set; for a language model a text from nothing, for a masked one none."""
        if isinstance(self.model.system, MaskedLanguageModel) or not self.places:
            return ()
        if self.draws and not self.model.collation.source.streams:
            return (Example({"source": "", "target": ""}, self.chosen[0].place),)
        return tuple(self.chosen[place] for place in self.places)


def judge_by(corpus: StoreCorpus, metric: Metric | None, model: Model, examples: Sequence[Example]) -> Judge:
    """A judge for a recipe: it shows as many outputs as the report does, up to three."""
    return Judge(corpus, metric, model, examples, samples=model.recipe.evaluation.samples)
