"""A task that a tiny model learns in a second, for the tests of training, runs and commands.

`c a e` becomes `C A E`: each letter is a word, word i of the target belongs to word i of the source.
"""

import json
import random
from pathlib import Path

from regard.data import Ledger, Store, prepare
from regard.data.collation import SourceTexts, TextCollation
from regard.data.example import Example, Place
from regard.models import EncoderDecoder
from regard.recipe import recipe_from
from regard.recipe.build import build_system
from regard.recipe.schema import ModelSection, Recipe
from regard.special import FIRST_FREE
from regard.text import WordTokenizer

LETTERS = "abcdefgh"
VOCABULARY = FIRST_FREE + len(LETTERS)


def toy_sources(count: int, *, seed: int = 1, longest: int = 6) -> list[str]:
    """Different sources."""
    draw = random.Random(seed)
    found: dict[str, None] = {}
    while len(found) < count:
        found[" ".join(draw.choices(LETTERS, k=draw.randint(2, longest)))] = None
    return list(found)


def toy_pairs(count: int, *, seed: int = 1) -> list[tuple[str, str]]:
    return [(source, source.upper()) for source in toy_sources(count, seed=seed)]


def write_tsv(path: Path, pairs: list[tuple[str, str]]) -> Path:
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    return path


def write_jsonl(path: Path, pairs: list[tuple[str, str]]) -> Path:
    """Pairs with their gold alignment."""
    records = (
        {
            "source": source,
            "target": target,
            "alignment": " ".join(f"{word}-{word}" for word in range(len(source.split()))),
        }
        for source, target in pairs
    )
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def toy_ids(text: str) -> list[int]:
    return [FIRST_FREE + LETTERS.index(letter) for letter in text.lower().split()]


def toy_store(folder: Path, count: int = 40) -> Store:
    """Toy pairs as ids."""
    examples = [
        Example({"source": source, "target": target}, Place("toy", number))
        for number, (source, target) in enumerate(toy_pairs(count), start=1)
    ]
    return prepare(
        examples,
        streams=("source", "target"),
        encode=lambda source, target: {"source": toy_ids(source), "target": toy_ids(target)},
        folder=folder,
        key=f"toy-{count}",
        bad_lines="refuse",
        empty_lines="refuse",
        long_lines="refuse",
        max_length=50,
        ledger=Ledger(),
    )


def toy_collation() -> TextCollation:
    """How toy rows become batches; the words are those of the targets."""
    words = WordTokenizer(words=LETTERS.upper())
    return TextCollation(source=SourceTexts(text=words), target=words)


def toy_system(*, dropout: float = 0.1, kind: str = "transformer") -> EncoderDecoder:
    """A system of one layer and width 16, drawn from torch's random state."""
    side = {"kind": kind} | ({"heads": 2} if kind == "transformer" else {})
    section = ModelSection.model_validate(
        {"width": 16, "layers": 1, "dropout": dropout, "encoder": side, "decoder": side}
    )
    return build_system(section, source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY)


def toy_recipe(folder: Path, train: Path, *overrides: str) -> Recipe:
    """A recipe for toy pairs; validation and test data are split off."""
    mapping: dict[str, object] = {
        "run": str(folder),
        "data": {"train": str(train)},
        "text": {"unit": "word", "size": 50, "shared": False},
        "model": {
            "width": 16,
            "layers": 1,
            "dropout": 0.0,
            "encoder": {"kind": "transformer", "heads": 2},
            "decoder": {"kind": "transformer", "heads": 2},
        },
        "training": {
            "steps": 12,
            "batch_tokens": 300,
            "learning_rate": 0.02,
            "warmup": 20,
            "validate_every": 6,
            "save_every": 3,
            "label_smoothing": 0.0,
        },
        "search": {"beam": 2, "batch_sentences": 16},
        "evaluation": {"metrics": ["exact", "BLEU"], "tokenize": "none", "resamples": 50},
    }
    return recipe_from(mapping, overrides)
