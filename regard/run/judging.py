"""From predictions and examples to scores: which texts a metric is given to compare."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from regard.data.example import Example
from regard.metrics import Score, bits_per_character, evaluate, join_candidates, perplexity
from regard.metrics.named import CANDIDATES, OF_LISTS, OF_SOURCES
from regard.models import Acceptor, EncoderDecoder, Labelling, Rater, System
from regard.recipe.build import build_metrics
from regard.recipe.schema import EvaluationSection, Recipe
from regard.run.prediction import Prediction

if TYPE_CHECKING:
    from regard.run.model import Model

Judged = Sequence[tuple[Prediction, Example]]


def answers_wanted(recipe: Recipe, system: System, beam: int | None) -> int:
    """How many outputs of a source are compared: one, or for metrics of lists as many as the search has anyway."""
    if OF_LISTS.isdisjoint(recipe.evaluation.metrics):
        return 1
    if isinstance(system, Acceptor) and not isinstance(system, Rater):
        return CANDIDATES
    return min(CANDIDATES, beam or recipe.search.beam) if isinstance(system, EncoderDecoder) else 1


def compared(name: str, judged: Judged, *, labels: bool = False) -> tuple[list[str], list[list[str]]]:
    """Outputs and references for the metric of this name; of labels blanks around them mean nothing."""
    outputs = [
        join_candidates([one.text for one in prediction.outputs]) if name in OF_LISTS else prediction.text
        for prediction, _ in judged
    ]
    if name in OF_SOURCES:
        return outputs, [[example.source] for _, example in judged]
    return outputs, [[example.target.strip() if labels else example.target] for _, example in judged]


def metric_scores(section: EvaluationSection, judged: Judged, *, labels: bool = False) -> list[Score]:
    """The metrics that a recipe names."""
    return [
        evaluate(metric, *compared(metric.name, judged, labels=labels), resamples=section.resamples)
        for metric in build_metrics(section)
    ]


def likelihood_scores(model: "Model", examples: Sequence[Example]) -> list[Score]:
    """Perplexity of the given targets, per token of the model; of a language model, bits per character too."""
    scored = list(model.score_many((example.source, example.target) for example in examples))
    costs = [max(0.0, -one.log_probability) for one in scored]
    resamples = model.recipe.evaluation.resamples
    scores = [
        perplexity(
            costs,
            [len(one.log_probabilities) for one in scored],
            unit=model.texts.target.unit,
            name="perplexity" if isinstance(model.system, Labelling) else "perplexity (teacher-forced)",
            resamples=resamples,
        )
    ]
    if model.recipe.model.shape == "language-model":
        scores.append(bits_per_character(costs, [len(one.target) + 1 for one in scored], resamples=resamples))
    return scores
