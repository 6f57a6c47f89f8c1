"""Predictions by minimum Bayes risk: candidates and pseudo-references come from the search of a model."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import tee
from typing import Protocol

from regard.errors import DataError
from regard.metrics import MeteorSources, Metric
from regard.recipe.schema import EvaluationSection
from regard.run.prediction import Prediction
from regard.search import MinimumRisk, SearchOptions, minimum_risk, probabilities, utility


class Searching(Protocol):
    """`Model.predict_many`, with whatever else is asked for."""

    def __call__(self, texts: Iterable[str], *, options: SearchOptions) -> Iterator[Prediction]: ...


def least_risky(
    searching: Searching,
    texts: Iterable[str],
    risk: MinimumRisk,
    *,
    options: SearchOptions,
    section: EvaluationSection,
) -> Iterator[Prediction]:
    """One prediction for each text, its outputs in the order of their expected utility, which is their score.

    `options` are those of the search for candidates; `section` says how words are cut, and which METEOR.
    """
    risk.check(options)
    meteor = MeteorSources(**section.meteor.model_dump())
    measure = utility(risk.utility, tokenize=section.tokenize, meteor=meteor)
    if risk.references is None:
        for prediction in searching(texts, options=options):
            yield _decided(prediction, prediction, risk, measure, sampled=options.sample)
        return
    once, again = tee(texts)
    pairs = zip(searching(once, options=options), searching(again, options=risk.references), strict=True)
    for prediction, others in pairs:
        yield _decided(prediction, others, risk, measure, sampled=risk.references.sample)


def _decided(
    prediction: Prediction, others: Prediction, risk: MinimumRisk, measure: Metric, *, sampled: bool
) -> Prediction:
    """The candidates of a prediction against the outputs of another, or of itself."""
    remark = "; ".join(dict.fromkeys(filter(None, (prediction.remark, others.remark))))
    if not prediction.outputs or not others.outputs:
        return replace(prediction, outputs=prediction.outputs[: risk.best], remark=remark)
    weights = None if sampled else probabilities([one.log_probability for one in others.outputs])
    texts = [one.text for one in prediction.outputs]
    try:
        decision = minimum_risk(texts, [one.text for one in others.outputs], measure=measure, weights=weights)
    except DataError as error:  # say, a pseudo-reference that is no tree
        told = f"{risk.utility} cannot compare the candidates, and the first stands: {error}"
        remark = "; ".join(filter(None, (remark, told)))
        return replace(prediction, outputs=prediction.outputs[: risk.best], remark=remark)
    outputs = tuple(
        replace(prediction.outputs[number], score=float(decision.expected[number]))
        for number in decision.order[: risk.best]
    )
    return replace(prediction, outputs=outputs, remark=remark, decision=decision if risk.matrix else None)
