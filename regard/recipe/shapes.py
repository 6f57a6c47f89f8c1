"""What a shape of model asks of the rest of a recipe."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from regard.recipe.sides import RecurrentDecoderSection

if TYPE_CHECKING:
    from regard.recipe.schema import Recipe


def shape_problems(recipe: "Recipe") -> Iterator[str]:
    """Where data, text and evaluation do not fit the shape of the model, and how that is mended."""
    data, text, model = recipe.data, recipe.text, recipe.model
    shape, category = model.shape, model.encoder.kind == "category"
    reads = shape != "language-model" and not category
    pictures = model.encoder.kind == "convolution"
    words = reads and not pictures
    if category and shape != "encoder-decoder":
        yield f"`encoder.kind: category` is for `shape: encoder-decoder`, not for `shape: {shape}`"
    if reads and data.source is None:
        yield f"`shape: {shape}` reads a source: name it in `data.source`"
    if not reads and data.source is not None:
        what = (
            "`encoder.kind: category` reads `data.attributes` only" if category else f"`shape: {shape}` has no source"
        )
        yield f"{what}: set `data.source: null`"
    if category and not data.attributes:
        yield "`encoder.kind: category` needs something to read: name columns or keys in `data.attributes`"
    if data.attributes and shape in ("language-model", "transducer", "masked-language-model"):
        yield f"`data.attributes` have no place in `shape: {shape}`; they join an encoder-decoder or an acceptor"
    if data.factors and not words:
        yield "`data.factors` belong to the words of a source, and there is none"
    if (data.target is None) != (shape == "masked-language-model"):
        yield (
            f"`shape: {shape}` learns a target: name it in `data.target`"
            if data.target is None
            else "a masked language model has no target: set `data.target: null`"
        )
    unit = text.target.unit if text.target else text.unit
    if shape == "acceptor" and unit not in ("label", "number"):
        yield (
            f"an acceptor answers with one label or number, not with {unit}s: set `text.shared: false` and "
            "`text.target: {unit: label}` or `{unit: number}`"
        )
    if shape != "acceptor" and unit in ("label", "number"):
        yield f"`text.target.unit: {unit}` is for `shape: acceptor`"
    if shape == "transducer" and (unit != "word" or text.shared):
        yield "a transducer writes an item for each word: set `text.shared: false` and `text.target: {unit: word}`"
    if pictures and text.source:
        yield "`text.source` has no effect, for the source is a picture: leave it out"
    if pictures and shape == "acceptor" and text.start_from:
        yield "an acceptor of pictures has no text but its answers, which are learned: leave `text.start_from` out"
    if not (words and data.target is not None) and not text.shared and shape != "acceptor":
        yield "there is one text only, so there is one vocabulary: set `text.shared: true`"
    if text.dropout and (shape == "transducer" or data.factors):
        yield "`text.dropout` cuts words anew, and tags or factors of words would no longer fit: leave it out"
    if data.long_lines == "cut" and (shape == "transducer" or data.factors):
        yield "`data.long_lines: cut` would cut words from their tags or factors: take skip or refuse"
    if shape in ("language-model", "masked-language-model") and recipe.evaluation.metrics:
        yield f"`shape: {shape}` is judged by its perplexity: leave `evaluation.metrics` out"
    if not recipe.evaluation.metrics and shape == "encoder-decoder" and not category:
        yield "`evaluation.metrics` is empty: name what is measured"
    if recipe.training.select != "loss" and not recipe.evaluation.metrics:
        yield f"`training.select: {recipe.training.select}` needs outputs to judge, and there are none: take `loss`"
    measured = {*recipe.evaluation.metrics, recipe.training.select} & {"pearson", "squared_error"}
    if measured and unit != "number":
        yield f"only numbers have {', '.join(sorted(measured))}, and targets are not of `text.target.unit: number`"
    if data.factors and model.factors == "concat":
        if model.factor_width * len(data.factors) >= model.width:
            yield (
                f"{len(data.factors)} factors of `model.factor_width: {model.factor_width}` leave no room for the word "
                f"in `model.width: {model.width}`"
            )
        if model.tie == "all":
            yield "`model.tie: all` needs one width, and words have less beside their factors: take `factors: sum`"
    if (
        data.attributes
        and isinstance(model.decoder, RecurrentDecoderSection)
        and not category
        and model.decoder.wiring == "initial"
    ):
        yield "`decoder.wiring: initial` would not see `data.attributes`: take `transformed` or `every_step`"
    if shape in ("acceptor", "transducer") and model.tie == "all":
        yield f"`shape: {shape}` has no embeddings of the target to share: leave `model.tie` out"
