"""Sweeps: every combination of some settings, each from several seeds, in one table with means and intervals.

Each run is an ordinary one, in a folder of its own below the sweep's, and in a process of its own. The choice is made
by validation alone, as the recipe judges it; test scores are shown for all, and choose nothing. The best validation of
many is a little too good, and so is not what a new sample would give: what is reported are the test scores.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.errors import UsageError
from regard.metrics.spread import Spread, spread
from regard.recipe.schema import Recipe
from regard.run.api import Files, recipe_for
from regard.run.folder import RunFolder
from regard.run.grid import Combination, parse_grid
from regard.run.series import Failed, Finished, Job, Result, lower_is_better, train_all


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one combination reached over its seeds; `validation` is None where no run came to its end."""

    combination: Combination
    folder: Path
    validation: Spread | None
    scores: Mapping[str, Mapping[str, Spread]]
    failures: Mapping[int, Failed]
    minutes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """Rows in the order of the validation criterion, the best first."""

    folder: Path
    criterion: str
    lower_is_better: bool
    seeds: tuple[int, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]

    @property
    def chosen(self) -> Row | None:
        """The best by validation, where there is a choice."""
        ended = [row for row in self.rows if row.validation is not None]
        return ended[0] if ended and len(self.rows) > 1 else None

    @property
    def failures(self) -> list[str]:
        return [
            f"{row.combination.name}, seed {seed}: {failed.message}"
            for row in self.rows
            for seed, failed in row.failures.items()
        ]

    @property
    def exit_code(self) -> int:
        """That of the first run that failed, 0 where none did."""
        return next((failed.code for row in self.rows for failed in row.failures.values()), 0)


def sweep(
    what: Files,
    *settings: str,
    seeds: int = 1,
    workers: int = 1,
    overwrite: bool = False,
    tell: Callable[[str], None] = print,
) -> Sweep:
    """Train every combination from every seed, so many at a time; what is finished is not trained again.

    `sweep("recipe.yaml", "model.layers=1,2", "model.dropout=0,0.1", seeds=3)`
    """
    if seeds < 1:
        raise UsageError(f"seeds = {seeds}: there must be at least 1")
    grid = parse_grid(settings)
    base, _ = recipe_for(what, grid.fixed)
    folder = Path(f"{base.run}-sweep")
    recipes = {
        combination: recipe_for(what, (*grid.fixed, *combination.settings))[0] if combination.settings else base
        for combination in grid.combinations
    }
    numbers = tuple(range(base.seed, base.seed + seeds))
    jobs: list[Job] = []
    places: dict[tuple[Combination, int], str] = {}
    for combination, recipe in recipes.items():
        for seed in numbers:
            run = folder / combination.folder / f"seed-{seed}"
            name = f"[{len(jobs) + 1}/{len(recipes) * seeds}] {combination.name}, seed {seed}"
            jobs.append(Job(name, recipe.model_copy(update={"run": str(run), "seed": seed})))
            places[combination, seed] = name
    home = RunFolder(folder)
    home.make()
    with home.locked():
        results = train_all(jobs, workers=workers, tell=tell, overwrite=overwrite)
    lower = lower_is_better(base.training.select)
    rows = [
        _row(combination, folder / combination.folder, {seed: results[places[combination, seed]] for seed in numbers})
        for combination in recipes
    ]
    return Sweep(
        folder=folder,
        criterion=base.training.select,
        lower_is_better=lower,
        seeds=numbers,
        rows=tuple(sorted(rows, key=lambda row: _order(row, lower=lower))),
        notes=tuple(_notes(list(recipes), base, seeds)),
    )


def _row(combination: Combination, folder: Path, results: Mapping[int, Result]) -> Row:
    ended = [result for result in results.values() if isinstance(result, Finished)]
    names = {(group, name): None for one in ended for group, scores in one.scores.items() for name in scores}
    scores: dict[str, dict[str, Spread]] = {}
    for group, name in names:
        values = [one.scores[group][name] for one in ended if name in one.scores.get(group, {})]
        scores.setdefault(group, {})[name] = spread(values)
    return Row(
        combination=combination,
        folder=folder,
        validation=spread([one.validation for one in ended]) if ended else None,
        scores=scores,
        failures={seed: result for seed, result in results.items() if isinstance(result, Failed)},
        minutes=sum(one.seconds for one in ended) / 60,
    )


def _order(row: Row, *, lower: bool) -> tuple[bool, float]:
    if row.validation is None:
        return True, 0.0
    return False, row.validation.mean if lower else -row.validation.mean


def _notes(combinations: Sequence[Combination], base: Recipe, seeds: int) -> list[str]:
    """What a reader must know before comparing rows."""
    notes = []
    keys = {setting.partition("=")[0] for one in combinations for setting in one.settings}
    if base.training.select == "loss" and any(key.split(".")[0] in ("text", "data") for key in keys):
        notes.append(
            "the validation loss is per token, and cannot be compared between other texts or vocabularies; choose by "
            "a metric, as with training.select=BLEU"
        )
    if seeds > 1 and (base.data.valid is None or base.data.test is None):
        notes.append(
            "what the recipe does not name of validation and test data is split off by the seed: seeds differ in their "
            "data, too"
        )
    return notes
