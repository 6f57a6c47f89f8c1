"""Judging a system on validation data while it is being trained."""

from collections.abc import Callable, Sequence

import torch

from regard.data.corpus import StoreCorpus
from regard.data.example import Example
from regard.metrics import Metric, evaluate
from regard.models import System
from regard.run.model import Model
from regard.training import Verdict

DECODED = 500
"""So many validation examples are decoded where a metric decides; the loss is taken over all."""


@torch.no_grad()
def mean_likelihood(system: System, corpus: StoreCorpus) -> float:
    """Negative log-likelihood in nats per target token, END included, without smoothing."""
    total, count = 0.0, 0
    for batch in corpus.once():
        loss = system.loss(batch)
        total += float(loss.parts["likelihood"])
        count += loss.count
    return total / count


def judge_by(
    corpus: StoreCorpus, metric: Metric | None, model: Model, examples: Sequence[Example]
) -> Callable[[System], Verdict]:
    """A validation by the loss, or by a metric of greedy outputs."""
    chosen = examples[:DECODED]

    def judge(system: System) -> Verdict:
        loss = mean_likelihood(system, corpus)
        if metric is None:
            return Verdict(loss=loss, value=-loss, metrics={})
        outputs = [prediction.text for prediction in model.predict_many((one.source for one in chosen), beam=1)]
        score = evaluate(metric, outputs, [[one.target] for one in chosen], resamples=0)
        sign = 1 if metric.higher_is_better else -1
        return Verdict(loss=loss, value=sign * score.value, metrics={metric.name: score.value})

    return judge
