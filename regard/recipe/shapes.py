"""What a shape of model asks of the rest of a recipe."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from regard.recipe.learning import learning_problems
from regard.recipe.sides import RecurrentDecoderSection

if TYPE_CHECKING:
    from regard.recipe.schema import Recipe

NUMBER_METRICS = frozenset({"pearson", "spearman", "squared_error"})
LIST_METRICS = frozenset({"MRR", "P@1", "P@3", "P@5", "P@10"})
SENTENCE_METRICS = frozenset({"BLEU", "chrF", "TER", "METEOR"})


@dataclass(frozen=True, slots=True)
class Use:
    """A setting that not every recipe makes use of: by whom it is used, and whether that is so in a recipe."""

    setting: str
    users: str
    used: Callable[["Recipe"], bool]


USES = (
    Use("training.masking", "a masked language model", lambda recipe: recipe.model.shape == "masked-language-model"),
    Use("text.reverse_target", "an encoder-decoder", lambda recipe: recipe.model.shape == "encoder-decoder"),
    Use("model.factors", "`data.factors`", lambda recipe: bool(recipe.data.factors)),
    Use(
        "model.factor_width",
        "`data.factors` with `model.factors: concat`",
        lambda recipe: bool(recipe.data.factors) and recipe.model.factors == "concat",
    ),
    Use("model.output_bias", "models with a decoder", lambda recipe: recipe.model.decoder.kind != "none"),
    Use(
        "model.tie",
        "models that write or find words, not for answers and tags",
        lambda recipe: recipe.model.shape not in ("acceptor", "transducer"),
    ),
    Use(
        "training.label_smoothing",
        "probabilities, not for numbers",
        lambda recipe: _target_unit(recipe) != "number" or recipe.training.label_smoothing == 0,
    ),
    Use("search.diversity", "`search.groups` of 2 or more", lambda recipe: recipe.search.groups > 1),
    Use(
        "search.coverage_penalty",
        "decoders with attention to a source",
        lambda recipe: recipe.model.shape == "encoder-decoder" and recipe.model.decoder.attends,
    ),
)


def shape_problems(recipe: "Recipe") -> Iterator[str]:
    """Where data, text and evaluation do not fit the shape of the model, and how that is mended."""
    yield from _source_problems(recipe)
    yield from _target_problems(recipe)
    yield from _metric_problems(recipe)
    yield from _column_problems(recipe)
    yield from _idle_settings(recipe)
    yield from learning_problems(recipe)


def _target_unit(recipe: "Recipe") -> str:
    text = recipe.text
    return text.target.unit if text.target else text.unit


def _category(recipe: "Recipe") -> bool:
    return recipe.model.encoder.kind == "category"


def _pictures(recipe: "Recipe") -> bool:
    return recipe.model.encoder.kind == "convolution"


def _reads(recipe: "Recipe") -> bool:
    """Whether there is a source, a text or a picture."""
    return recipe.model.shape != "language-model" and not _category(recipe)


def _words(recipe: "Recipe") -> bool:
    """Whether there is a source text."""
    return _reads(recipe) and not _pictures(recipe)


def _idle_settings(recipe: "Recipe") -> Iterator[str]:
    """Settings that differ from their default, for nothing."""
    for use in USES:
        name, _, field = use.setting.partition(".")
        section = getattr(recipe, name)
        usual = type(section).model_fields[field].get_default(call_default_factory=True)
        if getattr(section, field) != usual and not use.used(recipe):
            yield f"`{use.setting}` has no effect here, it is for {use.users}: leave it out"


def _source_problems(recipe: "Recipe") -> Iterator[str]:
    data, shape, category, reads = recipe.data, recipe.model.shape, _category(recipe), _reads(recipe)
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
    if data.factors and not _words(recipe):
        yield "`data.factors` belong to the words of a source, and there is none"


def _target_problems(recipe: "Recipe") -> Iterator[str]:
    data, text, shape, unit = recipe.data, recipe.text, recipe.model.shape, _target_unit(recipe)
    if (data.target is None) != (shape == "masked-language-model"):
        yield (
            f"`shape: {shape}` learns a target: name it in `data.target`"
            if data.target is None
            else "a masked language model has no target: set `data.target: null`"
        )
    if shape == "acceptor" and unit not in ("label", "number"):
        yield (
            f"an acceptor answers with one label or number, not with {unit}s: set `text.shared: false` and "
            "`text.target: {unit: label}` or `{unit: number}`"
        )
    if shape != "acceptor" and unit in ("label", "number"):
        yield f"`text.target.unit: {unit}` is for `shape: acceptor`"
    if shape == "transducer" and (unit != "word" or text.shared):
        yield "a transducer writes an item for each word: set `text.shared: false` and `text.target: {unit: word}`"
    if _pictures(recipe) and text.source:
        yield "`text.source` has no effect, for the source is a picture: leave it out"
    if _pictures(recipe) and shape == "acceptor" and text.start_from:
        yield "an acceptor of pictures has no text but its answers, which are learned: leave `text.start_from` out"
    captions = _pictures(recipe) and text.target is not None  # settings of the only text there is
    if not ((_words(recipe) and data.target is not None) or captions) and not text.shared and shape != "acceptor":
        yield "there is one text only, so there is one vocabulary: set `text.shared: true`"
    if text.dropout and (shape == "transducer" or data.factors):
        yield "`text.dropout` cuts words anew, and tags or factors of words would no longer fit: leave it out"
    if data.long_lines == "cut" and (shape == "transducer" or data.factors):
        yield "`data.long_lines: cut` would cut words from their tags or factors: take skip or refuse"
    if data.long_lines == "cut" and text.reverse_target:
        yield "`data.long_lines: cut` would cut the beginning of reversed targets: take skip or refuse"


def _metric_problems(recipe: "Recipe") -> Iterator[str]:
    shape = recipe.model.shape
    if shape in ("language-model", "masked-language-model") and recipe.evaluation.metrics:
        yield f"`shape: {shape}` is judged by its perplexity: leave `evaluation.metrics` out"
    if not recipe.evaluation.metrics and shape == "encoder-decoder" and not _category(recipe):
        yield "`evaluation.metrics` is empty: name what is measured"
    if recipe.training.select != "loss" and not recipe.evaluation.metrics:
        yield f"`training.select: {recipe.training.select}` needs outputs to judge, and there are none: take `loss`"
    if recipe.training.select in (*LIST_METRICS, "slot_error", "AER"):
        yield f"`training.select: {recipe.training.select}` is not of one output and its target: take another metric"
    named = sorted({*recipe.evaluation.metrics, recipe.training.select} - {"loss"})
    number = _target_unit(recipe) == "number"
    sentences = [name for name in named if name in SENTENCE_METRICS]
    if sentences and shape in ("acceptor", "transducer") and not number:
        fit, what = ("exact", "one label") if shape == "acceptor" else ("accuracy or exact", "a tag for each word")
        yield f"{', '.join(sentences)} compare sentences, and `shape: {shape}` answers with {what}: take {fit}"
    misplaced = [name for name in named if (name in NUMBER_METRICS) != number]
    if misplaced and number:
        yield f"{', '.join(misplaced)} compare texts, and targets are numbers: take pearson or squared_error"
    elif misplaced:
        yield f"only numbers have {', '.join(misplaced)}, and targets are not of `text.target.unit: number`"


def _column_problems(recipe: "Recipe") -> Iterator[str]:
    """Of factors and attributes."""
    data, model = recipe.data, recipe.model
    if data.factors and model.factors == "concat":
        if model.factor_width * len(data.factors) >= model.width:
            yield (
                f"{len(data.factors)} factors of `model.factor_width: {model.factor_width}` leave no room for the word "
                f"in `model.width: {model.width}`"
            )
        if model.tie == "all":
            yield "`model.tie: all` needs one width, and words have less beside their factors: take `factors: sum`"
    if not data.attributes or _category(recipe) or not isinstance(model.decoder, RecurrentDecoderSection):
        return
    if model.decoder.wiring == "initial":
        yield "`decoder.wiring: initial` would not see `data.attributes`: take `transformed` or `every_step`"
    if model.decoder.window is not None:
        yield "`decoder.window` lies around a word of the source, and `data.attributes` stand outside: leave it out"
