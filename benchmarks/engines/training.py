"""The runs that the engine is held on, trained for it: models A, B and C, and others that people deploy.

Recipes of recipes/multi30k, with the sizes of `benchmarks/speed.py` and a shorter training where theirs takes long; a
German inflection by what `regard train` chooses. All together take about an hour and a half on two cores. Trainings
have a number of updates, so that what they learn does not depend on what else the machine does.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from multi30k.corpus import place_corpus
from multi30k.running import command, recipe_path

from regard.files import replace_file

INFLECTION: Final = "inflection/sigmorphon2016_task1"
"""German of this year has 15,332 words to test on: one of them is far less than what may be lost in 8 bits."""

FALLING: Final = (
    "training.minutes=null",
    "training.schedule=linear",
    "training.warmup=300",
    "training.average=1",
    "training.validate_every=400",
)
"""What makes a short training of a recipe: one fall of the learning rate, over as many steps as are given."""

RECURRENT: Final = (*FALLING, "training.fall={}")
WIDE: Final = ("model.width=512", "training.batch_tokens=2048", "training.learning_rate=0.001")
"""What makes a large model of a small recipe."""

RECIPES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "A": ("ende_tiny_short", ()),
    "B": (
        "ende_tiny_short",
        (
            *FALLING,
            *WIDE,
            "training.steps=1100",
            "model.layers=3",
            *(f"model.{side}.heads=8" for side in ("encoder", "decoder")),
            *(f"model.{side}.feedforward=1024" for side in ("encoder", "decoder")),
        ),
    ),
    "C": (
        "ende_luong",
        (
            *RECURRENT,
            *WIDE,
            "training.steps=1200",
            "model.encoder={kind: rnn, cell: lstm, two_way: true, width: 256}",
            "model.decoder={kind: rnn, cell: lstm, wiring: luong, score: additive, input_feeding: true}",
        ),
    ),
    "bahdanau": ("ende_bahdanau", (*RECURRENT, "training.steps=1500")),
    "luong": (
        "ende_luong",
        (*RECURRENT, "model.encoder.cell=lstm", "model.decoder.cell=lstm", "training.steps=1200"),
    ),
}
"""By name: a recipe of recipes/multi30k and what is changed in it."""

NAMES: Final = (*RECIPES, "inflection")
MINUTES: Final = 8
"""Of the inflection."""


def train(names: Sequence[str], folder: Path, *, threads: int) -> dict[str, Path]:
    """The runs by name; what is trained already is not trained again, what was stopped goes on."""
    place_corpus(folder, small=False)
    runs = {}
    for name in names:
        runs[name] = folder / "runs" / name
        settings = [f"run=runs/{name}", f"training.threads={threads}"]
        if name in RECIPES:
            recipe, changes = RECIPES[name]
            copy = folder / "recipes/multi30k" / f"{recipe}.yaml"
            copy.parent.mkdir(parents=True, exist_ok=True)
            replace_file(copy, recipe_path(recipe).read_bytes())
            given = [str(copy.relative_to(folder)), *changes]
        else:
            corpus = Path(os.environ["REGARD_DATA"]).resolve() / INFLECTION
            given = [str(corpus / "german.train.tsv.gz"), f"training.minutes={MINUTES}"]
            given += [f"data.{part}={corpus}/german.{file}.tsv" for part, file in (("valid", "dev"), ("test", "test"))]
        command("train", *given, *settings, folder=folder, threads=threads)
    return runs
