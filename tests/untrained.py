"""Run folders that never saw a training: wild weights, real files. They are made in no time, for tests of many runs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from regard.recipe import recipe_from
from regard.recipe.build import system_for
from regard.recipe.schema import Recipe
from regard.recipe.texts import Texts, train_texts
from regard.run.folder import RunFolder
from regard.training import Checkpoint, weights
from tests.toys import toy_pairs

TRANSFORMER = {"kind": "transformer", "heads": 2}
RECURRENT = {"encoder": {"kind": "rnn"}, "decoder": {"kind": "rnn", "wiring": "bahdanau"}}
SPLIT: dict[str, Any] = {"unit": "word", "size": 50, "shared": False}
LANGUAGE: dict[str, Any] = {
    "data": {"format": "lines", "source": None, "target": 0},
    "text": {"unit": "word", "size": 50},
    "model": {"shape": "language-model", "decoder": TRANSFORMER},
}
"""What of a recipe makes a run a language model of the targets."""


def untrained_run(
    folder: Path,
    *,
    seed: int,
    pairs: list[tuple[str, str]] | None = None,
    steps: tuple[int, ...] = (),
    **sections: Mapping[str, Any],
) -> Path:
    """A run folder with checkpoints of some steps; sections stand in place of those of a small Transformer."""
    given = pairs or toy_pairs(60)
    usual = {"encoder": TRANSFORMER, "decoder": TRANSFORMER}
    own = dict(sections.get("model", {}))
    recipe = recipe_from(
        {
            "run": str(folder),
            "data": {"train": "toy.tsv", "max_length": 30, **sections.get("data", {})},
            "text": dict(sections.get("text", SPLIT)),
            "model": {"width": 8, "layers": 1, "dropout": 0.0, **({} if "shape" in own else usual), **own},
            "search": {"beam": 3, "batch_sentences": 4, "max_length": 9},
            "evaluation": {"resamples": 20} | dict(sections.get("evaluation", {})),
        }
    )
    run = RunFolder(folder)
    run.create()
    run.write_recipe(recipe)
    sources = [source for source, _ in given] if recipe.data.source is not None else []
    texts = train_texts(recipe, sources, [target for _, target in given])
    texts.save(folder)
    for number, step in enumerate(steps, start=1):
        run.checkpoints.save(Checkpoint(step=step, model=_drawn(recipe, texts, seed + number), optimizer={}, state={}))
    run.write_weights(_drawn(recipe, texts, seed))
    return folder


def _drawn(recipe: Recipe, texts: Texts, seed: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.randn(tensor.shape, generator=generator) * 0.6
        for name, tensor in weights(system_for(recipe, texts)).items()
    }
