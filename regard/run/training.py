"""Training as people ask for it: from a recipe to a run folder that holds a finished, judged model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from regard.data import Ledger
from regard.data.corpus import StoreCorpus
from regard.errors import DataError, UsageError
from regard.kernels.library import missing
from regard.metrics import metric
from regard.recipe.build import system_for, training_settings
from regard.recipe.objectives import build_corruption, build_objective
from regard.recipe.schema import AlignmentReading, Recipe
from regard.recipe.texts import as_written
from regard.run.choosing import choose_weights
from regard.run.folder import RunFolder
from regard.run.model import Evaluation, Model
from regard.run.preparation import Prepared, prepare_run, redraw_with, write_prepared
from regard.run.reporting import write_results
from regard.run.settling import MemoryOutlook, Room, keep_chosen, memory_outlook, settle
from regard.run.starting import check_start, start_system
from regard.run.validation import Judge, judge_by
from regard.run.watching import watch
from regard.training import (
    Event,
    Observer,
    Outcome,
    Settled,
    StartedFrom,
    Trainer,
    Validated,
    Warned,
    weights,
)
from regard.training.compiling import compile_layers
from regard.training.interrupt import heeding_signals
from regard.training.processes import Alone, Processes
from regard.training.recompute import recompute_layers
from regard.training.starting import StartReport
from regard.training.ways import Choice

MAY_CHANGE = {
    "training": {
        "steps",
        "epochs",
        "minutes",
        "patience",
        "save_every",
        "threads",
        "lanes",
        "learning_rate",
        "tensorboard",
        "warmup",
        "clip",
        "accumulate",
        "parallel",
    },
    "search": None,
    "evaluation": None,
}
"""Settings that a run may be continued with other values of; None stands for a whole section."""

DIFFERENCES = 6
"""So many differences between two recipes are told."""


@dataclass(frozen=True, slots=True)
class Trained:
    """A finished run, judged on each of its test sets."""

    model: Model
    outcome: Outcome
    evaluations: Mapping[str, Evaluation]
    ledger: Ledger


def train(
    recipe: Recipe,
    *,
    observers: Sequence[Observer] = (),
    overwrite: bool = False,
    processes: Processes | None = None,
) -> Trained:
    """Train what a recipe describes into its run folder, going on where an earlier call stopped.

    Of several processes the main one calls this, and the others call `assist`.
    """
    processes = processes or Alone()
    folder = RunFolder(Path(recipe.run))
    folder.create()
    with folder.locked(), heeding_signals():
        with processes.main_first():
            check_start(recipe, folder, overwrite=overwrite)
            if overwrite:
                folder.clear()
            recipe = check_same(recipe, folder, world=processes.world)
            prepared = prepare(recipe, folder, processes)
            check_data(prepared, folder)
            folder.write_recipe(recipe)
            write_prepared(prepared, folder)
        built = build(recipe, folder, prepared, processes)
        folder.write_recipe(built.model.recipe)
        outcome = _run_watched(built, folder, prepared, observers)
        model = built.model
        with processes.working_alone():
            outcome = replace(outcome, progress=choose_weights(built.trainer, folder))
            folder.write_weights(weights(model.system))
            model.system.eval()
            if reading := model.best_reading(prepared.valid_examples):
                model = model.with_reading(reading)
            folder.write_recipe(model.recipe)
            evaluations = {name: model.evaluate(examples) for name, examples in prepared.tests.items()}
            write_results(folder, model, prepared, evaluations, outcome.progress)
        return Trained(model, outcome, evaluations, prepared.ledger)


def assist(recipe: Recipe, processes: Processes) -> None:
    """Be another process of a training than the main one: learn from a part of each batch, and write nothing."""
    folder = RunFolder(Path(recipe.run))
    with heeding_signals():
        with processes.main_first():
            prepared = prepare(recipe, folder, processes)
        build(recipe, folder, prepared, processes).trainer.run()


def prepare(recipe: Recipe, folder: RunFolder, processes: Processes) -> Prepared:
    """The data of a run, read on as many threads as its recipe says."""
    if isinstance(recipe.training.threads, int):
        torch.set_num_threads(recipe.training.threads)
    prepared = prepare_run(recipe, folder)
    if (rows := len(prepared.train)) < processes.world:
        raise UsageError(f"{processes.world} processes cannot share {rows} training examples; start at most {rows}")
    return prepared


@dataclass(frozen=True, slots=True)
class Built:
    """A model, what trains and judges it, and what it starts from. Nobody listens yet."""

    model: Model
    trainer: Trainer
    judge: Judge
    start: StartReport | None
    choice: Choice | None
    outlook: MemoryOutlook | None


def build(recipe: Recipe, folder: RunFolder, prepared: Prepared, processes: Processes) -> Built:
    """The objects of a run; what its recipe leaves open is settled."""
    torch.manual_seed(recipe.seed)
    texts = prepared.texts
    system = system_for(recipe, texts)
    start = start_system(system, texts, recipe, folder)
    if recipe.training.compile:
        compile_layers(system)
    if recipe.training.recompute:
        recompute_layers(system)
    section = recipe.training
    corpus = StoreCorpus(
        prepared.train,
        prepared.collation,
        tokens=section.batch_tokens,
        seed=recipe.seed,
        redraw=redraw_with(as_written(recipe, texts), recipe.text.dropout, recipe.data.max_length),
        corruption=build_corruption(recipe),
    )
    room = Room.now()
    settled = settle(recipe, system, corpus, folder.checkpoints, processes)
    recipe = settled.recipe
    model = Model(recipe=recipe, system=system, texts=texts, folder=folder.path)
    valid = StoreCorpus(prepared.valid, prepared.collation, tokens=section.batch_tokens, seed=recipe.seed)

    judge = None if section.select == "loss" else metric(section.select, tokenize=recipe.evaluation.tokenize)
    validate = judge_by(valid, judge, model, prepared.valid_examples)
    trainer = Trainer(
        system,
        corpus,
        settings=training_settings(recipe),
        objective=build_objective(recipe),
        validate=validate,
        checkpoints=folder.checkpoints,
        processes=processes,
    )
    trainer.step_seconds = None if settled.choice is None else settled.choice.step_seconds
    outlook = memory_outlook(trainer, corpus, room) if processes.world == 1 else None
    return Built(model, trainer, validate, start, settled.choice, outlook)


def _run_watched(built: Built, folder: RunFolder, prepared: Prepared, observers: Sequence[Observer]) -> Outcome:
    """Train, with all that is written and told while it goes on."""
    model, trainer = built.model, built.trainer

    def keep_best(event: Event) -> None:
        """Whoever stops a training has the best model so far."""
        if isinstance(event, Validated) and event.gained:
            folder.write_weights(weights(model.system))

    epoch = trainer.corpus.batches_in_epoch()
    watching = watch(folder, model, prepared, built.judge, [keep_best, *observers], epoch=epoch)
    trainer.observers = [watching]
    if built.start is not None:
        start = model.recipe.model.start_from or ""
        trainer.tell(StartedFrom(trainer.progress, start, tuple(built.start.summary())))
    watching.first = _settled(built)
    with watching:
        return trainer.run()


def _settled(built: Built) -> list[Settled | Warned]:
    """What was chosen and what memory will be needed, in a line each; a warning where that is more than there is."""
    choice, outlook, progress = built.choice, built.outlook, built.trainer.progress
    lines = [one.line() for one in (choice, outlook) if one is not None]
    told: list[Settled | Warned] = []
    if lines:
        told.append(Settled(progress, tuple(lines), 0 if outlook is None else outlook.memory.peak))
    if outlook is not None and outlook.advice:
        told.append(Warned(progress, "memory", outlook.advice))
    if reason := missing():
        told.append(
            Warned(progress, "kernels", f"no native kernels, which can make training three times as fast: {reason}")
        )
    return told


def check_same(recipe: Recipe, folder: RunFolder, *, world: int = 1) -> Recipe:
    """Refuse to go on with a run whose recipe was another one. Where nothing was learned yet, that is no loss.

    The recipe to go on with is the new one; a reading of attention that the run has chosen stays.
    """
    if not folder.begun:
        folder.clear_beginning()
    if not folder.recipe.exists():
        return recipe
    there = folder.read_recipe()
    recipe = keep_chosen(recipe, there, world=world)
    differences = [
        f"{path}: {old!r} there, {new!r} here" for path, old, new in _differences(there, recipe) if not _free(path)
    ]
    if differences:
        raise UsageError(
            f"{folder.path}: this folder holds a run of another recipe ("
            + "; ".join(differences[:DIFFERENCES])
            + (f"; and {more} more" if (more := len(differences) - DIFFERENCES) > 0 else "")
            + "). Choose another folder with run=FOLDER, or start anew with --overwrite"
        )
    if recipe.evaluation.alignment != AlignmentReading():
        return recipe
    evaluation = recipe.evaluation.model_copy(update={"alignment": there.evaluation.alignment})
    return recipe.model_copy(update={"evaluation": evaluation})


def check_data(prepared: Prepared, folder: RunFolder) -> None:
    """Refuse to go on with other data than the run began with: the place in it would mean something else."""
    stores = {"format": 1, "train": prepared.train.key, "valid": prepared.valid.key}
    if not folder.checkpoints.steps():
        if folder.metrics.exists():
            raise UsageError(
                f"{folder.path}: the run is finished and its checkpoints are gone, so it cannot go on. Choose another "
                "folder with run=FOLDER, or start anew with --overwrite"
            )
        folder.write_json(folder.stores, stores)
    elif folder.read_json(folder.stores) != stores:
        raise DataError(
            f"{folder.path}: the training or validation data changed since this run began. Go on with the data as it "
            "was, choose another folder with run=FOLDER, or start anew with --overwrite"
        )


def _differences(one: Recipe, other: Recipe) -> list[tuple[str, object, object]]:
    def flat(value: object, path: str) -> dict[str, object]:
        if isinstance(value, dict):
            return {key: item for name, part in value.items() for key, item in flat(part, f"{path}.{name}").items()}
        return {path.removeprefix("."): value}

    old, new = flat(one.model_dump(), ""), flat(other.model_dump(), "")
    return [
        (key, old.get(key), new.get(key))
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key) and key != "run"
    ]


def _free(path: str) -> bool:
    section, _, name = path.partition(".")
    if section not in MAY_CHANGE:
        return False
    allowed = MAY_CHANGE[section]
    return allowed is None or name in allowed
