"""Recipes to start from: `regard new TASK` writes one of them."""

from difflib import get_close_matches
from shlex import quote

from regard.errors import UsageError
from regard.recipe.layout import literals
from regard.recipe.read import recipe_from
from regard.recipe.rules import MEASURED
from regard.recipe.schema import Recipe
from regard.recipe.write import commented_recipe

_TEMPLATES: dict[str, tuple[str, dict[str, object]]] = {
    "translation": (
        "Translation: sentences of one language to sentences of another.\n"
        "train.tsv has a pair a line, source and target separated by a tab; two parallel files work, too:\n"
        "train: [train.en, train.de].",
        {
            "data": {"train": "train.tsv"},
            "text": {"unit": "bpe", "size": 6000},
            "model": {"layers": 4, "dropout": 0.3, "tie": "all"},
            "training": {"steps": 6000, "warmup": 1000, "average": 5},
        },
    ),
    "inflection": (
        "Inflection: a lemma and morphological features to a form.\n"
        "train.tsv has lemma, form and features a line, as in SIGMORPHON 2017; other orders: see `format`.",
        {
            "data": {"train": "train.tsv", "format": "sigmorphon2017", "max_length": 64},
            "text": {"unit": "character", "shared": False, "source": {"unit": "inflection"}},
            "model": {"layers": 3, "dropout": 0.3},
            "training": {"steps": 3000, "batch_tokens": 3000, "validate_every": 120, "select": "exact"},
            "search": {"max_length": 64},
            "evaluation": {"metrics": ["exact", "edit_distance", "accuracy"]},
        },
    ),
    "language": (
        "Language: which texts are probable. The model writes new ones and goes on with what it is given.\n"
        "train.txt has a text a line.",
        {
            "data": {"train": "train.txt", "format": "lines", "source": None, "target": 0},
            "text": {"unit": "bpe", "size": 6000},
            "model": {"shape": "language-model", "layers": 4, "dropout": 0.2},
            "training": {"steps": 6000, "warmup": 1000, "label_smoothing": 0.0},
            "search": {"length_penalty": 0.0},
        },
    ),
    "tagging": (
        "Tagging: a tag for each word, such as its part of speech.\n"
        "train.tsv has words and tags a line, separated by a tab: The cat sleeps<TAB>DET NOUN VERB.",
        {
            "data": {"train": "train.tsv", "format": "tsv"},
            "text": {"unit": "bpe", "size": 6000, "shared": False, "target": {"unit": "word", "size": 1000}},
            "model": {
                "shape": "transducer",
                "dropout": 0.3,
                "encoder": {"kind": "rnn", "cell": "lstm", "two_way": True},
            },
            "training": {"steps": 3000, "label_smoothing": 0.0, "validate_every": 200, "select": "accuracy"},
        },
    ),
    "classification": (
        "Classification: one label for each text, such as its topic or its sentiment.\n"
        "train.tsv has a text and its label a line, separated by a tab.",
        {
            "data": {"train": "train.tsv", "format": "tsv"},
            "text": {"unit": "bpe", "size": 6000, "shared": False, "target": {"unit": "label"}},
            "model": {"shape": "acceptor", "dropout": 0.3},
            "training": {"steps": 3000, "validate_every": 200, "select": "exact"},
        },
    ),
    "rating": (
        "Rating: one number for each text, such as how good it is or how hard to read.\n"
        "train.tsv has a text and its number a line, separated by a tab.",
        {
            "data": {"train": "train.tsv", "format": "tsv"},
            "text": {"unit": "bpe", "size": 6000, "shared": False, "target": {"unit": "number"}},
            "model": {"shape": "acceptor", "dropout": 0.3},
            "training": {"steps": 3000, "label_smoothing": 0.0, "validate_every": 200},
        },
    ),
    "generation": (
        "Generation: texts on a topic, in a style, by a speaker: a language model that is told what to write about.\n"
        "train.tsv has the topic and the text a line, separated by a tab; name more columns in `attributes`.",
        {
            "data": {"train": "train.tsv", "format": "tsv", "source": None, "target": 1, "attributes": [0]},
            "text": {"unit": "bpe", "size": 6000},
            "model": {
                "dropout": 0.2,
                "encoder": {"kind": "category"},
                "decoder": {"kind": "rnn", "cell": "lstm", "wiring": "every_step"},
            },
            "training": {"steps": 6000, "warmup": 1000, "label_smoothing": 0.0},
            "search": {"length_penalty": 0.0},
        },
    ),
    "captioning": (
        "Captioning: a text for each picture.\n"
        "train.tsv has the file of a picture and its text a line, separated by a tab; files are named from the folder "
        "of\n"
        "train.tsv. Pictures are read by the package pillow: pip install pillow.",
        {
            "data": {"train": "train.tsv", "format": "tsv"},
            "text": {"unit": "bpe", "size": 2000},
            "model": {
                "dropout": 0.2,
                "encoder": {"kind": "convolution", "layers": 3, "channels": 3},
                "decoder": {"kind": "rnn", "cell": "lstm", "wiring": "bahdanau"},
            },
            "training": {"steps": 6000, "batch_tokens": 1000, "warmup": 500},
            "search": {"max_length": 64},
        },
    ),
    "pretraining": (
        "Pretraining: a masked language model, from which other models may start (`model.start_from`).\n"
        "train.txt has a text a line.",
        {
            "data": {"train": "train.txt", "format": "lines", "source": 0, "target": None},
            "text": {"unit": "bpe", "size": 8000},
            "model": {"shape": "masked-language-model", "layers": 4, "encoder": {"activation": "gelu"}},
            "training": {"steps": 20000, "warmup": 2000, "label_smoothing": 0.0},
        },
    ),
}


def tasks() -> tuple[str, ...]:
    """The tasks that recipes can be for, in the order of the schema."""
    return tuple(str(task) for task in literals(Recipe.model_fields["task"].annotation))


def new_recipe(task: str, *, file: str | None = None) -> str:
    """A commented recipe for a task, to be edited and given to `regard train`; its head names the file it is in."""
    if task not in _TEMPLATES:
        near = get_close_matches(task, _TEMPLATES, n=1)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise UsageError(f"there is no recipe for the task {task!r}; there is one for {', '.join(_TEMPLATES)}{meant}")
    about, settings = _TEMPLATES[task]
    training = settings["training"]
    assert isinstance(training, dict)
    settings = {**settings, "training": {**training, **MEASURED}}
    recipe = recipe_from({"task": task, "run": f"runs/{task}", **settings}, name=f"the {task} template")
    name = quote(file or f"{task}.yaml")
    heading = (
        f"{about}\n\n"
        f"Train with:     regard train {name}\n"
        f"Change with:    regard train {name} training.steps=300 model.layers=2\n"
        "A setting that is left out has its default; the comments tell the default where this file differs from it."
    )
    return commented_recipe(recipe, heading=heading)
