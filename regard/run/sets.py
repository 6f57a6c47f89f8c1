"""Sets of pairs that a user names beside a run: read in their own format, or as the run's training data was."""

from collections.abc import Sequence

from regard.data import Ledger, read_examples
from regard.data.example import Example
from regard.errors import UsageError
from regard.recipe.schema import Recipe


def read_set(recipe: Recipe, files: Sequence[str]) -> list[Example]:
    """Examples of one file of pairs, or of two parallel files. Their format is found by looking at them.

    Columns and keys that the recipe names hold here too, where the file is of the same format.
    """
    if len(files) > 2:
        raise UsageError(f"one file of pairs or two parallel files are needed, and {len(files)} were given")
    section = recipe.data
    same = (
        len(files) == 1
        and section.format in ("tsv", "jsonl")
        and files[0].removesuffix(".gz").endswith(f".{section.format}")
    )
    return list(
        read_examples(
            files[0] if len(files) == 1 else tuple(files),
            format=section.format if same else "auto",
            source=section.source if same else 0,
            target=section.target if same else 1,
            ledger=Ledger(),
        )
    )
