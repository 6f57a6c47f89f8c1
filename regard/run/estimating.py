"""What a run will take, from a short trial of it: time and memory.

The trial is the beginning of the run in a folder that is thrown away: the same preparation (of cached stores, if they
are there), the same updates, validations and searches, only few of them.

    time = preparation + steps · update + validations · validation + evaluation

An update costs by its tokens. Evaluation is tried on more and more examples of the test set, and carried on along a
straight line. A model that has learned nothing does not end its outputs, so they get the length of the references.
"""

import math
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
import torch

from regard.data.corpus import StoreCorpus
from regard.data.example import Example
from regard.process import memory_peak
from regard.recipe.schema import Recipe
from regard.run.folder import RunFolder
from regard.run.model import Model
from regard.run.preparation import Prepared
from regard.run.settling import likely_steps
from regard.run.training import Built, build, prepare
from regard.run.validation import spread
from regard.training import Trainer
from regard.training.processes import Alone

SECONDS: Final = 30.0
"""That a trial may take, preparation aside."""

UPDATES: Final = 0.5
"""Share of the trial for updates; the rest is for validation and evaluation."""

WARM, FEWEST, MOST = 2, 3, 200
"""Updates that do not count, and how many do."""

FIRST: Final = 8
"""Examples that evaluation is first tried on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Seconds and bytes; `by_patience` says that the run may end sooner."""

    way: str
    steps: int
    tokens_per_second: float
    step_seconds: float
    preparation_seconds: float
    training_seconds: float
    validations: int
    validation_seconds: float
    evaluation_seconds: float
    memory: int
    memory_free: int | None
    advice: str
    by_patience: bool
    trial_seconds: float

    @property
    def total_seconds(self) -> float:
        """The whole run."""
        validating = self.validations * self.validation_seconds
        return self.preparation_seconds + self.training_seconds + validating + self.evaluation_seconds

    def to_json(self) -> dict[str, Any]:
        return {"format": 1, **asdict(self), "total_seconds": self.total_seconds}


def estimate(recipe: Recipe, *, seconds: float = SECONDS) -> Estimate:
    """Try a recipe for so long; nothing is left of the trial but prepared stores in the cache.

    Memory is that of this process, which should have done nothing else before.
    """
    with tempfile.TemporaryDirectory(prefix="regard-estimate-") as place:
        recipe = recipe.model_copy(update={"run": place})
        folder = RunFolder(Path(place))
        began = time.perf_counter()
        prepared = prepare(recipe, folder, Alone())
        ready = time.perf_counter()
        built = build(recipe, folder, prepared, Alone())
        return _tried(built, prepared, ready - began, seconds)


def _tried(built: Built, prepared: Prepared, preparation: float, seconds: float) -> Estimate:
    began = time.perf_counter()
    trainer, model, corpus = built.trainer, built.model, built.trainer.corpus
    assert isinstance(corpus, StoreCorpus)
    pace, tokens = pace_of(trainer, corpus, seconds * UPDATES)
    epoch = corpus.batches_in_epoch()
    each = pace * tokens
    settings = trainer.settings
    steps = likely_steps(settings, epoch)
    validation = built.judge.expected_seconds(model.system)
    every = settings.validate_every or epoch
    if settings.minutes is not None:
        steps = min(steps, 60 * settings.minutes / (each + validation / every))
    validations = math.ceil(steps / every)
    if settings.average > 1:
        validations += 2  # of the best weights and of the average
    left = seconds - (time.perf_counter() - began)
    evaluation = evaluation_seconds(model, prepared, left)
    outlook = built.outlook
    return Estimate(
        way=f"{settings.precision}, {_threads(settings.lanes)}",
        steps=round(steps),
        tokens_per_second=1 / pace,
        step_seconds=each,
        preparation_seconds=preparation,
        training_seconds=steps * each,
        validations=validations,
        validation_seconds=validation,
        evaluation_seconds=evaluation,
        memory=max(memory_peak(), 0 if outlook is None else outlook.memory.peak),
        memory_free=None if outlook is None else outlook.free,
        advice="" if outlook is None else outlook.advice,
        by_patience=settings.patience is not None,
        trial_seconds=time.perf_counter() - began,
    )


def _threads(lanes: int) -> str:
    count = torch.get_num_threads()
    return f"{count} thread{'' if count == 1 else 's'}" + (f" in {lanes} lanes" if lanes > 1 else "")


def pace_of(trainer: Trainer, corpus: StoreCorpus, seconds: float) -> tuple[float, float]:
    """Seconds of training for each token, and tokens of an update; the largest batch is tried first, for its memory."""
    for batch in corpus.largest(trainer.settings.accumulate)[:1]:
        trainer.learner.module.train()
        trainer.backward([batch], 1)
    until = time.perf_counter() + seconds
    times: list[float] = []
    tokens: list[int] = []
    batches = trainer.dealt(trainer.progress.cursor, trainer.parts)
    while len(times) < WARM + MOST and (len(times) < WARM + FEWEST or time.perf_counter() < until):
        began, before = time.perf_counter(), trainer.progress.tokens
        cursor, parts = next(batches)
        trainer.learner.module.train()
        trainer.update(parts, cursor)
        times.append(time.perf_counter() - began)
        tokens.append(trainer.progress.tokens - before)
    paces = [spent / max(1, count) for spent, count in zip(times[WARM:], tokens[WARM:], strict=True)]
    return median(paces), float(np.mean(tokens[WARM:]))


def evaluation_seconds(model: Model, prepared: Prepared, seconds: float) -> float:
    """How long it takes to judge the model on all sets, and to choose how its attention is read."""
    count = sum(len(examples) for examples in prepared.tests.values())
    test = prepared.tests["test"]
    lengths = [len(model.texts.target.encode(one.target).ids) for one in spread_over(test, 100)]
    search = model.recipe.search.model_copy(update={"max_length": max(1, round(float(np.mean(lengths))) + 1)})
    model.system.eval()
    limited = model.with_recipe(model.recipe.model_copy(update={"search": search}))
    whole = _carried_on(limited.evaluate, test, count, seconds * 0.8)
    reading = _carried_on(limited.best_reading, prepared.valid_examples, len(prepared.valid_examples), seconds * 0.2)
    return whole + reading


def spread_over(examples: Sequence[Example], count: int) -> list[Example]:
    """Some examples, evenly from the whole of a set."""
    return [examples[place] for place in spread(len(examples), count, 0)]


def _carried_on(
    work: Callable[[Sequence[Example]], object], examples: Sequence[Example], count: int, seconds: float
) -> float:
    """Seconds of some work on `count` examples, from trials on 8, 16, 32, … of them as long as there is time."""
    until = time.perf_counter() + seconds
    points: list[tuple[int, float]] = []
    size = min(FIRST, len(examples))
    work(spread_over(examples, size))  # what is loaded or made once is not to count
    while True:
        some = spread_over(examples, size)
        began = time.perf_counter()
        work(some)
        points.append((size, time.perf_counter() - began))
        if size >= len(examples) or time.perf_counter() + 2.5 * points[-1][1] > until:
            return line_at(points[-2:], count)
        size = min(2 * size, len(examples))


def line_at(points: Sequence[tuple[int, float]], count: int) -> float:
    """The value at `count` of the line through the last two points; through one and nothing, if there is but one."""
    (size, spent) = points[-1]
    if len(points) < 2:
        return spent * count / max(1, size)
    before, less = points[-2]
    slope = min(max(0.0, (spent - less) / max(1, size - before)), spent / max(1, size))
    return spent + slope * (count - size)
