"""A task for each shape of model that a tiny model learns in a second or two."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from regard.recipe import recipe_from
from regard.recipe.schema import Recipe

LETTERS = "abcdefgh"
VOWELS = "ae"


def run_of_letters(draw: random.Random) -> str:
    """Letters in their order, beginning anywhere: `f g h a`."""
    start, count = draw.randrange(8), draw.randint(3, 6)
    return " ".join(LETTERS[(start + place) % 8] for place in range(count))


def language(draw: random.Random) -> str:
    return run_of_letters(draw)


def category(draw: random.Random) -> str:
    """The topic says which letters there are."""
    topic = draw.choice(("low", "high"))
    letters = LETTERS[:4] if topic == "low" else LETTERS[4:]
    return f"{topic}\t{' '.join(draw.choices(letters, k=draw.randint(1, 4)))}"


def acceptor(draw: random.Random) -> str:
    """Is there a vowel?"""
    text = draw.choices(LETTERS, k=draw.randint(2, 5))
    return f"{' '.join(text)}\t{'vowel' if set(text) & set(VOWELS) else 'no vowel'}"


def rater(draw: random.Random) -> str:
    """How many vowels there are, of each item."""
    text = draw.choices(LETTERS, k=draw.randint(2, 5))
    return f"{' '.join(text)}\t{sum(letter in VOWELS for letter in text) / len(text):.3f}"


def transducer(draw: random.Random) -> str:
    """Words of several letters; a tag tells whether the first is a vowel."""
    words = ["".join(draw.choices(LETTERS, k=draw.randint(1, 3))) for _ in range(draw.randint(2, 4))]
    return f"{' '.join(words)}\t{' '.join('V' if word[0] in VOWELS else 'C' for word in words)}"


def factored(draw: random.Random) -> str:
    """A factor tells which letters become capitals."""
    text = draw.choices(LETTERS, k=draw.randint(2, 4))
    factor = draw.choices("ul", k=len(text))
    target = [letter.upper() if case == "u" else letter for letter, case in zip(text, factor, strict=True)]
    return f"{' '.join(text)}\t{' '.join(target)}\t{' '.join(factor)}"


def attributed(draw: random.Random) -> str:
    """An attribute tells whether letters become capitals."""
    text, case = " ".join(draw.choices(LETTERS, k=draw.randint(2, 4))), draw.choice(("up", "down"))
    return f"{text}\t{text.upper() if case == 'up' else text}\t{case}"


ATTENTION = {"heads": 2, "kind": "transformer"}
WORDS = {"unit": "word", "size": 50}
SHAPES: dict[str, tuple[Callable[[random.Random], str], dict[str, Any]]] = {
    "language": (
        language,
        {
            "data": {"format": "lines", "source": None, "target": 0},
            "text": WORDS,
            "model": {"shape": "language-model", "decoder": ATTENTION},
        },
    ),
    "recurrent language": (
        language,
        {
            "data": {"format": "lines", "source": None, "target": 0},
            "text": WORDS,
            "model": {"shape": "language-model", "decoder": {"kind": "rnn", "wiring": "none"}},
        },
    ),
    "category": (
        category,
        {
            "data": {"source": None, "target": 1, "attributes": [0]},
            "text": WORDS,
            "model": {"encoder": {"kind": "category"}, "decoder": {"kind": "rnn", "wiring": "every_step"}},
        },
    ),
    "acceptor": (
        acceptor,
        {
            "text": WORDS | {"shared": False, "target": {"unit": "label"}},
            "model": {"shape": "acceptor", "encoder": ATTENTION},
        },
    ),
    "rater": (
        rater,
        {
            "text": WORDS | {"shared": False, "target": {"unit": "number"}},
            "model": {"shape": "acceptor", "encoder": {"kind": "bag"}},
        },
    ),
    "transducer": (
        transducer,
        {
            "text": {"unit": "character", "shared": False, "target": {"unit": "word"}},
            "model": {"shape": "transducer", "encoder": {"kind": "rnn", "cell": "lstm"}},
        },
    ),
    "masked": (
        language,
        {
            "data": {"format": "lines", "source": 0, "target": None},
            "text": WORDS,
            "model": {"shape": "masked-language-model", "encoder": ATTENTION},
            "training": {"masking": {"share": 0.3}},
        },
    ),
    "factored masked": (
        lambda draw: "\t".join(factored(draw).split("\t")[::2]),
        {
            "data": {"source": 0, "target": None, "factors": [1]},
            "text": WORDS,
            "model": {"shape": "masked-language-model", "factor_width": 4, "encoder": ATTENTION},
        },
    ),
    "factored": (
        factored,
        {
            "data": {"factors": [2]},
            "text": WORDS | {"shared": False},
            "model": {"factor_width": 4, "encoder": {"kind": "rnn"}, "decoder": {"kind": "rnn", "wiring": "bahdanau"}},
            "evaluation": {"metrics": ["exact"]},
        },
    ),
    "attributed": (
        attributed,
        {
            "data": {"attributes": [2]},
            "text": WORDS | {"shared": False},
            "model": {"encoder": {"kind": "rnn"}, "decoder": {"kind": "rnn", "wiring": "bahdanau"}},
            "evaluation": {"metrics": ["exact"]},
        },
    ),
}


def shape_lines(name: str, count: int, *, seed: int = 1) -> list[str]:
    """Lines of the data of a shape."""
    draw = random.Random(seed)
    return [SHAPES[name][0](draw) for _ in range(count)]


def shape_recipe(name: str, folder: Path, *, steps: int) -> Recipe:
    """Writes training, validation and test data into a folder; the run stands in `run` there."""
    lines = shape_lines(name, 400)
    rest = len(lines) // 8
    sets = {"train": lines[2 * rest :], "valid": lines[:rest], "test": lines[rest : 2 * rest]}
    own = SHAPES[name][1]
    ending = "txt" if own.get("data", {}).get("format") == "lines" else "tsv"
    for part, texts in sets.items():
        (folder / f"{part}.{ending}").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    files = {part: str(folder / f"{part}.{ending}") for part in sets}
    training = {"steps": steps, "batch_tokens": 200, "learning_rate": 0.02, "warmup": 20, "label_smoothing": 0.0}
    training |= {"validate_every": max(1, steps // 2), **own.get("training", {})}
    return recipe_from(
        {
            "run": str(folder / "run"),
            "data": {"format": "tsv", **files, **own.get("data", {})},
            "text": own["text"],
            "model": {"width": 16, "layers": 1, "dropout": 0.0, **own["model"]},
            "training": training,
            "search": {"beam": 2, "batch_sentences": 8, "max_length": 12, "length_penalty": 0.0},
            "evaluation": {"resamples": 20, **own.get("evaluation", {})},
        }
    )
