"""A task of pictures that a small model learns in seconds: where is the bright square?"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from regard.recipe import recipe_from
from regard.recipe.schema import Recipe

CAPTIONS = ("left top", "left bottom", "right top", "right bottom")


def draw(caption: str, *, size: tuple[int, int], seed: int, colour: bool = False) -> Image.Image:
    """A bright square of 4 × 4 in one quarter of a dark, noisy picture of height × width."""
    random = np.random.default_rng(seed)
    height, width = size
    pixels = random.integers(0, 60, (height, width, 3) if colour else size, dtype=np.uint8)
    side, end = caption.split()
    top = random.integers(0, height // 2 - 3) + (height // 2) * (end == "bottom")
    left = random.integers(0, width // 2 - 3) + (width // 2) * (side == "right")
    pixels[top : top + 4, left : left + 4] = 230
    return Image.fromarray(pixels)


def drawn(folder: Path, count: int, *, seed: int = 0) -> Iterator[tuple[str, str]]:
    """(name of a file, caption), the files below `folder`, of three sizes."""
    (folder / "drawn").mkdir(parents=True, exist_ok=True)
    for number in range(count):
        caption, size = CAPTIONS[number % 4], ((12, 12), (12, 14), (13, 12))[number % 3]
        name = f"drawn/{seed}-{number}.png"
        draw(caption, size=size, seed=1000 * seed + number).save(folder / name)
        yield name, caption


def write_pictures(folder: Path, **columns: Any) -> None:
    """train.jsonl, valid.jsonl and test.jsonl with `file`, `caption`, and one more key for each of `columns`."""
    for seed, (name, count) in enumerate((("train", 120), ("valid", 24), ("test", 24))):
        records = ({"file": file, "caption": caption, **columns} for file, caption in drawn(folder, count, seed=seed))
        lines = "".join(f"{json.dumps(record)}\n" for record in records)
        (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")


def picture_recipe(folder: Path, run: Path, changes: dict[str, Any] | None = None, *, label: bool = False) -> Recipe:
    """A recipe for the pictures below a folder; `changes` are other sections."""
    text = {"shared": False, "target": {"unit": "label"}} if label else {"unit": "word"}
    model = {"shape": "acceptor"} if label else {"decoder": {"kind": "rnn", "layers": 1}}
    recipe: dict[str, Any] = {
        "run": str(run),
        "data": {name: str(folder / f"{name}.jsonl") for name in ("train", "valid", "test")}
        | {"format": "jsonl", "source": "file", "target": "caption", "max_length": 2},
        "text": text,
        "model": model | {"width": 16, "layers": 3, "dropout": 0.0, "encoder": {"kind": "convolution", "channels": 1}},
        "training": {"steps": 200, "batch_tokens": 160, "learning_rate": 0.005, "warmup": 20, "validate_every": 40},
        "evaluation": {"metrics": ["exact"], "resamples": 20},
    }
    for name, section in (changes or {}).items():
        recipe[name] = recipe.get(name, {}) | section
    return recipe_from(recipe)
