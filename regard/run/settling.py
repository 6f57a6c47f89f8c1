"""What a recipe leaves open is settled before the first step: precision and threads by a trial, lanes by a rule, memory
by a look.

What was measured becomes part of the recipe of the run, so that a run that goes on computes as it began. Threads that
were not compared with others are left out there: as many as the process has, as in a recipe that does not name them.
"""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import torch

from regard.data.corpus import StoreCorpus
from regard.errors import ResourceError
from regard.models import System
from regard.process import keep_few_programs, memory_free, memory_now, swap_free
from regard.recipe.build import training_settings
from regard.recipe.objectives import build_objective
from regard.recipe.schema import Recipe
from regard.run.folder import RunFolder
from regard.training import Checkpoints, Trainer, Verdict
from regard.training.limits import expected_steps
from regard.training.memory import Memory, needed
from regard.training.processes import Processes
from regard.training.settings import Precision, Settings
from regard.training.ways import Choice, Way, choose, fewer_threads

OPEN: Final = ("precision", "threads")
"""Settings that `auto` leaves to a measurement."""

NARROW: Final = 256
LARGE: Final = 4096
"""A Transformer below this width learns from batches of at least so many tokens in two lanes."""

FINEST: Final = 64
"""More micro-batches than this are advised to nobody."""


@dataclass(frozen=True, slots=True)
class Settled:
    """A recipe that leaves nothing open, and what was chosen in it, if anything was."""

    recipe: Recipe
    choice: Choice | None


def keep_chosen(recipe: Recipe, there: Recipe, *, world: int = 1) -> Recipe:
    """What a run has chosen stays chosen when it goes on.

    Not so threads where it goes on in several processes: they were measured for one that had all cores.
    """
    kept = {name: getattr(there.training, name) for name in OPEN if getattr(recipe.training, name) == "auto"}
    if recipe.training.lanes is None:
        kept["lanes"] = there.training.lanes
    if "threads" in kept and world > 1:
        kept["threads"] = None
    return _with(recipe, kept)


def as_begun(recipe: Recipe) -> Recipe:
    """A recipe with what its run has chosen, where that has begun: the one that it will go on with, in one process."""
    folder = RunFolder(Path(recipe.run))
    return keep_chosen(recipe, folder.read_recipe()) if folder.begun and folder.recipe.exists() else recipe


def _with(recipe: Recipe, changes: dict[str, object]) -> Recipe:
    if not changes:
        return recipe
    return recipe.model_copy(update={"training": recipe.training.model_copy(update=changes)})


def settle(
    recipe: Recipe, system: System, corpus: StoreCorpus, checkpoints: Checkpoints, processes: Processes
) -> Settled:
    """Choose what is open, and say it to all processes; nothing of a system or a run is changed by it."""
    section = recipe.training
    choice = None
    if section.precision in ("bfloat16", "auto"):
        keep_few_programs()
    if any(getattr(section, name) == "auto" for name in OPEN) and processes.main:
        choice = _chosen(recipe, system, corpus, checkpoints, processes)
        threads = choice.way.threads if choice.compared_threads else None
        found = {"precision": choice.way.precision, "threads": threads}
        recipe = _with(recipe, {name: found[name] for name in OPEN if getattr(section, name) == "auto"})
    told = processes.told_by_main({name: getattr(recipe.training, name) for name in OPEN})
    recipe = _with(recipe, told)
    if isinstance(recipe.training.threads, int):
        torch.set_num_threads(recipe.training.threads)
    return Settled(_with(recipe, {"lanes": lanes(recipe, processes.world)}), choice)


def lanes(recipe: Recipe, world: int = 1) -> int:
    """Parts of a batch that are learned from at the same time: what the recipe says, or what is faster by a rule.

    Measured on two threads with batches of 4,096 tokens: a Transformer of width 128 learns 1.12 times as fast in two
    lanes (1.03 times in half precision), one of width 64 1.02 times; from width 256 on products are large enough to be
    shared, and recurrent networks gain nothing either. With smaller batches lanes wait for the interpreter.
    """
    section, model = recipe.training, recipe.model
    if section.lanes is not None:
        return section.lanes
    narrow = model.width < NARROW and {"transformer"} == {side.kind for side in (model.encoder, model.decoder) if side}
    suits = narrow and section.batch_tokens >= LARGE * section.accumulate and not section.lanes_hindrance()
    return 2 if suits and world == 1 and torch.get_num_threads() in (2, 4) else 1


def _chosen(
    recipe: Recipe, system: System, corpus: StoreCorpus, checkpoints: Checkpoints, processes: Processes
) -> Choice:
    section = recipe.training
    most = section.threads if isinstance(section.threads, int) else torch.get_num_threads()
    settings = training_settings(recipe)
    rule = Way(settings.precision, most)
    if processes.world > 1:
        return Choice(way=rule, reason=f"{processes.world} processes share each batch")
    if section.compile:
        return Choice(way=rule, reason="every way would have to be compiled")
    others: tuple[Precision, ...] = ("bfloat16",) if section.precision == "auto" else ()
    trainer = Trainer(
        system,
        corpus,
        settings=replace(settings, moving_average=None, lanes=lanes(recipe)),
        objective=build_objective(recipe),
        validate=_never,
        checkpoints=checkpoints,
    )
    return choose(
        trainer,
        rule,
        precisions=others,
        threads=fewer_threads(most) if section.threads == "auto" else (),
        steps=likely_steps(settings, corpus.batches_in_epoch()),
        most_seconds=None if settings.minutes is None else 60 * settings.minutes,
    )


def _never(system: System) -> Verdict:  # noqa: ARG001
    raise AssertionError("a trial validates nothing")


def likely_steps(settings: Settings, epoch: int) -> float:
    """Steps that a run will take if nothing ends it sooner; by patience alone, those it takes at least."""
    steps = expected_steps(settings, epoch)
    if steps is not None:
        return steps
    if settings.patience is None:
        return math.inf
    return (settings.patience + 1) * (settings.validate_every or epoch)


@dataclass(frozen=True, slots=True)
class Room:
    """What a process holds, and at the same moment what it may still take in memory (None if not told) and on disk.

    Taken before anything is tried: a process keeps what it freed, which then is neither free nor needed once more.
    """

    held: int
    free: int | None
    swap: int = 0

    @classmethod
    def now(cls) -> "Room":
        return cls(memory_now(), memory_free(), swap_free())


@dataclass(frozen=True, slots=True)
class MemoryOutlook:
    """What a training needs beside what is free; `advice` where that is too little."""

    memory: Memory
    free: int | None
    advice: str = ""

    def line(self) -> str:
        """For people."""
        memory = self.memory
        return (
            f"memory: about {_size(memory.peak)} (learning {_size(memory.state)}, activations of the largest batch "
            f"{_size(memory.activations)})" + ("" if self.free is None else f"; {_size(self.free)} are free")
        )


def memory_outlook(trainer: Trainer, corpus: StoreCorpus, room: Room) -> MemoryOutlook:
    """What a training will need and whether it is there.

    What no splitting of batches could mend is refused where not even the disk has room for it.
    """
    memory, free = needed(trainer, corpus.largest(trainer.settings.accumulate), held=room.held), room.free
    if free is None or memory.more <= free:
        return MemoryOutlook(memory, free)
    if memory.state > free + room.swap:
        raise ResourceError(
            f"weights, gradients and the optimiser need {_size(memory.state)} more memory, and {_size(free)} are free"
            + (f", besides {_size(room.swap)} of swap" if room.swap else "")
            + "; take a smaller model (model.width, model.layers, text.size), or close other programs"
        )
    if memory.state > free:
        mend = "weights, gradients and the optimiser alone are too large: a smaller model helps"
    elif parts := finer(trainer, corpus, free):
        mend = f"training.accumulate={parts} would fit"
    else:
        mend = "training.recompute=true keeps less"
    return MemoryOutlook(
        memory,
        free,
        f"training will need about {_size(memory.more)} more memory, and {_size(free)} are free: it may be slow, or be "
        f"stopped by the system. {mend}; a smaller training.batch_tokens or data.max_length helps, too",
    )


def finer(trainer: Trainer, corpus: StoreCorpus, free: int) -> int | None:
    """The fewest micro-batches, a power of two times those there are, with which a training fits."""
    parts = trainer.settings.accumulate * 2
    while parts <= FINEST:
        if needed(trainer, corpus.largest(parts), held=0).more <= free:
            return parts
        parts *= 2
    return None


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:,.0f} MB"
