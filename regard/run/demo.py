"""The demonstration: a small Transformer learns to translate the pocket world, and shows what it learned."""

from collections.abc import Sequence
from pathlib import Path

from regard.data.pocket import make
from regard.recipe import override_recipe, recipe_from
from regard.recipe.schema import Recipe
from regard.run.training import Trained, train
from regard.training import Observer

SIZE = 20_000


def demo_recipe(folder: Path) -> Recipe:
    """A Transformer of two small layers on English-German pocket sentences."""
    data = folder / "pocket"
    return recipe_from(
        {
            "task": "translation",
            "run": str(folder),
            "data": {
                "train": str(data / "train.jsonl"),
                "valid": str(data / "valid.jsonl"),
                "test": str(data / "test.jsonl"),
                "further": {"combinations": str(data / "combinations.jsonl")},
                "format": "jsonl",
                "source": "source",
                "target": "target",
            },
            "text": {"unit": "word", "size": 8000, "shared": False},
            "model": {"width": 128, "layers": 2, "dropout": 0.0, "tie": "target"},
            "training": {
                "epochs": 6,
                "batch_tokens": 1000,
                "learning_rate": 2e-3,
                "warmup": 300,
                "label_smoothing": 0.05,
                "average": 2,
            },
            "search": {"beam": 4},
            "evaluation": {"tokenize": "none"},
        }
    )


def demo(
    folder: Path, *, overrides: Sequence[str] = (), observers: Sequence[Observer] = (), overwrite: bool = False
) -> Trained:
    """Make the data, train, evaluate; everything goes into one folder."""
    make(folder / "pocket", size=SIZE)
    recipe = override_recipe(demo_recipe(folder), overrides)
    return train(recipe, observers=observers, overwrite=overwrite)
