"""Experiments without training: search, ensembles, averages and minimum Bayes risk with finished runs.

They are judged on validation data, like every experiment.
"""

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from published.entries import kept_value
from published.heads import settings_hash

import regard
from multi30k.corpus import part_files
from multi30k.plan import Planned
from multi30k.rows import Cost, Row
from multi30k.running import begun_with, place_of, recipe_path
from regard.metrics import evaluate, metric
from regard.recipe import override_recipe
from regard.run.model import Model


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """Finished runs of a recipe by their seeds, and how they write: together, if there are several."""

    row: Planned
    seeds: tuple[int, ...]
    threads: int
    experiment: str
    search: tuple[str, ...] = ()
    average: int | None = None
    mbr: str | None = None

    @property
    def recipe(self) -> str:
        """The text of the recipe."""
        return recipe_path(self.row.recipe).read_text(encoding="utf-8")

    @property
    def settings(self) -> tuple[str, ...]:
        """What is told of it in a row."""
        told = [f"seeds={','.join(map(str, self.seeds))}"]
        told += [] if self.average is None else [f"average={self.average}"]
        told += [] if self.mbr is None else [f"mbr={self.mbr}"]
        return (*told, *self.search)


def check(asked: Decoding) -> None:
    """Refuse settings that would need a training."""
    trained = [setting for setting in asked.search if not setting.startswith("search.")]
    if trained:
        raise SystemExit(f"{trained[0]} needs a training; --decode takes settings of search.* only")


def decode(asked: Decoding, folder: Path) -> Row:
    """Translate the validation set, and make the row of it."""
    import torch

    torch.set_num_threads(asked.threads)
    runs = [folder / "runs" / f"{asked.row.recipe}-{seed}" for seed in asked.seeds]
    missing = [run.name for run in runs if not (run / "metrics.json").exists()]
    if missing:
        raise SystemExit(f"not trained yet: {', '.join(missing)}")
    model = regard.load(*runs, average=asked.average)
    if asked.search:
        model = model.with_recipe(override_recipe(model.recipe, asked.search))
    source, target = (str(folder / name) for name in part_files(asked.row, "val"))
    examples = model.examples(source, target)
    began, cpu = time.perf_counter(), time.process_time()
    outputs = written(model, [example.source for example in examples], asked)
    minutes, cpu_minutes = (time.perf_counter() - began) / 60, (time.process_time() - cpu) / 60
    section = model.recipe.evaluation
    scores = [
        evaluate(judge, outputs, [[example.target] for example in examples], resamples=section.resamples)
        for judge in (metric("BLEU", tokenize=section.tokenize), metric("chrF"))
    ]
    state = begun_with(asked.row, asked.recipe, {"commits": [], "clean": True})
    return Row(
        recipe=asked.row.recipe,
        recipe_hash=settings_hash(asked.recipe),
        seed=asked.seeds[0],
        experiment=asked.experiment,
        settings=asked.settings,
        finished=datetime.now(UTC).strftime("%Y-%m-%d"),
        place=place_of(state, asked.threads),
        cost=Cost(minutes=round(minutes, 2), training_minutes=0, cpu_minutes=round(cpu_minutes, 2), steps=0, epochs=0),
        parameters=model.parameters,
        curve=(),
        validation={score.name: kept_value(score.to_json()) for score in scores},
    )


def written(model: Model, sources: list[str], asked: Decoding) -> list[str]:
    """Outputs by the search of the recipe, or the least risky of samples (of a beam, where its width is set)."""
    from regard.cli.risk import search_for

    widened = any(setting.startswith("search.beam=") for setting in asked.search)
    beam = model.recipe.search.beam if widened and asked.mbr else None
    options, risk = search_for(model, {}, beam=beam, best=1, mbr=asked.mbr, samples=None)
    return [prediction.text for prediction in model.predict_many(sources, options=options, risk=risk)]
