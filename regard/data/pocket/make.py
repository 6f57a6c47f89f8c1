"""Write the pocket world to a folder: pairs in .tsv, gold annotations in .jsonl beside them."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from regard.data.pocket.splits import examples
from regard.data.pocket.world import World
from regard.errors import UsageError
from regard.files import replace_file

TASKS: Final = ("translation",)


@dataclass(frozen=True, slots=True)
class Made:
    """What was written: lines per set, and the logarithm of the share of the grammar that training is drawn from.

    `log_mass_by_topic` has the parts of that share.
    """

    folder: Path
    files: tuple[Path, ...]
    lines: Mapping[str, int]
    held_out: frozenset[tuple[str, str]]
    log_mass: float
    log_mass_by_topic: Mapping[str, float]


def make(
    folder: Path, *, task: str = "translation", size: int = 20000, seed: int = 1, source: str = "en", target: str = "de"
) -> Made:
    """Write train, valid, test and combinations, each as .tsv (source, tab, target) and .jsonl, and `pocket.json`.

    The same arguments give the same bytes. Every line of a .jsonl file has an answer for every shape of model: the
    translation, tags, a tree, lemmas, and a topic, a sentiment and a rating (see `labels`). `log_probability` is the
    grammar's; under the distribution of the training sentences, which have no held-out combination, it is
    log_probability - log_mass, and given the topic log_probability - log_mass_by_topic[topic] (see `exact`).
    """
    if task not in TASKS:
        raise UsageError(f"the pocket world has no task {task!r}; choose one of {', '.join(TASKS)}")
    world = World()
    splits = examples(size=size, seed=seed, source=source, target=target, world=world)
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; name a folder to write the pocket world to")
    folder.mkdir(parents=True, exist_ok=True)
    files: list[Path] = []
    lines: dict[str, int] = {}
    for name, pairs in splits.named().items():
        files.append(_write(folder / f"{name}.tsv", (f"{pair.source}\t{pair.target}" for pair in pairs)))
        rows = (json.dumps(pair.record(), ensure_ascii=False) for pair in pairs)
        files.append(_write(folder / f"{name}.jsonl", rows))
        lines[name] = len(pairs)
    log_mass = round(world.log_mass(splits.held_out), 6)
    by_topic = {topic: round(value, 6) for topic, value in world.log_mass_by_topic(splits.held_out).items()}
    about = {
        "format": 1,
        "task": task,
        "size": size,
        "seed": seed,
        "source": source,
        "target": target,
        "held_out": sorted(splits.held_out),
        "log_mass": log_mass,
        "log_mass_by_topic": by_topic,
    }
    files.append(_write(folder / "pocket.json", [json.dumps(about)]))
    return Made(folder, tuple(files), lines, splits.held_out, log_mass, by_topic)


def _write(path: Path, lines: Iterable[str]) -> Path:
    """Write all lines or nothing."""
    replace_file(path, "".join(f"{line}\n" for line in lines).encode())
    return path
