"""A model that is judged by other metrics than its recipe names."""

from collections.abc import Mapping, Sequence

from regard.errors import UsageError
from regard.metrics import metric as named_metric
from regard.metrics.overlap import check_tokenize
from regard.recipe.schema import EvaluationSection
from regard.run.model import Model


def measured_by(
    model: Model,
    *,
    metrics: Sequence[str] = (),
    tokenize: str | None = None,
    meteor: Mapping[str, str | None] | None = None,
) -> Model:
    """The same model; what is None or empty stays as in its recipe. Keys of `meteor` are those of the recipe."""
    section = model.recipe.evaluation
    changes: dict[str, object] = {}
    if metrics:
        if model.recipe.model.shape in ("language-model", "masked-language-model"):
            raise UsageError(f"a model of shape {model.recipe.model.shape} has no outputs to be judged by {metrics[0]}")
        for name in metrics:
            if name != "METEOR":
                named_metric(name)
        changes["metrics"] = tuple(dict.fromkeys(metrics))
    if tokenize is not None:
        check_tokenize(tokenize, "words")
        changes["tokenize"] = tokenize
    given = {name: value for name, value in (meteor or {}).items() if value is not None}
    if given:
        if "METEOR" not in changes.get("metrics", section.metrics):  # type: ignore[operator]
            raise UsageError(f"{', '.join(given)} can only have an effect on METEOR; ask for --metric METEOR, too")
        changes["meteor"] = section.meteor.model_copy(update=given)
    if not changes:
        return model
    evaluation: EvaluationSection = section.model_copy(update=changes)
    return model.with_recipe(model.recipe.model_copy(update={"evaluation": evaluation}))
